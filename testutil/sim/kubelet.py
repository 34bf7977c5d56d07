"""The scheduler, and the kubelets of all nodes as a level-triggered controller: containers run by script, not as processes.

What a kubelet decides is `localcluster.kubelet.lifecycle.decide`, what it reports `localcluster.kubelet.status.pod_status`:
the same pure functions as in the embedded cluster. This module only models the machine: containers that start after a
random time and end by the scenario's script, and volumes that wait for their Secret.

The containers of a deleted pod end, then comes the final status, and later a DELETE without a grace period, as a
real kubelet sends it after its clean-up. Each node has its own clock, which gives all times in a pod's status.
"""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from jobcommon.client.request import STRATEGIC_PATCH
from jobcommon.testutil.sim.scenario import DONE, FOREVER, ON_SIGTERM, Exit, Scenario
from localcluster import ApiServer
from localcluster.model import Access, ContainerState, Decision, Item, Run, Settings, decide, images, parse_time, pod_status

Obj = dict[str, Any]
BACKOFF = Settings()
RESTART_SECONDS = 0.1
FAR = float("inf")
_HOST = "10.0.0.1"

Draw = Callable[[str, float, float], float]


def drawing(salt: int) -> Draw:
    """Chance by name: the same key gives the same number in every run of a seed, whatever else was drawn before."""

    def draw(key: str, low: float, high: float) -> float:
        return random.Random(f"{salt}/{key}").uniform(low, high)  # noqa: S311 - reproducibility is the point

    return draw


@dataclass
class _Container:
    """One container on a node. `starts_at` and `ends_at` are what time alone will do to it."""

    spec: Mapping[str, Any]
    seen: ContainerState = field(default_factory=ContainerState)
    starts_at: float | None = None
    ends_at: float | None = None
    ending: Exit = field(default_factory=Exit)
    waits_for_cue: bool = False
    stopping: bool = False
    killed: bool = False


@dataclass
class _Worker:
    """The kubelet's state of one pod."""

    node: str
    pod: Item
    """As the kubelet has seen it last."""
    containers: dict[str, _Container]
    skew: float = 0.0
    """By how much the node's clock is ahead of the API server's. The times here are the node's."""
    finish_at: float | None = None
    version: int = -1
    due: float | None = None
    said: tuple[int, Obj] | None = None
    """A report that changed nothing, and the version of the pod that said so: the server drops fields that it does not know."""


class Kubelet:
    """All kubelets. `runs` counts the starts of each pod's main container by pod name (``name#2`` for the second job of it)."""

    ASSUMES = ("last-delete", "grace-expired", "missing-volume")

    def __init__(self, server: ApiServer, scenario: Scenario, draw: Draw) -> None:
        self._server = server
        self._access = Access(server, "kubelet")
        self._scenario = scenario
        self.draw = draw
        self._workers: dict[str, _Worker] = {}
        self._ordinals: dict[str, list[str]] = {}
        self.runs: Counter[str] = Counter()
        self._starts: Counter[tuple[str, str, str]] = Counter()

    def step(self) -> float | None:
        """Do what is due on every node."""
        due: list[float] = []
        present: set[str] = set()
        for item in list(self._access.items("pods")):
            node = item.obj["spec"].get("nodeName")
            if not node:
                continue
            present.add(item.uid)
            worker = self._workers.get(item.uid) or self._admit(item, node)
            worker.pod = item
            self._work(worker)
            if worker.due is not None:
                due.append(worker.due - worker.skew)
        for uid in [uid for uid in self._workers if uid not in present]:
            del self._workers[uid]
        return min(due, default=None)

    def _admit(self, item: Item, node: str) -> _Worker:
        spec = item.obj["spec"]
        every = [*(spec.get("initContainers") or ()), *spec["containers"]]
        skewed = self.draw(f"skewed/{node}", 0.0, 1.0) < 0.5
        skew = self.draw(f"clock/{node}", -self._scenario.node_skew, self._scenario.node_skew) if skewed else 0.0
        worker = self._workers[item.uid] = _Worker(node, item, {one["name"]: _Container(one) for one in every}, skew)
        return worker

    def _work(self, worker: _Worker) -> None:
        item, now = worker.pod, self._access.now + worker.skew
        self._take_images(item, worker)
        idle = worker.version == item.rv and (worker.due is None or worker.due > now)
        if idle and not any(container.waits_for_cue for container in worker.containers.values()):
            return
        while True:
            self._pass_time(item, worker, now)
            seen = {name: container.seen for name, container in worker.containers.items()}
            decision = decide(item.obj, seen, now, BACKOFF)
            if not self._act(item, worker, decision, now):
                break
        timers = [t for c in worker.containers.values() for t in (c.starts_at, c.ends_at) if t is not None]
        if decision.finish and worker.finish_at is None:
            worker.finish_at = now + self.draw(f"last-delete/{item.uid}", *self._scenario.last_delete_seconds)
        finishes = decision.finish and worker.finish_at is not None and worker.finish_at <= now
        if decision.finish and not finishes and worker.finish_at is not None:
            timers.append(worker.finish_at)
        wake_at = decision.wake_at
        worker.due = min([*timers, *([wake_at] if wake_at not in (None, FAR) else [])], default=None)
        worker.version = self._report(item, worker, seen, decision, now)
        if finishes:
            self._finish(item)

    @staticmethod
    def _take_images(item: Item, worker: _Worker) -> None:
        """A container whose image is changed may be started from the new one at once."""
        for spec in item.obj["spec"]["containers"]:
            container = worker.containers[spec["name"]]
            if container.spec.get("image") != spec.get("image"):
                container.spec, container.seen = spec, replace(container.seen, waiting=None, retry_at=None)

    # -- containers -----------------------------------------------------------------------------------------------------

    def _pass_time(self, item: Item, worker: _Worker, now: float) -> None:
        for name, container in worker.containers.items():
            if container.starts_at is not None and container.starts_at <= now:
                self._start(item, name, container, container.starts_at)
            cue, after = container.ending.cue, container.ending.after
            if container.waits_for_cue and cue is not None and cue(self._server, self.runs):
                container.waits_for_cue = False
                container.ends_at = None if after is None else now + after
            if container.ends_at is not None and container.ends_at <= now and container.seen.running:
                ending = container.ending
                if container.killed or container.stopping:
                    code = self._answer(item, name, ending) if container.stopping and not container.killed else 137
                    self._end(container, container.ends_at, code, "Completed" if code == 0 else "Error", "")
                else:
                    usual = "Completed" if ending.code == 0 else "Error"
                    self._end(container, container.ends_at, ending.code, usual, ending.message)

    def _answer(self, item: Item, name: str, ending: Exit) -> int:
        """The code with which the container answers SIGTERM."""
        if ending.term is not None:
            return ending.term
        return ON_SIGTERM[int(self.draw(f"term/{item.uid}/{name}", 0, len(ON_SIGTERM)))]

    def _act(self, item: Item, worker: _Worker, decision: Decision, now: float) -> bool:
        """Carry out starts and stops; whether anything came of it at once."""
        changed = False
        for name in decision.start:
            container = worker.containers[name]
            if wrong := images.fault(container.spec.get("image") or "none"):
                wait = ("InvalidImageName", wrong)
                container.seen = replace(container.seen, waiting=wait, retry_at=FAR, redefined=False)
                changed = True
                continue
            missing = self._missing_volume(item)
            if missing:
                container.seen = replace(container.seen, waiting=("ContainerCreating", missing), retry_at=now + 5.0)
                changed = True
                continue
            first = container.seen.run is None
            low, high = self._scenario.start_seconds if first else (RESTART_SECONDS, RESTART_SECONDS)
            container.starts_at = now + self.draw(f"start/{item.uid}/{name}", low, high)
            container.seen = replace(container.seen, starting=True, waiting=None, retry_at=None)
            changed = True
        for stop in decision.stop:
            container = worker.containers[stop.container]
            left = max(stop.grace, 0.0)
            if container.stopping and (container.ends_at or now) <= now + left:
                continue
            container.stopping, container.waits_for_cue = True, False
            container.seen = replace(container.seen, redefined=stop.container in decision.redefined)
            container.killed = container.ending.stop >= left
            container.ends_at = now + min(container.ending.stop, left)
            changed = True
        if item.obj["metadata"].get("deletionTimestamp"):
            for container in worker.containers.values():
                if container.starts_at is not None:
                    container.starts_at, container.seen = None, replace(container.seen, starting=False)
                    changed = True
        return changed

    def _start(self, item: Item, name: str, container: _Container, at: float) -> None:
        owner, _ = _slot(item)
        key = (owner, item.name, name)
        script = self._script(item, name)
        container.ending = script[min(self._starts[key], len(script) - 1)]
        self._starts[key] += 1
        if name == self._main(item):
            self.runs[self._label(item, owner)] += 1
        before = container.seen.run
        attempt = 0 if before is None else before.attempt + 1
        lasted = None if before is None else (before.finished_at or at) - before.started_at
        image = str(container.spec.get("image") or "")
        other = before is not None and before.image != image
        streak = 0 if lasted is None or lasted >= BACKOFF.reset or other else container.seen.streak + 1
        run = Run(attempt, at, container_id=f"sim://{item.name}/{name}/{self._starts[key]}", image=image)
        container.seen = ContainerState(run=run, last=before, streak=streak, started=True, ready=True)
        container.starts_at, container.stopping, container.killed = None, False, False
        container.waits_for_cue = container.ending.cue is not None
        waits = container.ending.after is None or container.waits_for_cue
        container.ends_at = None if waits else at + (container.ending.after or 0.0)

    @staticmethod
    def _end(container: _Container, at: float, code: int, reason: str, message: str) -> None:
        run = container.seen.run
        if run is None:
            return
        over = replace(run, finished_at=at, exit_code=code, reason=reason, message=message)
        container.seen = replace(container.seen, run=over, ready=False, started=False, starting=False)
        container.ends_at, container.waits_for_cue = None, False

    def _script(self, item: Item, name: str) -> Sequence[Exit]:
        full = f"{item.name}/{name}"
        for pattern, script in self._scenario.behaviour.items():
            if fnmatchcase(full if "/" in pattern else item.name, pattern) and ("/" in pattern or name == self._main(item)):
                return script
        inits = {one["name"] for one in item.obj["spec"].get("initContainers") or ()}
        return DONE if name in inits else FOREVER

    @staticmethod
    def _main(item: Item) -> str:
        return str(item.obj["spec"]["containers"][0]["name"])

    def _label(self, item: Item, owner: str) -> str:
        """The name under which runs are counted: another job of the same name gets a number."""
        known = self._ordinals.setdefault(item.name, [])
        if owner not in known:
            known.append(owner)
        number = known.index(owner) + 1
        return item.name if number == 1 else f"{item.name}#{number}"

    def _missing_volume(self, item: Item) -> str:
        """What a volume waits for, as the kubelet words it."""
        for volume in item.obj["spec"].get("volumes") or ():
            for source, table, field_name in (("secret", "secrets", "secretName"), ("configMap", "configmaps", "name")):
                wanted = volume.get(source)
                if wanted and not wanted.get("optional"):
                    name = wanted.get(field_name, "")
                    if self._access.get(table, item.namespace, name) is None:
                        return f'MountVolume.SetUp failed for volume "{volume["name"]}" : {source.lower()} "{name}" not found'
        return ""

    # -- the API server --------------------------------------------------------------------------------------------------

    def _report(self, item: Item, worker: _Worker, seen: Mapping[str, ContainerState], decision: Decision, now: float) -> int:
        """Write the pod's status if it differs; gives the version at which nothing is left to do."""
        wanted = pod_status(item.obj, seen, decision, self._address(item), _HOST, now)
        if _same(item.obj.get("status") or {}, wanted) or worker.said == (item.rv, wanted):
            return item.rv
        path = f"/api/v1/namespaces/{item.namespace}/pods/{item.name}/status"
        self._access.send("PATCH", path, {"metadata": {"uid": item.uid}, "status": wanted}, STRATEGIC_PATCH)
        current = self._access.get("pods", item.namespace, item.name)
        if current is item:
            worker.said = item.rv, wanted
        return current.rv if current is not None and current.uid == item.uid else -1

    def _finish(self, item: Item) -> None:
        path = f"/api/v1/namespaces/{item.namespace}/pods/{item.name}"
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0, "preconditions": {"uid": item.uid}}
        current = self._access.get("pods", item.namespace, item.name)
        if current is None or current.uid != item.uid:
            return
        # A pod held by a finalizer alone has its grace period at zero already.
        if current.obj["metadata"].get("deletionGracePeriodSeconds") != 0:
            self._access.send("DELETE", path, options)

    def _address(self, item: Item) -> str:
        known = (item.obj.get("status") or {}).get("podIP")
        number = int(self.draw(f"address/{item.uid}", 0, 2**16))
        return str(known) if known else f"10.244.{number >> 8}.{number & 255}"


def _slot(item: Item) -> tuple[str, str]:
    """The UID of the pod's controller, "" without one, and the pod's name."""
    references = item.obj["metadata"].get("ownerReferences") or ()
    return next((one["uid"] for one in references if one.get("controller")), ""), item.name


def _same(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether the stored status says all that is wanted; other writers' conditions may stand beside ours."""
    for key, value in wanted.items():
        if key == "conditions":
            known = {c["type"]: c for c in stored.get("conditions") or ()}
            if any(_bare(known.get(c["type"])) != _bare(c) for c in value):
                return False
        elif stored.get(key) != value:
            return False
    return True


def _bare(condition: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if condition is None:
        return None
    return {k: v for k, v in condition.items() if k not in ("lastProbeTime", "lastTransitionTime") and v is not None}


_TERMINAL = ("Succeeded", "Failed")
_NODES = 3


class Scheduler:
    """Binds pods to nodes a moment after their creation."""

    ASSUMES = ("gates", "binding")

    def __init__(self, server: ApiServer, draw: Draw) -> None:
        self._access = Access(server, "scheduler")
        self._draw = draw

    def step(self) -> float | None:
        """Bind every pod whose time has come."""
        now, due = self._access.now, []
        unbound = [pod for pod in self._access.items("pods") if _unbound(pod)]
        for pod in sorted(unbound, key=lambda pod: (pod.namespace, pod.name)):
            at = parse_time(pod.obj["metadata"]["creationTimestamp"]) + self._draw(f"bind/{pod.uid}", 0.05, 0.5)
            if now < at:
                due.append(at)
            else:
                node = f"node-{int(self._draw(f'node/{pod.name}', 0, _NODES))}"
                target = {"apiVersion": "v1", "kind": "Node", "name": node}
                body = {"metadata": {"name": pod.name, "uid": pod.uid}, "target": target}
                self._access.send("POST", f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/binding", body)
        return min(due, default=None)


def _unbound(pod: Item) -> bool:
    spec, meta = pod.obj["spec"], pod.obj["metadata"]
    phase = (pod.obj.get("status") or {}).get("phase")
    return (
        not spec.get("nodeName")
        and not spec.get("schedulingGates")
        and "deletionTimestamp" not in meta
        and phase not in _TERMINAL
    )
