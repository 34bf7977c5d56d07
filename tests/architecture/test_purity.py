"""What decides has no clock, no chance and no output, so that a simulator can replay it and a test can state it.

import-linter forbids the modules (.importlinter); this catches what needs no import of its own, such as ``datetime.now``.
"""

import ast
from pathlib import Path

import pytest

from tests.architecture.source import modules, tree

PURE = (
    "jobcommon/api/", "jobcommon/framework.py", "jobcommon/reconcile/", "jobcommon/cache/", "jobcommon/controller/",
    "jobcommon/diagnosis/", "cli/convert/",
)  # fmt: skip
OPERATOR_MODULES = ("framework.py", "spec.py")
CLOCKS = {"now", "utcnow", "today", "fromtimestamp_local"}
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


@pytest.mark.parametrize("line", ["datetime.now(UTC)", "datetime.datetime.utcnow()", "date.today()", "open('x')", "print(1)"])
def test_the_rule_finds(line: str) -> None:
    assert offences(ast.parse(line))


def test_the_rule_is_about_something() -> None:
    pure = {m.as_posix() for m in modules() if is_pure(m)}
    assert {
        "jobcommon/reconcile/decision.py",
        "jobcommon/controller/job_controller.py",
        "operators/pytorch/framework.py",
    } <= pure
