"""Tests and test tools use the library's public names, so that its inside can change without them.

A private name of `jobcommon` or `operators` may be used only if it is listed here, with the reason.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.architecture.source import ROOT, tree

#: Private names of the library that tests use, and why.
EXCEPTIONS = {
    "_indexed": "that an index forgets empty entries shows in memory only, not in any result",
    "_timers": "that void timers do not pile up shows in memory only, not in any result",
}
LIBRARY = ("jobcommon", "operators")
TEST_CODE = ("tests", "testutil")
#: Documented methods of named tuples.
_NOT_PRIVATE = {"_replace", "_fields", "_asdict"}


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_" and name not in _NOT_PRIVATE


def _defined(scope: ast.AST) -> Iterator[str]:
    """The names of functions, classes, variables and attributes that a module or class defines."""
    for node in ast.walk(scope):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case (
                ast.Attribute(attr=name, value=ast.Name(id="self" | "cls"), ctx=ast.Store())
                | ast.Name(id=name, ctx=ast.Store())
            ):
                yield name


def _files(packages: tuple[str, ...]) -> list[Path]:
    return [path.relative_to(ROOT) for package in packages for path in sorted((ROOT / package).rglob("*.py"))]


def _private_names() -> set[str]:
    return {name for path in _files(LIBRARY) for name in _defined(tree(path)) if _is_private(name)}


def _used(module: ast.Module) -> Iterator[tuple[ast.expr | str, str]]:
    """Each private name that is read, replaced, overridden or imported, with what it belongs to: an expression or a module."""
    for node in ast.walk(module):
        match node:
            case ast.Attribute(value=owner, attr=name) if _is_private(name):
                yield owner, name
            case ast.ClassDef(bases=bases, body=body):
                methods = [f for f in body if isinstance(f, ast.FunctionDef | ast.AsyncFunctionDef) and _is_private(f.name)]
                imported = [base for base in bases if isinstance(base, ast.Name) and base.id in _homes_of(module)]
                yield from ((base, method.name) for base in imported for method in methods)
            case ast.ImportFrom(module=str(home), names=names):
                yield from ((home, alias.name) for alias in names if _is_private(alias.name))
            case ast.Call(args=[owner, ast.Constant(value=str(name)), *_]) if _is_private(name):
                yield owner, name
            case ast.Tuple(elts=[ast.Name() | ast.Attribute() as owner, ast.Constant(value=str(name)), *_]) if _is_private(
                name
            ):
                yield owner, name


@cache
def _homes_of(module: ast.Module) -> dict[str, str]:
    """By name, the module or package that it is imported from."""
    return {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


@cache
def _inside_classes(module: ast.Module) -> set[ast.AST]:
    return {node for cls in ast.walk(module) if isinstance(cls, ast.ClassDef) for node in ast.walk(cls)}


@cache
def _own_names() -> set[str]:
    """The private names that classes of the test code define."""
    classes = (cls for path in _files(TEST_CODE) for cls in ast.walk(tree(path)) if isinstance(cls, ast.ClassDef))
    return {name for cls in classes for name in _defined(cls)}


def _is_of_the_library(owner: ast.expr | str, name: str, module: ast.Module) -> bool:
    """Whether the name may be the library's, and is not certainly one of the test code or of another package."""
    if isinstance(owner, ast.Call) and ast.unparse(owner) == "super()":
        return True
    while isinstance(owner, ast.Attribute | ast.Call):
        owner = owner.value if isinstance(owner, ast.Attribute) else owner.func
    if isinstance(owner, ast.Name):
        # In a class of the test code `self` is its own; in a function that replaces a method it is the library's.
        if owner.id in ("self", "cls") and name in _own_names() and owner in _inside_classes(module):
            return False
        owner = _homes_of(module).get(owner.id, "jobcommon")
    if not isinstance(owner, str):
        return True
    package, _, rest = owner.partition(".")
    return package in LIBRARY and rest.partition(".")[0] not in ("testutil", "localcluster", "cli")


@cache
def _uses() -> dict[str, list[str]]:
    known, found = _private_names(), dict[str, list[str]]()
    for path in _files(TEST_CODE):
        module = tree(path)
        for owner, name in _used(module):
            if name in known and _is_of_the_library(owner, name, module):
                found.setdefault(name, []).append(str(path))
    return found


def test_tests_use_public_names() -> None:
    unlisted = {name: paths for name, paths in _uses().items() if name not in EXCEPTIONS}
    assert unlisted == {}, "make it public, or test through it"


def test_the_exceptions_are_few_and_needed() -> None:
    assert len(EXCEPTIONS) <= 10
    assert _uses().keys() >= EXCEPTIONS.keys()


def test_a_private_name_is_found() -> None:
    module = ast.parse(
        "from jobcommon.cache.store import Store, _hidden\nfrom jobcommon.cli import finalizers\n"
        "SWAPS = ((Store, '_put', None),)\nfinalizers._release(store._drop)\n"
        "class Larger(Store):\n    def _index(self): pass\n"
    )
    found = {name for owner, name in _used(module) if _is_of_the_library(owner, name, module)}
    assert found == {"_hidden", "_put", "_drop", "_index"}
