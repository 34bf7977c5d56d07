"""What decides has no clock, no chance and no output, so that a simulator can replay it and a test can state it; and no text is
state: what a pass has to know of the last one is a field of the status.

import-linter forbids the modules (.importlinter); this catches what needs no import of its own, such as ``datetime.now``.
"""

import ast
import sys
from pathlib import Path
from typing import Any

import pytest

from jobcommon.api.status import JobCondition
from jobcommon.testutil.pairs.histories import judge
from tests.architecture.source import modules, tree

PURE = (
    "jobcommon/api/", "jobcommon/framework.py", "jobcommon/manifests/", "jobcommon/reconcile/",
    "jobcommon/spec/", "jobcommon/cache/", "jobcommon/controller/", "jobcommon/diagnosis/", "jobcommon/causes/", "cli/convert/",
)  # fmt: skip
OPERATOR_MODULES = ("framework.py", "spec.py")
CLOCKS = {"now", "utcnow", "today", "fromtimestamp_local"}
RENDERER = "jobcommon/reconcile/rendering.py"
EFFECTS = {"open", "print", "input", "exec", "eval", "__import__"}


def is_pure(module: Path) -> bool:
    """Whether the rule is for this module."""
    text = module.as_posix()
    return text.startswith(PURE) or (module.parts[0] == "operators" and module.name in OPERATOR_MODULES)


def offences(syntax: ast.AST) -> list[str]:
    """Calls of clocks and of anything that leaves the process."""
    found = []
    for node in ast.walk(syntax):
        if not isinstance(node, ast.Call):
            continue
        callee = node.func
        if isinstance(callee, ast.Name) and callee.id in EFFECTS:
            found.append(f"line {node.lineno}: {callee.id}()")
        elif isinstance(callee, ast.Attribute) and callee.attr in CLOCKS and isinstance(callee.value, ast.Name | ast.Attribute):
            owner = callee.value.id if isinstance(callee.value, ast.Name) else callee.value.attr
            if owner in {"datetime", "date", "Timestamp"}:
                found.append(f"line {node.lineno}: {owner}.{callee.attr}()")
    return found


def test_pure_modules_read_no_clock_and_print_nothing() -> None:
    found = {str(module): offences(tree(module)) for module in modules() if is_pure(module)}
    assert {module: lines for module, lines in found.items() if lines} == {}


def test_no_message_of_a_condition_is_read_by_what_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """By whatever name: a whole history, watched."""
    readers: set[str] = set()

    def watched(condition: JobCondition, name: str) -> Any:
        if name in ("message", "last_update_time"):
            readers.add(sys._getframe(1).f_code.co_filename)  # noqa: SLF001 - it names who reads
        return object.__getattribute__(condition, name)

    monkeypatch.setattr(JobCondition, "__getattribute__", watched, raising=False)
    for pair in (("pending", "refusals"), ("kueue", "kept-logs"), ("stall-restart", "attempts")):
        assert judge(*pair, 1) == []
    found = {name for name in readers if "jobcommon/reconcile/" in name}
    assert {Path(name).name for name in found} == {Path(RENDERER).name}
