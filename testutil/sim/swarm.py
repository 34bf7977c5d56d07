"""The swarm: each seed is a random set of faults, in three of four a few, in the fourth many."""

from collections.abc import Mapping
from random import Random

from jobcommon.testutil.sim.faults import KINDS, Fault

_LATEST = 40.0
_LATEST_WRITE = 30
_LATEST_READ = 60
#: Faults of a single request: injected at a write, some also at a read.
_AT_WRITE = ("crash-before", "crash-after", "reply-lost", "conflict", "throttled", "server-error", "timeout-after")
_AT_READ = ("crash-before", "reply-lost", "server-error", "throttled")
#: What users do has no place among the operators' writes.
_AT_A_TIME = frozenset({"pod-deleted", "job-deleted", "job-recreated"})
#: How long a fault that lasts does so, in seconds.
_SECONDS: Mapping[str, tuple[float, float]] = {
    "forbidden": (1, 60), "admission-refused": (1, 60), "slow-writes": (5, 60), "watch-lag": (5, 60), "missed-deletes": (1, 40),
    "gone-storm": (1, 40), "old-list": (5, 60), "pause": (1, 60), "partition": (1, 60), "two-operators": (5, 60),
}  # fmt: skip
_VALUES: Mapping[str, tuple[str, ...]] = {
    "reply-lost": ("", "", "silence"),
    "throttled": ("", "0", "1", "32", "Fri, 31 Dec 1999 23:59:59 GMT", "soon"),
    "server-error": ("500", "502", "503", "504"),
    "watch-lag": ("0.5", "5", "60"),
    "partition": ("", "replies"),
    "admission-refused": ("400", "403", "422", "500"),
    "slow-writes": ("2", "6", "30", "70"),
    **dict.fromkeys(_AT_A_TIME, tuple(map(str, range(20)))),
}


def faults_of(seed: int, random: Random) -> tuple[Fault, ...]:
    """The faults of one seed, drawn from `random`."""
    count = random.randint(5, 12) if seed % 4 == 3 else random.randint(1, 4)
    # Those that change the end leave little to be compared, so they get a seed of their own now and then.
    allowed = [kind for kind, facts in KINDS.items() if random.random() < 0.5 and (facts.neutral or seed % 3 == 0)]
    return tuple(draw(random.choice(allowed), random) for _ in range(count)) if allowed else ()


def draw(kind: str, random: Random) -> Fault:
    """A fault of that kind somewhere in the life of a job."""
    value = random.choice(_VALUES.get(kind, ("",)))
    low, high = _SECONDS.get(kind, (0.0, 0.0))
    seconds = round(random.uniform(low, high), 1)
    if kind == "slow-writes":
        # Most pods are created at the start.
        return Fault(kind, at=0.0, seconds=seconds, value=value)
    if kind in _AT_READ and random.random() < 0.3:
        return Fault(kind, read=random.randrange(_LATEST_READ), value=value)
    if kind in _AT_WRITE or (kind not in _AT_A_TIME and random.random() < 0.4):
        return Fault(kind, write=random.randrange(_LATEST_WRITE), seconds=seconds, value=value)
    return Fault(kind, at=round(random.uniform(0.1, _LATEST), 2), seconds=seconds, value=value)
