"""Cases that once failed: each line of the files in tests/sim/regressions is one, with what was wrong."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from jobcommon.testutil.sim.campaign import Case
from jobcommon.testutil.sim.faults import Fault

DIRECTORY = Path(__file__).resolve().parents[2] / "tests" / "sim" / "regressions"


class Regression(msgspec.Struct, forbid_unknown_fields=True):
    """One line: the case, and what was wrong."""

    why: str
    scenario: str
    seed: int
    faults: list[Fault] = []

    @property
    def case(self) -> Case:
        """The run to be made again."""
        return Case(self.scenario, self.seed, tuple(self.faults))


def regressions(directory: Path = DIRECTORY) -> Iterator[Regression]:
    """All of them, by file and line."""
    for path in sorted(directory.glob("*.jsonl")):
        for line in path.read_bytes().splitlines():
            if line.strip():
                yield msgspec.json.decode(line, type=Regression)


def cases() -> Iterator[Case]:
    """The runs to be made again."""
    return (regression.case for regression in regressions())
