"""What a row of the table is: what is done to a job, and how it and its pods must come out of it.

How a pod ended reads: phase, reason, exit code, reason of DisruptionTarget, and ``x2`` when its container ran twice in place.
Of every name the pods stand in order of their creation.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from jobcommon.api.status import ConditionType
from jobcommon.testutil.real.manifests import PYTORCHJOB, Kind, Manifest
from jobcommon.testutil.real.steps import Step

SUCCEEDED, FAILED, SUSPENDED, RUNNING, RESTARTING = (
    ConditionType.SUCCEEDED, ConditionType.FAILED, ConditionType.SUSPENDED, ConditionType.RUNNING, ConditionType.RESTARTING
)  # fmt: skip
ELECTED = ("--leader-elect", "--lease-name", "training-operators")
EVICTED = "EvictionByEvictionAPI"


@dataclass(frozen=True)
class Expected:
    """The end. `state` is the job's last condition, "" for a row without a job or whose job is gone; `reason` that
    condition's; `disruptions` is None where chance decides on them; `events` are reasons of events that there must be;
    `order` what was seen of the first pod of a name.
    """

    state: str = SUCCEEDED
    pods: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    restarts: int = 0
    disruptions: int | None = 0
    reason: str = ""
    events: tuple[str, ...] = ()
    order: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """One row: `job` is created, by an operator with the arguments `operator` (None: without one), and the steps taken."""

    name: str
    steps: tuple[Step, ...]
    expected: Expected
    job: Manifest | None = None
    kind: Kind = PYTORCHJOB
    operator: tuple[str, ...] | None = ()
    also_needs: frozenset[str] = frozenset()

    @property
    def needs(self) -> frozenset[str]:
        """What its cluster must give."""
        return self.also_needs.union(*(step.needs for step in self.steps))

    @property
    def alone(self) -> bool:
        """Whether it disturbs other rows."""
        return self.operator == ELECTED or any(step.alone for step in self.steps)
