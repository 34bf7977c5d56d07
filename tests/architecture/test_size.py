"""Modules stay small enough to be read at once; ruff holds the limit of functions (PLR0915)."""

import ast

from tests.architecture.source import modules, tree

MAX_MODULE = 350
"""Statements. Lines would reward long ones, and comments left out."""

# Of all modules of an operator, which has a framework's facts and hooks. MPI has three API versions, host files and SSH keys;
# PyTorch's checks know its launchers.
OPERATORS = {"jax": 15, "mpi": 451, "mxnet": 100, "paddle": 50, "pytorch": 210, "tf": 90, "xgboost": 25}


def statements(code: ast.AST) -> int:
    """The statements of a module, with those of functions and the docstrings."""
    return sum(isinstance(node, ast.stmt) for node in ast.walk(code))


def test_modules_are_short() -> None:
    sizes = {str(module): statements(tree(module)) for module in modules()}
    assert {module: size for module, size in sizes.items() if size > MAX_MODULE} == {}


def test_operators_are_short() -> None:
    sizes = dict.fromkeys((path.parent for path in modules() if path.match("operators/*/framework.py")), 0)
    for module in modules():
        if module.parent in sizes:
            sizes[module.parent] += statements(tree(module))
    long = {path.name: size for path, size in sizes.items() if size > OPERATORS.get(path.name, 0)}
    assert not long, "what more than one kind needs is the library's"
