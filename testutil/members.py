"""What `runPolicy.elastic` promises, by the nodes there are and by what the programs that run know of each other."""

import json
from collections.abc import Iterator, Mapping
from itertools import pairwise

from jobcommon.api.replica import Replica
from jobcommon.api.status import ConditionType
from jobcommon.testutil.cluster_model import ClusterModel
from jobcommon.testutil.node_model import statuses_of

SLACK = 60.0
RETRY = 660.0
"""The longest time until a refused pod is tried again, and some more."""
History = list[tuple[float, int | None]]


def place_of(variables: Mapping[str, str]) -> tuple[int, int] | None:
    """The rank and the number of all that a program knows; None if its framework has no ranks."""
    if (text := variables.get("TF_CONFIG")) is not None:
        config = json.loads(text)
        peers = [(kind, index) for kind, found in config["cluster"].items() for index in range(len(found))]
        own = config["task"]["type"], int(config["task"]["index"])
        return (peers.index(own) if own in peers else len(peers)), len(peers)
    names = ("RANK", "WORLD_SIZE") if "RANK" in variables else ("PET_NODE_RANK", "PET_NNODES")
    return (int(variables[names[0]]), int(variables[names[1]])) if names[0] in variables else None


class Members:
    """The promises of docs/elastic.md, for one history."""

    def __init__(self, world: ClusterModel) -> None:
        self.world, self.kind = world, world.framework.scaled_type
        self.disturbed_at = world.now
        self.counted = 0
        self.size: tuple[float, int] | None = None
        self.attainable: History = []
        self.allowed: History = []
        self.refused_at = -RETRY
        self.idle_since: dict[str, float] = {}

    def disturbed(self) -> None:
        """Something has happened for which programs may be restarted."""
        self.disturbed_at, self.counted = self.world.now, len(self.world.starts)

    def look(self) -> Iterator[str]:
        """What is broken now."""
        world = self.world
        if self._resized and world.job.run_policy.elastic is not None:
            self.refused_at = world.now if world.refused else self.refused_at
            _record(self.allowed, world.now, world.pods_allowed)
            _record(self.attainable, world.now, self._attainable())
            yield from self._nodes()
            yield from self._sizes()
            yield from self._restarts()
            yield from self._idle_pods()
            yield from self._losses()

    def safe(self) -> Iterator[str]:
        """What is broken although it must hold at every moment."""
        yield from (f"world: {text}" for text in self.world.mixed)
        if self._resized:
            yield from self._worlds()

    @property
    def _resized(self) -> bool:
        """Whether an attempt begins with another number of replicas."""
        return self.world.job.restarts_together and not self.world.framework.joins(self.world.job, self.kind)

    @property
    def _bound(self) -> float:
        """The seconds within which what has a node trains. A job that reports checkpoints waits for one."""
        elastic = self.world.job.run_policy.elastic
        assert elastic is not None
        grow = elastic.grow_after_seconds or 0
        grow *= 2 if self.world.checkpoint else 1
        return (elastic.shrink_after_seconds or 0) + grow + SLACK + self.world.stops_after

    def _worlds(self) -> Iterator[str]:
        """Two worlds never run at once, and the ranks of one are 0 … n-1, each once."""
        known = {name: place for name, found in self.world.running().items() if (place := place_of(found)) is not None}
        ranks, sizes = sorted(rank for rank, _ in known.values()), {size for _, size in known.values()}
        if len(sizes) > 1:
            yield f"world: {known} run at once"
        elif sizes and (len(set(ranks)) < len(ranks) or ranks[-1] >= max(sizes)):
            yield f"ranks: {known}"

    def _nodes(self) -> Iterator[str]:
        """With nodes for n members, n run within shrinkAfterSeconds + growAfterSeconds + 60 s, and all know of n."""
        world, since = self.world, self.world.now - self._bound
        least = self._least(since)
        if self.disturbed_at > since or world.now < self.refused_at + RETRY or least is None:
            return
        running = world.running()
        ready = [name for name in running if world.pods[name].view.deletion_time is None]
        if len(ready) < least + self._leaders:
            yield f"nodes: {len(ready)} run of {self._leaders} and {least} for which there have been nodes since {since:.0f}"
        known = {place_of(found) for found in running.values()} - {None}
        if running and known and sorted(place for place in known if place) != [(r, len(running)) for r in range(len(running))]:
            yield f"ranks: {len(running)} run and know of {known}"

    def _sizes(self) -> Iterator[str]:
        """No program is stopped for want of a node while its own has one: what does not lack a node does not shrink."""
        places = [place_of(found) for found in self.world.running().values()]
        known = {place[1] - self._leaders for place in places if place is not None}
        if len(known) == 1:
            (size,) = known
            at, before = self.size or (self.disturbed_at, size + 1)
            least = self._least(at)
            # What a quota refuses holds back the others for a while.
            quota = any(count is not None for count in _during(self.allowed, self.world.now - RETRY))
            if size < before and least is not None and size < least and not quota:
                yield f"shrunk: to {size}, and there have been nodes for {least} since {at:.0f}"
            self.size = self.world.now, size

    @property
    def _leaders(self) -> int:
        """The replicas that are not resized."""
        job = self.world.job
        return sum(job.asked_of(kind) for kind in job.replica_specs if kind != self.kind)

    def _least(self, since: float) -> int | None:
        """The fewest workers for which there was a node since then; None if that is not known for a part of it."""
        counts = _during(self.attainable, since)
        known = [count for count in counts if count is not None]
        return min(known) if known and len(known) == len(counts) else None

    def _attainable(self) -> int | None:
        """For how many workers of the job there is a node; None if the promise does not hold."""
        world, job = self.world, self.world.job
        elastic, status = job.run_policy.elastic, job.status
        assert elastic is not None
        succeeded = any(found.succeeded_indexes for found in status.replica_statuses.values())
        idle = status.finished or job.suspended or job.errors or status.has(ConditionType.SUSPENDED) or not status.start_time
        if idle or succeeded or world.preempted or not world.cluster or world.program.hung_since is not None:
            return None
        leaders = {job.pod_name(r) for r in job.replicas if r.type != self.kind}
        silent = {name: pod.view for name, pod in world.pods.items() if pod.view.uid in world.silent}
        bad = {name for name, pod in world.pods.items() if world.on_bad_node(pod)}
        # Until a silent node's pods are to be gone they belong to the job, and those of an earlier job keep their names.
        kept = (
            (pod.deletion_time or world.now) >= world.now or pod.owner.uid != job.uid for pod in silent.values() if pod.owner
        )
        if any(kept) or leaders & {*silent, *bad}:
            return None
        if world.trouble and not job.restarts_in_place:
            return None
        good = [name for name in world.running() if name not in silent]
        nodes = len(good) if world.trouble else world.room - len(silent)
        asked = max(min(job.asked_of(self.kind), elastic.max_replicas or 100), elastic.min_replicas or 1)
        names = {job.pod_name(Replica(self.kind, index)) for index in range(asked)}
        room = [nodes, *(count - len(silent) for count in _during(self.allowed, world.now - RETRY) if count is not None)]
        count = min(len(names - {*silent}), min(room) - len(leaders), *self._granted())
        return count if count >= (elastic.min_replicas or 1) else None

    def _granted(self) -> list[int]:
        """The workers that Kueue has admitted."""
        admissions = [(found.get("status") or {}).get("admission") or {} for found in self.world.others.values()]
        sets = [one for found in admissions for one in found.get("podSetAssignments") or ()]
        return [one["count"] for one in sets if one["name"] == self.kind.lower()]

    def _restarts(self) -> Iterator[str]:
        """A loss costs one restart; other than that programs are stopped only to grow."""
        attempts: dict[str, set[str]] = {}
        for name, attempt in self.world.starts[: self.counted]:
            attempts = {attempt: attempts.get(attempt, set()) | {name}}
        earlier, rest = len(attempts), self.world.starts[self.counted :]
        for name, attempt in rest:
            attempts.setdefault(attempt, set()).add(name)
        sizes = [len(names) for names in attempts.values()]
        growths = sum(new > old for old, new in pairwise(sizes))
        # Where images may not be changed, programs start by themselves.
        if len(sizes) - earlier > growths + 1 and self.world.now > self.refused_at + RETRY:
            yield f"restarts: attempts with {sizes} programs, {len(sizes) - earlier} of them since +{self.disturbed_at:.0f}"

    def _idle_pods(self) -> Iterator[str]:
        """A pod whose program does not run holds a node beside those that run only while growth can use it."""
        world, running = self.world, self.world.running()
        held = {
            pod.view.uid: name
            for name, pod in world.pods.items()
            if running and name not in running and pod.view.scheduled and pod.view.uid not in world.silent
            if pod.view.deletion_time is None and pod.raw["status"]["phase"] == "Pending"
        }
        self.idle_since = {uid: self.idle_since.get(uid, world.now) for uid in held}
        for uid, since in self.idle_since.items():
            if world.now > max(since, self.disturbed_at) + self._bound and not world.refused:
                state = [one["state"] for one in statuses_of(world.pods[held[uid]])]
                yield f"idle: {held[uid]} holds a node since {since:.0f} and does not run: {state}"

    def _losses(self) -> Iterator[str]:
        """A lost node is no failure."""
        world, reason = self.world, self.world.job.status.conditions[-1].reason if self.world.job.status.conditions else ""
        ours = world.current == ConditionType.FAILED and not reason.endswith(_DEADLINES)
        if ours and not world.truth.failed_runs and not world.job.errors:
            yield f"loss: the job is Failed of {reason}, and no program has failed"


_DEADLINES = ("Exceeded", "Stalled", "TooLong", "InvalidSpec")


def _record(history: History, now: float, count: int | None) -> None:
    if not history or history[-1][1] != count:
        history.append((now, count))


def _during(history: History, since: float) -> list[int | None]:
    """The values that held at that time or later."""
    ends = [at for at, _ in history[1:]]
    return [count for (_, count), end in zip(history, [*ends, float("inf")], strict=True) if end >= since]
