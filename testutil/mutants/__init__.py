"""Known defects, each as a change of the code that puts it back, and whether the fast tests catch it (``make mutants``)."""

import tomllib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from jobcommon.testutil.mutants.patch import Patch, patched


class Mutant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One defect, as `known.toml` has it."""

    what: str
    patches: tuple[Patch, ...]
    pair: str = ""

    def planted(self) -> AbstractContextManager[None]:
        """Run with the defect."""
        return patched(self.patches)


def known_defects() -> Mapping[str, Mutant]:
    """All of them, by name."""
    tables = tomllib.loads((Path(__file__).parent / "known.toml").read_text(encoding="utf-8"))
    return msgspec.convert(tables, dict[str, Mutant])
