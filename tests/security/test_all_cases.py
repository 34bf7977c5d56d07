"""Every attack case has a test that bears its number, and a line in the documentation."""

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
CASES = range(1, 27)


def numbers() -> dict[int, list[str]]:
    found: dict[int, list[str]] = {number: [] for number in CASES}
    for path in sorted(HERE.glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_s"):
                for text in re.findall(r"(?<=_s)\d\d(?=_)", node.name):
                    found[int(text)].append(node.name)
    return found


def test_no_attack_case_is_without_a_test() -> None:
    assert [number for number, tests in numbers().items() if not tests] == []


def test_no_attack_case_is_without_a_line_in_the_documentation() -> None:
    text = (HERE.parents[1] / "docs" / "security.md").read_text(encoding="utf-8")
    listed = [int(number) for number in re.findall(r"^\| S(\d+) \|", text, re.MULTILINE)]
    assert listed == list(CASES)
    for path in re.findall(r"`(tests/[\w/]+\.py)`", text):
        assert (HERE.parents[1] / path).is_file(), path
