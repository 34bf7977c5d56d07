"""Clues to causes: tables of records in `clues/`, each a pattern with what it reveals, found in time linear in the text.

A table is one set of RE2, read and compiled when it is first asked. Where RE2 has no wheel (musl), `re` takes the same
patterns.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import compress
from pkgutil import get_data
from typing import Any

from jobcommon.causes.cause import Cause, in_short

try:
    import re2
except ImportError:
    re2 = None

_TABLES = {"clue": "programs.toml"}
#: So much of a text is looked at, from its end: as much as a kubelet keeps, and a log's last lines.
MOST = 16_384
# The set's memory: one that is too small makes it slow, and none of these patterns needs as much.
_MEMORY = 1 << 26


@dataclass(frozen=True)
class Clue:
    """A record of a table; the comment in programs.toml says what its fields mean."""

    pattern: str
    reason: str
    advice: str
    example: str
    miss: str
    text: str = ""
    local: str = ""
    symptom: bool = False
    vague: bool = False

    def cause(self, text: str, groups: Sequence[str], *, local: bool) -> Cause:
        """The cause that it reveals in this text, in which its groups matched so."""
        advice = self.local if local and self.local else self.advice
        said = self.text.format(*groups) if self.text else in_short(text)
        return Cause(self.reason, said, advice.format(*groups) if groups else advice, self.symptom, vague=self.vague)


class Table:
    """The clues of one table, the first that matches decides."""

    def __init__(self, clues: Sequence[Clue], *, linear: bool = True) -> None:
        self.clues = clues
        self._linear = linear and re2 is not None
        if self._linear:
            self._options = re2.Options()
            self._options.case_sensitive = False
            self._options.max_mem = _MEMORY
            self._set = re2.Set.SearchSet(self._options)
            for clue in clues:
                self._set.Add(clue.pattern)
            self._set.Compile()

    def matching(self, text: str) -> list[Clue]:
        """Those that the text has, in the order of the table."""
        text = text[-MOST:]
        if self._linear:
            return [self.clues[at] for at in sorted(self._set.Match(text) or ())]
        return [*compress(self.clues, (self._compiled(clue).search(text) for clue in self.clues))]

    def place(self, clue: Clue, text: str) -> tuple[int, list[str]]:
        """Where in the text a clue that it has begins, and its groups."""
        found = self._compiled(clue).search(text[-MOST:])
        groups = [group or "" for group in found.groups()] if found is not None else []
        return max(len(text) - MOST, 0) + (found.start() if found is not None else 0), groups

    def _compiled(self, clue: Clue) -> Any:
        return re2.compile(clue.pattern, self._options) if self._linear else re.compile(clue.pattern, re.IGNORECASE)


@cache
def table(name: str) -> Table:
    """The table of that name."""
    return Table([Clue(**record) for record in _file(_TABLES.get(name, "platform.toml"))[name]])


@cache
def _file(name: str) -> dict[str, list[dict[str, Any]]]:
    # Most processes need no clue.
    import tomllib

    return tomllib.loads((get_data("jobcommon.causes", f"clues/{name}") or b"").decode())


def revealed(text: str, *tables: str, local: bool = False) -> Cause | None:
    """The cause of the first clue that the text has, by these tables in turn."""
    for name in tables:
        for clue in table(name).matching(text)[:1]:
            return clue.cause(text, table(name).place(clue, text)[1], local=local)
    return None
