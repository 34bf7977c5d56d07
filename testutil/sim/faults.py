"""The faults of a run as values, and the table of their kinds.

A run is a scenario, a seed and a tuple of faults; together they replay it. A fault says when it is injected: at the `write`-th
write of the operators (events and leases not counted), at the `read`-th thing they read (a list, an object, a watch that
opens, an event of a watch), or `at` virtual seconds. `seconds` is how long it lasts, `value` a parameter of its kind.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
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

    @property
    def facts(self) -> "Kind":
        """What is known of its kind."""
        return KINDS[self.kind]


@dataclass(frozen=True, slots=True)
class Kind:
    """`neutral`: the cluster must come to the same end as without the fault.

    `surplus`: containers may run, and objects be written, more often than without it: two operators that both act meet in
    creates, for which the API has no precondition, so that one surplus start cannot be excluded by any client.
    """

    what: str
    neutral: bool = True
    surplus: bool = False


KINDS: Mapping[str, Kind] = {
    "crash-before": Kind("the operator dies before the write is sent"),
    "crash-after": Kind("the operator dies after the write is stored, before the answer"),
    "reply-lost": Kind("stored, but the connection breaks before the answer; `value` silence: no answer at all"),
    "conflict": Kind("409 Conflict, not stored"),
    "throttled": Kind("429, not stored; `value` is the Retry-After header"),
    "server-error": Kind("a 5xx, not stored; `value` is the code"),
    "timeout-after": Kind("504, but stored"),
    "forbidden": Kind("403 to everything for `seconds`"),
    "admission-refused": Kind("admission refuses every pod for `seconds`; `value` is its code"),
    "slow-writes": Kind("pods take `value` seconds of admission, for `seconds`; stored also if the client has given up"),
    "watch-closed": Kind("the server ends the open watches"),
    "watch-lag": Kind("watches lag by up to `value` seconds each, for `seconds`"),
    "missed-deletes": Kind("no watch for `seconds`, and then only a list shows what was deleted"),
    "silent-watch": Kind("the open watches fall silent for good"),
    "gone-storm": Kind("every watch that is opened ends with 410, for `seconds`"),
    "old-list": Kind("lists not bound to a quorum come from a replica as old as allowed, for `seconds`"),
    "pause": Kind("the operator stands still for `seconds`"),
    "partition": Kind("nothing gets through to the API server for `seconds`; `value` replies: only answers get lost"),
    "lease-lost": Kind("another identity has the lease, and does not renew it"),
    "two-operators": Kind("a second operator without leader election runs for `seconds`", surplus=True),
    "upgrade": Kind("the operator ends gracefully and a new version starts"),
    "pod-deleted": Kind("a user deletes a pod", neutral=False, surplus=True),
    "job-deleted": Kind("a job is deleted", neutral=False),
    "job-recreated": Kind("a job is deleted and created again", neutral=False),
}


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
