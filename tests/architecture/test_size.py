"""Modules and functions stay small enough to be read at once. A written exception needs a reason."""

import ast
from pathlib import Path

from tests.architecture.source import ROOT, functions, modules

MAX_LINES = 400
MAX_STATEMENTS = 50

# module or module:function -> (its own limit, why it may be longer)
EXCEPTIONS: dict[str, tuple[int, str]] = {}


def statements(function: ast.AST) -> int:
    """The statements of a function, those of nested functions and the docstring included, as ruff counts them or more."""
    return sum(isinstance(node, ast.stmt) for node in ast.walk(function)) - 1


def limit_of(name: str, usual: int) -> int:
    """The limit of a module or function: its own, or the usual one."""
    return EXCEPTIONS.get(name, (usual, ""))[0]


def test_modules_are_short() -> None:
    long = {
        str(module): lines
        for module in modules()
        if (lines := len((ROOT / module).read_text(encoding="utf-8").splitlines())) > limit_of(str(module), MAX_LINES)
    }
    assert not long, "split the module, or write down why not"


def test_functions_are_short() -> None:
    long = {
        f"{module}:{name}": size
        for module in modules()
        for name, node in functions(module)
        if (size := statements(node)) > limit_of(f"{module}:{name}", MAX_STATEMENTS)
    }
    assert not long, "split the function, or write down why not"


def test_exceptions_have_reasons_and_are_needed() -> None:
    for name, (limit, reason) in EXCEPTIONS.items():
        module, _, function = name.partition(":")
        assert len(reason) > 20, f"{name}: say why"
        if function:
            size = statements(dict(functions(Path(module)))[function])
            assert MAX_STATEMENTS < size <= limit, f"{name}: the exception is no longer needed"
        else:
            size = len((ROOT / module).read_text(encoding="utf-8").splitlines())
            assert MAX_LINES < size <= limit, f"{name}: the exception is no longer needed"
