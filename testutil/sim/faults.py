"""The faults of a run as values, and the table of their kinds.

A run is a scenario, a seed and a tuple of faults; together they replay it. A fault says when it is injected: at the `write`-th
write of the operators (events and leases not counted), at the `read`-th thing they read (a list, an object, a watch that
opens, an event of a watch), or `at` virtual seconds. `seconds` is how long it lasts, `value` a parameter of its kind.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
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
    """`number` in the reference's list. `neutral`: the cluster must come to the same end as without the fault.
    `surplus`: containers may run, and objects be written, more often than without it: two operators that both act meet in
    creates, for which the API has no precondition, so that one surplus start cannot be excluded by any client. `world`: an
    actor does it, not the network or the processes. `takes`: of this table it takes something away that comes back.
    """

    number: str
    what: str
    neutral: bool = True
    surplus: bool = False
    world: bool = False
    takes: str = ""


KINDS: Mapping[str, Kind] = {
    "crash-before": Kind("F1", "the operator dies before the write is sent"),
    "crash-after": Kind("F1", "the operator dies after the write is stored, before the answer"),
    "crash-in-status": Kind("F2", "the operator dies in its next status write, which is stored"),
    "reply-lost": Kind("F3", "stored, but the connection breaks before the answer; `value` silence: no answer at all"),
    "conflict": Kind("F4", "409 Conflict, not stored"),
    "throttled": Kind("F5", "429, not stored; `value` is the Retry-After header"),
    "server-error": Kind("F6", "a 5xx, not stored; `value` is the code"),
    "timeout-after": Kind("F7", "504, but stored"),
    "forbidden": Kind("F8", "403 to everything for `seconds`"),
    "unauthorized": Kind("F8", "401 to everything for `seconds`"),
    "invalid": Kind("F9", "422 from a validator that is new", neutral=False),
    "watch-closed": Kind("F10", "the server ends the open watches"),
    "watch-lag": Kind("F11", "watches lag by up to `value` seconds each, for `seconds`"),
    "duplicate-events": Kind("F12", "watches break and replay old events when they are opened again"),
    "coalesced": Kind("F13", "watches lag, and a deletion and a creation become one update, for `seconds`"),
    "missed-deletes": Kind("F14", "no watch for `seconds`, and then only a list shows what was deleted"),
    "bookmark-only": Kind("F15", "a bookmark, then the history up to it is compacted and the watches break"),
    "silent-watch": Kind("F16", "the open watches fall silent for good"),
    "gone-storm": Kind("F17", "every watch that is opened ends with 410, for `seconds`"),
    "old-list": Kind("F18", "lists not bound to a quorum come from a replica as old as allowed, for `seconds`"),
    "streamed-list-broken": Kind("F19", "streamed lists fail after 200; `value` hangs: they never end"),
    "version-too-large": Kind("F20", "504 to lists and watches bound to a version, for `seconds`"),
    "unreadable-event": Kind("F21", "a watch event that cannot be decoded or has an unknown type"),
    "page-expired": Kind("F22", "lists come in pages of two, and their tokens expire, for `seconds`"),
    "clock-jump": Kind("F23", "the operator's wall clock jumps by `value` seconds, and back after `seconds`"),
    "clock-rate": Kind("F23", "the operator's clock runs at the rate `value`, for `seconds`"),
    "pause": Kind("F24", "the operator stands still for `seconds`"),
    "partition": Kind(
        "F25",
        "nothing gets through to the API server for `seconds`; `value` replies: only answers get lost",
    ),
    "lease-lost": Kind("F26", "another identity has the lease, and does not renew it"),
    "two-operators": Kind("F27", "a second operator without leader election runs for `seconds`", surplus=True),
    "upgrade": Kind("F28", "the operator ends gracefully and a new version starts"),
    "apiserver-restart": Kind("F29", "connections are refused for `seconds`; the history is gone"),
    "etcd-restore": Kind("F30", "the store goes back to what it was `value` seconds ago", neutral=False, surplus=True),
    "quota": Kind("F31", "no pods are allowed for `seconds`", world=True),
    "webhook-down": Kind("F32", "creates and metadata patches of pods fail with 500 for `seconds`"),
    "admission-refused": Kind("F32", "admission refuses every pod for `seconds`; `value` is its code"),
    "namespace-deleted": Kind("F33", "the namespace is deleted", neutral=False, world=True),
    "job-deleted": Kind("F34", "a job is deleted", neutral=False, world=True),
    "job-recreated": Kind("F34", "a job is deleted and created again", neutral=False, world=True),
    "pod-deleted": Kind("F35", "a user deletes a pod", surplus=True, neutral=False, world=True),
    "service-deleted": Kind("F35", "a user deletes a Service", world=True, takes="services"),
    "label-edited": Kind("F35", "a user edits a pod's labels", neutral=False, world=True),
    "finalizer-removed": Kind("F35", "a user removes our finalizer from a pod", neutral=False, surplus=True, world=True),
    "status-forged": Kind("F35", "a user writes a job's status", neutral=False, world=True),
    "pod-gc": Kind("F36", "finished pods are deleted at once for `seconds`", neutral=False, world=True),
    "node-drained": Kind("F37", "a node is drained", neutral=False, surplus=True, world=True),
    "node-lost": Kind("F37", "a node is lost for `seconds`", neutral=False, surplus=True, world=True),
    "events-refused": Kind("F38", "events cannot be written for `seconds`"),
    "slow-start": Kind("F39", "pods start in any order over ten minutes", neutral=False, world=True),
    "flood": Kind("F40", "`value` changes of one pod's annotation at once"),
    "slow-writes": Kind("F41", "pods take `value` seconds of admission, for `seconds`; stored also if the client has given up"),
    "foreign-answer": Kind(
        "F42", "a redirect or a page instead of the server's answer; `value`: which, and whether it was stored"
    ),
    "schema-prunes": Kind("F43", "an older definition drops status fields for `seconds`, then the present one is back"),
    "crd-removed": Kind("F44", "the definitions are deleted, and with them the jobs; back after `seconds`", neutral=False),
    "rights-revoked": Kind("F45", "403 to a verb on a resource (`value`) for `seconds`"),
    "replicas-unreadable": Kind("F46", "a definition without rules lets a bad value into a replica's spec, for `seconds`"),
    "spec-unreadable": Kind(
        "F46", "a definition without rules lets a bad value into another field, for `seconds`", neutral=False
    ),
}

NUMBERS = tuple(sorted({kind.number for kind in KINDS.values()}, key=lambda number: int(number[1:])))
"""F1 to F46."""


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


def unfired(fired: Mapping[str, int], kinds: Iterable[str] = KINDS) -> list[str]:
    """The kinds that were never injected."""
    return [kind for kind in kinds if not fired.get(kind)]
