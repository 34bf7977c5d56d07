"""Sweeps: a fault at every point of a lifecycle, one run each.

The thin sweep takes a sample by a fixed rule, so that it is the same every time: of the points of a lifecycle in order, every
`step`-th, beginning at another one for each kind of fault, so that all kinds and, over the lifecycles, all points have a turn.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from jobcommon.testutil.sim import campaign
from jobcommon.testutil.sim.campaign import Case, Verdict
from jobcommon.testutil.sim.faults import Fault

WRITE_FAULTS = (
    Fault("crash-before", write=0),
    Fault("crash-after", write=0),
    Fault("reply-lost", write=0),
    Fault("conflict", write=0),
    Fault("throttled", write=0, value="1"),
    Fault("server-error", write=0, value="500"),
    Fault("timeout-after", write=0),
    Fault("forbidden", write=0, seconds=30.0),
    Fault("lease-lost", write=0),
    Fault("replicas-unreadable", write=0, seconds=20.0),
)
"""What happens at each write of the write-point sweep."""
READ_FAULTS = (
    Fault("crash-before", read=0),
    Fault("reply-lost", read=0),
    Fault("server-error", read=0, value="500"),
    Fault("throttled", read=0, value="1"),
)
"""What happens at each list, watch and event of the read-point sweep."""
EXHAUSTIVE_PAIRS = ("L2-retryable-exit", "L8-suspend-resume", "L11-recreated")
"""Of these lifecycles every pair of crashes is tried."""


def references(names: Sequence[str], seeds: Sequence[int], workers: int) -> list[Verdict]:
    """The fault-free runs, in order; they say how many points there are."""
    found = campaign.references(((name, seed) for name in names for seed in seeds), workers)
    return sorted(found, key=lambda verdict: (names.index(verdict.case.scenario), verdict.case.seed))


def write_points(found: Sequence[Verdict], step: int = 1) -> Iterator[Case]:
    """Every `step`-th of all write points × faults."""
    yield from _points(found, WRITE_FAULTS, step)


def read_points(found: Sequence[Verdict], step: int = 1) -> Iterator[Case]:
    """Every `step`-th of all read points × faults."""
    yield from _points(found, READ_FAULTS, step)


def double_crashes(found: Sequence[Verdict], step: int = 1) -> Iterator[Case]:
    """Two crashes in one run: every pair in three lifecycles, every 20th elsewhere, and of these every `step`-th."""
    for number, verdict in enumerate(found):
        case = verdict.case
        sparse = 1 if case.scenario.partition("/")[2] in EXHAUSTIVE_PAIRS else 20
        pairs = combinations(range(verdict.writes + 2), 2)
        for position, (first, second) in enumerate(pairs, start=number):
            if position % (sparse * step) == 0:
                kinds = ("crash-before", "crash-after")
                choice = position // (sparse * step)
                faults = (Fault(kinds[choice % 2], write=first), Fault(kinds[choice // 2 % 2], write=second))
                yield replace(case, faults=faults)


def _points(found: Sequence[Verdict], faults: Sequence[Fault], step: int) -> Iterator[Case]:
    for number, verdict in enumerate(found):
        for kind, fault in enumerate(faults):
            # What is edited of a job that Kueue has admitted is queued anew.
            if fault.kind == "replicas-unreadable" and "/L18-" in verdict.case.scenario:
                continue
            points = verdict.writes if fault.write is not None else verdict.reads
            for point in range((number + kind * 7) % step, points, step):
                struck = replace(fault, write=point) if fault.write is not None else replace(fault, read=point)
                if fault.kind == "replicas-unreadable":
                    struck = replace(struck, value=str(number * 7 + point))
                yield replace(verdict.case, faults=(struck,))
