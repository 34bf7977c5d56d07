"""The faults of a run as values, the table of their kinds, and random sets of them: the swarm.

A run is a scenario, a seed and a tuple of faults; together they replay it. A fault says when it is injected: at the `write`-th
write of the operators (events and leases not counted), or `at` virtual seconds. `seconds` is how long it lasts, `value` a
parameter of its kind. With any of them the cluster must come to the same end as without.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

_TRIGGERS = ("write", "at")


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. Either `write` or `at` is set. Raises ValueError for an unknown kind."""

    kind: str
    write: int | None = None
    at: float | None = None
    seconds: float = 0.0
    value: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown kind of fault {self.kind!r}; there are {', '.join(KINDS)}")
        if (self.write is None) == (self.at is None):
            raise ValueError(f"{self.kind}: give either write or at")
        if self.kind in AT_WRITE and self.write is None:
            raise ValueError(f"{self.kind} is a fault of one request: give its write")


@dataclass(frozen=True, slots=True)
class Kind:
    """`surplus`: containers may run, and objects be written, more often than without it: two operators that both act meet in
    creates, for which the API has no precondition, so that one surplus start cannot be excluded by any client.
    `seconds` and `values` are what the swarm draws from.
    """

    what: str
    seconds: tuple[float, float] = (0.0, 0.0)
    values: tuple[str, ...] = ("",)
    surplus: bool = False


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
    "watch-closed": Kind("the server ends the open watches"),
    "watch-lag": Kind("watches lag by up to `value` seconds each, for `seconds`", (5, 60), ("0.5", "5", "60")),
    "missed-deletes": Kind("no watch for `seconds`, and then only a list shows what was deleted", (1, 40)),
    "silent-watch": Kind("the open watches fall silent for good"),
    "pause": Kind("the operator stands still for `seconds`", (1, 60)),
    "partition": Kind("nothing gets through to the API server for `seconds`; `value` replies: only answers get lost",
        (1, 60), ("", "replies")),
    "lease-lost": Kind("another identity has the lease, and does not renew it"),
    "two-operators": Kind("a second operator without leader election runs for `seconds`", (5, 60), surplus=True),
    "upgrade": Kind("the operator ends gracefully and a new version starts"),
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
#: Faults of a single request.
AT_WRITE = ("crash-before", "crash-after", "reply-lost", "conflict", "throttled", "server-error", "timeout-after")


def faults_of(seed: int, random: Random) -> tuple[Fault, ...]:
    """The faults of one seed, drawn from `random`: in three of four a few, in the fourth many."""
    count = random.randint(5, 12) if seed % 4 == 3 else random.randint(1, 4)
    allowed = [kind for kind in KINDS if random.random() < 0.5]
    return tuple(draw(random.choice(allowed), random) for _ in range(count)) if allowed else ()


def draw(kind: str, random: Random) -> Fault:
    """A fault of that kind somewhere in the life of a job."""
    value, seconds = random.choice(KINDS[kind].values), round(random.uniform(*KINDS[kind].seconds), 1)
    if kind in AT_WRITE or random.random() < 0.4:
        return Fault(kind, write=random.randrange(_LATEST_WRITE), seconds=seconds, value=value)
    return Fault(kind, at=round(random.uniform(0.1, _LATEST), 2), seconds=seconds, value=value)
