"""The sweep: a fault at every write of a lifecycle, one run each.

The thin sweep takes a sample by a fixed rule, so that it is the same every time: of the writes of a lifecycle in order, every
`step`-th, beginning at another one for each kind of fault, so that all kinds and, over the lifecycles, all points have a turn.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

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
"""What happens at each write."""


def references(names: Sequence[str], seeds: Sequence[int], workers: int) -> list[Verdict]:
    """The fault-free runs, in order; they say how many points there are."""
    found = campaign.references(((name, seed) for name in names for seed in seeds), workers)
    return sorted(found, key=lambda verdict: (names.index(verdict.case.scenario), verdict.case.seed))


def write_points(found: Sequence[Verdict], step: int = 1) -> Iterator[Case]:
    """Every `step`-th of all write points × faults."""
    for number, verdict in enumerate(found):
        for kind, fault in enumerate(WRITE_FAULTS):
            # What is edited of a job that Kueue has admitted is queued anew.
            if fault.kind == "replicas-unreadable" and "/L18-" in verdict.case.scenario:
                continue
            for point in range((number + kind * 7) % step, verdict.writes, step):
                value = str(number * 7 + point) if fault.kind == "replicas-unreadable" else fault.value
                yield replace(verdict.case, faults=(replace(fault, write=point, value=value),))
