"""Known defects, each as a change of the code that puts it back, and whether the fast tests catch it (``make mutants``)."""

import __future__

import ast
import inspect
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from types import CodeType, FunctionType
from typing import Any

import msgspec

from jobcommon.testutil.pairs.histories import judge

SEEDS = 120
"""So many histories of two features are tried."""


class Patch(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """In the function `of` (its module below jobcommon, and its name there) `new` takes the place of `old`."""

    of: str
    old: str
    new: str

    @property
    def function(self) -> Any:
        """The function itself: of a property its getter."""
        module, _, name = self.of.partition(" ")
        found: Any = import_module(f"jobcommon.{module}")
        for part in name.split("."):
            found = inspect.getattr_static(found, part)
        found = getattr(found, "fget", None) or getattr(found, "func", None) or getattr(found, "__func__", found)
        assert isinstance(found, FunctionType), f"{self.of} is no function"
        return found

    def applied(self, text: str) -> str:
        """The text with the change. Raises ValueError unless it has `old` once."""
        if text.count(self.old) != 1:
            raise ValueError(f"{self.of} has {text.count(self.old)} times: {self.old}")
        return text.replace(self.old, self.new)


@contextmanager
def patched(patches: Iterable[Patch]) -> Iterator[None]:
    """Run with these changes, wherever the functions are known by now. Raises ValueError if one cannot be made."""
    texts: dict[Any, str] = {}
    for patch in patches:
        function = patch.function
        texts[function] = patch.applied(texts.get(function) or inspect.getsource(function))
    sound = {function: function.__code__ for function in texts}
    made = {function: _compiled(function, text) for function, text in texts.items()}
    try:
        for function, code in made.items():
            function.__code__ = code
        yield
    finally:
        for function, code in sound.items():
            function.__code__ = code


def _compiled(function: Any, text: str) -> CodeType:
    """The code of that text, in the module of the function whose place it takes."""
    tree = ast.parse(dedent(text))
    (definition,) = tree.body
    assert isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef)
    definition.decorator_list = []
    made: dict[str, Any] = {}
    code = compile(tree, inspect.getfile(function), "exec", __future__.annotations.compiler_flag)
    exec(code, function.__globals__, made)  # noqa: S102 - the text is ours
    found: CodeType = made[definition.name].__code__
    return found


class Mutant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One defect, as `known.toml` has it. `features`: two that meet in it, and the `promise` that it breaks.

    `events`: what alone happens in its histories, where it takes some of them in a row.
    """

    what: str
    patches: tuple[Patch, ...]
    features: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    promise: str = ""

    def planted(self) -> AbstractContextManager[None]:
        """Run with the defect."""
        return patched(self.patches)

    def broken_promise(self) -> str:
        """The first broken promise in the histories of its features, while it is planted; "" if there is none."""
        first, second = self.features
        found = (problems for seed in range(SEEDS) if (problems := judge(first, second, seed, events=self.events)))
        return next(found, [""])[0]


def known_defects() -> Mapping[str, Mutant]:
    """All of them, by name."""
    tables = tomllib.loads((Path(__file__).parent / "known.toml").read_text(encoding="utf-8"))
    return msgspec.convert(tables, dict[str, Mutant])
