"""A public name has one meaning: who greps for it finds one class, function or constant of the library."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.source import modules, tree

#: Type variables, and aliases of one type that each module calls by the same word.
SHARED = {"T", "Json", "Object", "Query"}


def names(module: Path) -> Iterator[str]:
    """The public names that a module defines at its top."""
    for node in tree(module).body:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found = [name]
            case ast.Assign(targets=targets):
                parts = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
                found = [part.id for part in parts if isinstance(part, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=name)):
                found = [name]
            case _:
                continue
        yield from (name for name in found if not name.startswith("_"))


def library() -> list[Path]:
    """The modules of the library itself."""
    return [module for module in modules() if module.parts[0] == "jobcommon"]


def test_no_two_modules_define_the_same_public_name() -> None:
    where = defaultdict(set)
    for module in library():
        for name in names(module):
            where[name].add(str(module))
    assert {name: found for name, found in where.items() if len(found) > 1 and name not in SHARED} == {}
