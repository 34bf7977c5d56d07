"""Known defects, each as a change of the code that puts it back, and whether the fast tests catch it (``make mutants``)."""

import tomllib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from jobcommon.testutil.mutants.patch import Patch, patched
from jobcommon.testutil.pairs.histories import judge

SEEDS = 120
"""So many histories of two features are tried."""


class Mutant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One defect, as `known.toml` has it. `features`: two that meet in it, and the `promise` that it breaks.

    `events`: what alone happens in its histories, where it takes some of them in a row.
    """

    what: str
    patches: tuple[Patch, ...]
    pair: str = ""
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
