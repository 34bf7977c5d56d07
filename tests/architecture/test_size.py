"""Modules and functions stay small enough to be read at once. A written exception needs a reason."""

import ast
from pathlib import Path

from tests.architecture.source import functions, modules, tree

MAX_MODULE = 350
MAX_FUNCTION = 50
"""Statements. Lines would reward long ones, and comments left out."""

# Of all modules of an operator, which has a framework's facts and hooks. MPI has three API versions, host files and SSH keys.
OPERATORS = {"jax": 15, "mpi": 420, "mxnet": 100, "paddle": 50, "pytorch": 130, "tf": 90, "xgboost": 25}

# module or module:function -> (its own limit, why it may be longer)
EXCEPTIONS: dict[str, tuple[int, str]] = {}


def statements(code: ast.AST) -> int:
    """The statements of a module or function, with those of nested functions and the docstring."""
    return sum(isinstance(node, ast.stmt) for node in ast.walk(code)) - isinstance(code, ast.stmt)


def limit_of(name: str, usual: int) -> int:
    """The limit of a module or function: its own, or the usual one."""
    return EXCEPTIONS.get(name, (usual, ""))[0]


def test_modules_are_short() -> None:
    long = {str(module): size for module in modules() if (size := statements(tree(module))) > limit_of(str(module), MAX_MODULE)}
    assert not long, "split the module, or write down why not"


def test_functions_are_short() -> None:
    long = {
        f"{module}:{name}": size
        for module in modules()
        for name, node in functions(module)
        if (size := statements(node)) > limit_of(f"{module}:{name}", MAX_FUNCTION)
    }
    assert not long, "split the function, or write down why not"


def test_operators_are_short() -> None:
    sizes = dict.fromkeys((path.parent for path in modules() if path.match("operators/*/framework.py")), 0)
    for module in modules():
        if module.parent in sizes:
            sizes[module.parent] += statements(tree(module))
    long = {path.name: size for path, size in sizes.items() if size > OPERATORS.get(path.name, 0)}
    assert not long, "what more than one kind needs is the library's"


def test_exceptions_have_reasons_and_are_needed() -> None:
    for name, (limit, reason) in EXCEPTIONS.items():
        module, _, function = name.partition(":")
        assert len(reason) > 20, f"{name}: say why"
        if function:
            size = statements(dict(functions(Path(module)))[function])
            assert MAX_FUNCTION < size <= limit, f"{name}: the exception is no longer needed"
        else:
            size = statements(tree(Path(module)))
            assert MAX_MODULE < size <= limit, f"{name}: the exception is no longer needed"
