"""When a run cannot get any further: told from what its pods do, by a clock that is handed in."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import Enum, auto

# A container counts as started after this many seconds; one that ends sooner is still failing.
STARTED = 30.0


class State(Enum):
    """What a pod is to the progress of its job."""

    RUNS = auto()
    WAITS = auto()
    """It cannot run: it is pending, has failed, or is between two runs."""
    DONE = auto()
    GONE = auto()


@dataclass
class _Pod:
    """`since`: it could not run then, and has not started since. `well_since`: it runs."""

    state: State = State.WAITS
    since: float | None = None
    well_since: float | None = None


@dataclass
class _Job:
    idle_since: float
    heard_at: float = 0.0
    pods: dict[str, _Pod] = field(default_factory=dict)


class Stalls:
    """Which jobs are stuck: a job with a pod that could not run for `after` seconds, or without any pod, if none of its other
    pods has printed a line in that time. Zero seconds: none ever is.

    Pods are identified by name, so that a replacement that fails like its predecessor does not reset the time.
    """

    def __init__(self, after: float) -> None:
        self.after = after
        self._jobs: dict[Hashable, _Job] = {}

    def begin(self, job: Hashable, now: float) -> None:
        """The job is there."""
        self._jobs.setdefault(job, _Job(idle_since=now))

    def pod(self, job: Hashable, name: str, state: State, now: float) -> None:
        """A pod of the job is in that state now."""
        known = self._jobs.setdefault(job, _Job(idle_since=now))
        pod = known.pods.setdefault(name, _Pod())
        pod.state = state
        if state is State.RUNS:
            pod.well_since = now if pod.well_since is None else pod.well_since
            return
        if pod.since is None or (pod.well_since is not None and now - pod.well_since >= STARTED):
            pod.since = now
        pod.well_since = None
        if state is not State.WAITS:
            known.idle_since = now

    def line(self, job: Hashable, name: str, now: float) -> None:
        """A pod of the job has printed a line. A line of a pod that cannot run is not progress."""
        known = self._jobs.get(job)
        if known is not None and name in known.pods and known.pods[name].state is State.RUNS:
            known.heard_at = now

    def stuck_at(self, job: Hashable) -> float | None:
        """When the job becomes stuck, or became so, if nothing changes until then. None: it makes progress."""
        known = self._jobs.get(job)
        if known is None or not self.after:
            return None
        waiting = [pod.since for pod in known.pods.values() if pod.state is State.WAITS and pod.since is not None]
        if not waiting and any(pod.state is State.RUNS for pod in known.pods.values()):
            return None
        return max(min(waiting, default=known.idle_since), known.heard_at) + self.after
