"""Every reason of an event is a constant that something uses, and docs/events.md explains it."""

import ast
import re

from jobcommon.api import reasons
from tests.architecture.source import ROOT, modules, tree

#: Suffixes of a kind, as the table writes them.
_OF_KIND = ("CREATED", "RUNNING", "RESTARTING", "SUCCEEDED", "FAILED", "SUSPENDED", "RESUMED")
CONSTANTS = {name: value for name, value in vars(reasons).items() if name.isupper()}


def test_every_reason_is_documented() -> None:
    text = (ROOT / "docs/events.md").read_text(encoding="utf-8")
    documented = {
        name for row in re.findall(r"^\| (`.*?) \|", text, flags=re.MULTILINE) for name in re.findall("`([^`]+)`", row)
    }
    assert documented == {f"<Kind>{value}" if name in _OF_KIND else value for name, value in CONSTANTS.items()}


def test_every_reason_is_used() -> None:
    texts = [(ROOT / module).read_text(encoding="utf-8") for module in modules()]
    assert CONSTANTS.keys() <= {name for text in texts for name in re.findall(r"\breasons\.(\w+)", text)}


def test_no_event_and_no_end_has_a_reason_of_its_own() -> None:
    written = [
        f"{module}:{node.lineno}"
        for module in modules()
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("Event", "Deadline", "Fail")
        and any(isinstance(a, ast.Constant) for a in node.args[1:2])
    ]
    assert written == []
