"""The swarm: each seed is a random set of faults, in three of four a few, in the fourth many."""

from collections.abc import Mapping
from random import Random

from jobcommon.testutil.sim.faults import KINDS, Fault

_LATEST = 40.0
_LATEST_WRITE = 30
_LATEST_READ = 60
_RETRY_AFTER = ("", "0", "1", "32", "Fri, 31 Dec 1999 23:59:59 GMT", "soon")
#: Faults of a single request: injected at a write, some also at a read.
_AT_WRITE = (
    "crash-before",
    "crash-after",
    "crash-in-status",
    "reply-lost",
    "conflict",
    "throttled",
    "server-error",
    "timeout-after",
    "invalid",
    "foreign-answer",
)
_AT_READ = ("crash-before", "reply-lost", "server-error", "throttled", "foreign-answer")
#: These are injected at the very start: most pods are created then, and no record gets lost.
_AT_ONCE = frozenset({"slow-writes", "schema-prunes"})
#: How long a fault that lasts does so, in seconds.
_SECONDS: Mapping[str, tuple[float, float]] = {
    "forbidden": (1, 60), "unauthorized": (1, 60), "watch-lag": (5, 60), "coalesced": (5, 60), "missed-deletes": (1, 40),
    "gone-storm": (1, 40), "old-list": (5, 60), "streamed-list-broken": (5, 60), "version-too-large": (1, 40),
    "page-expired": (5, 60), "clock-jump": (1, 60), "clock-rate": (10, 120), "pause": (1, 60), "partition": (1, 60),
    "two-operators": (5, 60), "apiserver-restart": (0.5, 30), "quota": (1, 60), "webhook-down": (1, 60),
    "admission-refused": (1, 60), "pod-gc": (5, 120),
    "node-drained": (5, 60), "node-lost": (5, 120), "events-refused": (1, 60), "slow-start": (600, 600),
    "slow-writes": (5, 60), "schema-prunes": (5, 120), "crd-removed": (1, 60), "rights-revoked": (1, 60),
    "replicas-unreadable": (1, 60), "spec-unreadable": (1, 60),
}  # fmt: skip
_VALUES: Mapping[str, tuple[str, ...]] = {
    "reply-lost": ("", "", "silence"),
    "throttled": _RETRY_AFTER,
    "server-error": ("500", "502", "503", "504"),
    "watch-lag": ("0.5", "5", "60"),
    "coalesced": ("5", "20"),
    "streamed-list-broken": ("", "hangs"),
    "unreadable-event": ("", "type", "object"),
    "clock-jump": ("3600", "-3600", "86400", "-86400", "-5"),
    "clock-rate": ("0.7", "1.4"),
    "partition": ("", "replies"),
    "admission-refused": ("400", "403", "422", "500"),
    "etcd-restore": ("2", "10", "30"),
    "flood": ("200", "1000"),
    "slow-writes": ("2", "6", "30", "70"),
    "foreign-answer": tuple(f"{what}{done}" for what in ("redirect", "page", "nothing") for done in ("", " stored")),
    "rights-revoked": (
        "create pods",
        "delete pods",
        "patch pods",
        "list pods",
        "watch pods",
        "create services",
        "update status",
    ),
}
_EDITS = ("replicas-unreadable", "spec-unreadable")
_DRAWN = tuple(kind for kind in KINDS if kind not in _EDITS)
_RARE = frozenset(kind for kind, facts in KINDS.items() if not facts.neutral)


def faults_of(seed: int, random: Random) -> tuple[Fault, ...]:
    """The faults of one seed, drawn from `random`."""
    count = random.randint(5, 12) if seed % 4 == 3 else random.randint(1, 4)
    # Those that change the end leave little to be compared, so they get a seed of their own now and then.
    allowed = [kind for kind in _DRAWN if random.random() < 0.5 and (kind not in _RARE or seed % 3 == 0)]
    found = tuple(draw(random.choice(allowed), random) for _ in range(count)) if allowed else ()
    # Each fourth has a bad edit besides, drawn apart, so that the others stay the same.
    apart = Random(f"{seed}/edits")  # noqa: S311 - reproducibility is the point
    return (*found, draw(apart.choice(_EDITS[: 1 + (seed % 3 == 0)]), apart)) if apart.random() < 0.25 else found


def draw(kind: str, random: Random) -> Fault:
    """A fault of that kind somewhere in the life of a job."""
    value = random.choice(_VALUES.get(kind, ("",)))
    if KINDS[kind].world and not value:
        value = str(random.randrange(20))
    if kind in _EDITS:
        value = str(random.randrange(1000))
    low, high = _SECONDS.get(kind, (0.0, 0.0))
    seconds = round(random.uniform(low, high), 1)
    if kind in _AT_ONCE:
        return Fault(kind, at=0.0, seconds=seconds, value=value)
    if kind in _AT_WRITE:
        if kind in _AT_READ and random.random() < 0.3:
            return Fault(kind, read=random.randrange(_LATEST_READ), value=value)
        return Fault(kind, write=random.randrange(_LATEST_WRITE), value=value)
    if not KINDS[kind].world and kind != "etcd-restore" and random.random() < 0.4:
        return Fault(kind, write=random.randrange(_LATEST_WRITE), seconds=seconds, value=value)
    return Fault(kind, at=round(random.uniform(0.1, _LATEST), 2), seconds=seconds, value=value)
