"""The faults of a run as values, the table of their kinds, and random sets of them: the swarm.

A run is a scenario, a seed and a tuple of faults; together they replay it. A fault says when it is injected: at the `write`-th
write of the operators (events and leases not counted), at the `read`-th thing they read (a list, an object, a watch that
opens, an event of a watch), or `at` virtual seconds. `seconds` is how long it lasts, `value` a parameter of its kind.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

_TRIGGERS = ("write", "read", "at")


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. Exactly one of `write`, `read` and `at` is set. Raises ValueError for an unknown kind."""

    kind: str
    write: int | None = None
    read: int | None = None
    at: float | None = None
    seconds: float = 0.0
    value: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown kind of fault {self.kind!r}; there are {', '.join(KINDS)}")
        if [getattr(self, trigger) for trigger in _TRIGGERS].count(None) != 2:
            raise ValueError(f"{self.kind}: give one of write, read and at")


@dataclass(frozen=True, slots=True)
class Kind:
    """`neutral`: the cluster must come to the same end as without the fault.

    `surplus`: containers may run, and objects be written, more often than without it: two operators that both act meet in
    creates, for which the API has no precondition, so that one surplus start cannot be excluded by any client.
    `seconds` and `values` are what the swarm draws from.
    """

    what: str
    seconds: tuple[float, float] = (0.0, 0.0)
    values: tuple[str, ...] = ("",)
    neutral: bool = True
    surplus: bool = False


_NUMBERS = tuple(map(str, range(20)))
# fmt: off
KINDS: Mapping[str, Kind] = {
    "crash-before": Kind("the operator dies before the write is sent"),
    "crash-after": Kind("the operator dies after the write is stored, before the answer"),
    "reply-lost": Kind("stored, but the connection breaks before the answer; `value` silence: no answer at all",
        values=("", "", "silence")),
    "conflict": Kind("409 Conflict, not stored"),
    "throttled": Kind("429, not stored; `value` is the Retry-After header",
        values=("", "0", "1", "32", "Fri, 31 Dec 1999 23:59:59 GMT", "soon")),
    "server-error": Kind("a 5xx, not stored; `value` is the code", values=("500", "502", "503", "504")),
    "timeout-after": Kind("504, but stored"),
    "forbidden": Kind("403 to everything for `seconds`", (1, 60)),
    "admission-refused": Kind("admission refuses every pod for `seconds`; `value` is its code",
        (1, 60), ("400", "403", "422", "500")),
    "slow-writes": Kind("pods take `value` seconds of admission, for `seconds`; stored also if the client has given up",
        (5, 60), ("2", "6", "30", "70")),
    "watch-closed": Kind("the server ends the open watches"),
    "watch-lag": Kind("watches lag by up to `value` seconds each, for `seconds`", (5, 60), ("0.5", "5", "60")),
    "missed-deletes": Kind("no watch for `seconds`, and then only a list shows what was deleted", (1, 40)),
    "silent-watch": Kind("the open watches fall silent for good"),
    "gone-storm": Kind("every watch that is opened ends with 410, for `seconds`", (1, 40)),
    "old-list": Kind("lists not bound to a quorum come from a replica as old as allowed, for `seconds`", (5, 60)),
    "pause": Kind("the operator stands still for `seconds`", (1, 60)),
    "partition": Kind("nothing gets through to the API server for `seconds`; `value` replies: only answers get lost",
        (1, 60), ("", "replies")),
    "lease-lost": Kind("another identity has the lease, and does not renew it"),
    "two-operators": Kind("a second operator without leader election runs for `seconds`", (5, 60), surplus=True),
    "upgrade": Kind("the operator ends gracefully and a new version starts"),
    "pod-deleted": Kind("a user deletes a pod", values=_NUMBERS, neutral=False, surplus=True),
    "job-deleted": Kind("a job is deleted", values=_NUMBERS, neutral=False),
    "job-recreated": Kind("a job is deleted and created again", values=_NUMBERS, neutral=False),
}
# fmt: on


def to_json(faults: Sequence[Fault]) -> str:
    """One line, without what is not set."""
    return json.dumps([{k: v for k, v in asdict(fault).items() if v or (v is not None and k in _TRIGGERS)} for fault in faults])


def from_json(text: str) -> tuple[Fault, ...]:
    """The faults of `to_json`. Raises ValueError with what is wrong."""
    try:
        found: list[dict[str, Any]] = json.loads(text)
        return tuple(Fault(**one) for one in found)
    except (TypeError, AttributeError) as error:
        raise ValueError(f"not a list of faults: {error}") from None


# -- the swarm --------------------------------------------------------------------------------------------------------------

_LATEST = 40.0
_LATEST_WRITE = 30
_LATEST_READ = 60
#: Faults of a single request: injected at a write, some also at a read.
_AT_WRITE = ("crash-before", "crash-after", "reply-lost", "conflict", "throttled", "server-error", "timeout-after")
_AT_READ = ("crash-before", "reply-lost", "server-error", "throttled")
#: What users do has no place among the operators' writes.
_AT_A_TIME = frozenset({"pod-deleted", "job-deleted", "job-recreated"})


def faults_of(seed: int, random: Random) -> tuple[Fault, ...]:
    """The faults of one seed, drawn from `random`: in three of four a few, in the fourth many."""
    count = random.randint(5, 12) if seed % 4 == 3 else random.randint(1, 4)
    # Those that change the end leave little to be compared, so they get a seed of their own now and then.
    allowed = [kind for kind, facts in KINDS.items() if random.random() < 0.5 and (facts.neutral or seed % 3 == 0)]
    return tuple(draw(random.choice(allowed), random) for _ in range(count)) if allowed else ()


def draw(kind: str, random: Random) -> Fault:
    """A fault of that kind somewhere in the life of a job."""
    value, seconds = random.choice(KINDS[kind].values), round(random.uniform(*KINDS[kind].seconds), 1)
    if kind == "slow-writes":
        # Most pods are created at the start.
        return Fault(kind, at=0.0, seconds=seconds, value=value)
    if kind in _AT_READ and random.random() < 0.3:
        return Fault(kind, read=random.randrange(_LATEST_READ), value=value)
    if kind in _AT_WRITE or (kind not in _AT_A_TIME and random.random() < 0.4):
        return Fault(kind, write=random.randrange(_LATEST_WRITE), seconds=seconds, value=value)
    return Fault(kind, at=round(random.uniform(0.1, _LATEST), 2), seconds=seconds, value=value)
