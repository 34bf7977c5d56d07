"""Mutants: defects put back on purpose, to see whether the simulator's oracles catch them."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from fnmatch import fnmatchcase
from pathlib import Path
from random import Random
from typing import TypeVar

import msgspec

from jobcommon.testutil.sim import campaign, swarm
from jobcommon.testutil.sim.differential import compare
from jobcommon.testutil.sim.election import Election
from jobcommon.testutil.sim.faults import Fault
from jobcommon.testutil.sim.lifecycles import LIFECYCLES
from jobcommon.testutil.sim.mutant_workloads import WORKLOADS, request_faults
from jobcommon.testutil.sim.patch import Patch, patched
from jobcommon.testutil.sim.scenario import Scenario
from jobcommon.testutil.sim.simulation import Run, simulate

LIMIT = 1500
SCENARIOS: Mapping[str, Scenario] = {**LIFECYCLES, **WORKLOADS}
#: Faults after which every run must come to the reference's end.
USUAL = (
    "crash-before", "crash-after", "crash-in-status", "reply-lost", "conflict", "throttled", "server-error", "timeout-after",
    "watch-closed", "watch-lag", "coalesced", "missed-deletes", "partition", "pause",
)  # fmt: skip
_REFERENCES_KEPT = 100
T = TypeVar("T")


class Mutant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One defect, as `mutants.toml` tells it."""

    name: str
    what: str
    patches: tuple[Patch, ...]
    where: tuple[str, ...] = ("pytorch/L*",)
    faults: tuple[str, ...] = USUAL
    always: tuple[Fault, ...] = ()
    elects: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    pair: str = ""

    def planted(self) -> AbstractContextManager[None]:
        """Run with the defect."""
        return patched(self.patches)

    def case(self, seed: int) -> tuple[str, tuple[Fault, ...]]:
        """The scenario and the faults of a seed: three at most, in every fourth none."""
        random = Random(f"{seed}/mutants")  # noqa: S311 - reproducibility is the point
        names = [name for name in SCENARIOS if any(fnmatchcase(name, pattern) for pattern in self.where)]
        name = random.choice(names)
        count = random.randint(0, 3) if self.faults else 0
        return name, (*self.always, *(swarm.draw(random.choice(self.faults), random) for _ in range(count)))


def known_defects() -> Mapping[str, Mutant]:
    """All of them, by name."""
    tables = tomllib.loads((Path(__file__).parent / "mutants.toml").read_text(encoding="utf-8"))
    return {name: msgspec.convert({"name": name, **table}, Mutant) for name, table in tables.items()}


_references: dict[tuple[str, int], Run] = {}


def problems(mutant: Mutant, seed: int, *, planted: bool) -> list[str]:
    """What the oracles say of one run with the defect, or without; the run it is held against is always without."""
    return _of_election(mutant, seed, planted) if mutant.elects else _of_scenario(mutant, seed, planted)


def _of_election(mutant: Mutant, seed: int, planted: bool) -> list[str]:
    """Something befalls the leader; a write that it sends when its lease has run out is one too many."""
    name, _ = mutant.case(seed)
    # By these seeds the network is fast. What it is held against is a run without the defect.
    fast = seed * 3
    campaign.reference(name, fast)
    contest = Election(name, fast, mutant.elects[seed % len(mutant.elects)], mutant.always)
    return _with(mutant, planted, contest.problems)


def _of_scenario(mutant: Mutant, seed: int, planted: bool) -> list[str]:
    name, faults = mutant.case(seed)
    scenario = SCENARIOS[name]
    if (name, seed) not in _references:
        if len(_references) >= _REFERENCES_KEPT:
            _references.clear()
        _references[name, seed] = simulate(scenario, seed)
    reference = _references[name, seed]
    run = _with(mutant, planted, lambda: simulate(scenario, seed, faults))
    found = [*compare(reference, run, scenario), *request_faults(reference, run)]
    return [problem for problem in found if not planted or not mutant.by or problem.startswith(mutant.by)]


def _with(mutant: Mutant, planted: bool, act: Callable[[], T]) -> T:
    if not planted:
        return act()
    with mutant.planted():
        return act()


def hunt(mutant: Mutant, seeds: Sequence[int]) -> tuple[int, str] | None:
    """The first of the seeds that catches it, and the problem by which it does."""
    for seed in seeds:
        if found := problems(mutant, seed, planted=True):
            return seed, found[0].strip()
    return None
