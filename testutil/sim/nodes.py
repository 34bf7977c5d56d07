"""The nodes of the simulator: those of `ClusterModel`, for each job on the API server.

The scheduler and the kubelets take note of each version of a pod after a random time, and write to the server what they make
of it. Programs end by the scenario's script.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from random import Random
from typing import Any, Self

from jobcommon.client.request import STRATEGIC_PATCH
from jobcommon.testutil.builders import Manifest, Pod
from jobcommon.testutil.cluster_model import ClusterModel
from jobcommon.testutil.sim.scenario import FOREVER, Exit, Scenario
from localcluster import ApiServer
from localcluster.model import Access, Item

NOTICE_SECONDS = (0.05, 2.0)
"""Between which bounds a node takes note of a pod's version: images and volumes are the rest of it."""
ENDS_AFTER = 5.0
SKEW = 60.0
"""By how much the nodes' clock may be ahead of the API server's, or behind it; for half of the jobs it is right."""
ON_SIGTERM = (143, 0, 1)
"""How programs answer SIGTERM: not at all, by ending well (as sshd does), or by ending with an error (as mpirun does)."""

Draw = Callable[[str], float]


@dataclass
class JobOnServer(ClusterModel):
    """A job and its pods as the API server has them."""

    ASSUMES = ("last-delete", "missing-volume", "gates", "binding")

    access: Access = field(kw_only=True)
    draw: Draw = field(kw_only=True)
    script: Mapping[str, Any] = field(kw_only=True)
    due: list[float] = field(default_factory=list)
    _noticed: dict[tuple[str, str], float] = field(default_factory=dict)
    _ends: dict[tuple[str, int], float] = field(default_factory=dict)

    def turn(self, pods: Mapping[str, Item], others: dict[tuple[str, str], Manifest]) -> None:
        """One turn of its scheduler, nodes and programs."""
        self.now, self.due, self.others = self.access.now, [], others
        self.pods = {name: self._pod(item) for name, item in pods.items()}
        self.place()
        self._kubelets()
        for name in self.running():
            self._program(name, self.pods[name])

    def _pod(self, item: Item) -> Pod:
        known = self.pods.get(item.name)
        if known is not None and known.raw is item.obj:
            return known
        names = [one["name"] for one in item.obj["spec"]["containers"]]
        return Pod(item.obj, self.framework.container if self.framework.container in names else names[0])

    def notices(self, pod: Pod) -> bool:
        """After a while."""
        version, (low, high) = (pod.view.uid, pod.view.resource_version), NOTICE_SECONDS
        at = self._noticed.setdefault(version, self.now + low + (high - low) * self.draw(f"{version}"))
        self.due += [at] if at > self.now else []
        return at <= self.now

    def answer(self, pod: Pod) -> int:
        """By chance."""
        return ON_SIGTERM[int(self.draw(f"term/{pod.view.uid}") * len(ON_SIGTERM))]

    def _program(self, name: str, pod: Pod) -> None:
        scripts = (script for pattern, script in self.script.items() if fnmatchcase(name, pattern))
        script, run = next(scripts, FOREVER), (pod.view.uid, self.runs[name])
        ending: Exit = script[min(run[1], len(script)) - 1]
        if ending.code is None or pod.view.deletion_time is not None:
            return
        if run not in self._ends and (ending.cue is None or ending.cue(self)):
            self._ends[run] = self.now + ENDS_AFTER
        if (at := self._ends.get(run)) is not None and at <= self.now:
            if ending.code:
                self.truth.failed(self.now, name)
            self.exit(name, ending.code, **({"message": ending.message} if ending.message else {}))
        elif at is not None:
            self.due.append(at)

    def put(self, pod: Pod) -> Self:
        """Write to the server what differs from its pod: the node, the status, or that nothing runs any more."""
        before, metadata = self.pods[pod.name], pod.raw["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{pod.name}"
        own, over = {"uid": metadata["uid"]}, metadata.get("deletionGracePeriodSeconds") == 0
        if pod.view.node_name != before.view.node_name:
            target = {"apiVersion": "v1", "kind": "Node", "name": pod.view.node_name}
            self.access.send("POST", f"{path}/binding", {"metadata": {"name": pod.name, **own}, "target": target})
        elif over and before.raw["metadata"].get("deletionGracePeriodSeconds") != 0:
            self.access.send("DELETE", path, {"gracePeriodSeconds": 0, "preconditions": own})
        else:
            status = {**pod.raw["status"], "observedGeneration": metadata.get("generation")}
            self.access.send("PATCH", f"{path}/status", {"metadata": own, "status": status}, STRATEGIC_PATCH)
        item = self.access.get("pods", metadata["namespace"], pod.name)
        if item is None:
            del self.pods[pod.name]
        else:
            self.pods[pod.name] = self._pod(item)
        return self

    def _reap(self, name: str) -> None:
        """The server does it."""


class Nodes:
    """All of them. `jobs` are the jobs by UID, `due` is when something is due again."""

    def __init__(self, server: ApiServer, scenario: Scenario, salt: int) -> None:
        self._access, self._scenario, self._salt = Access(server, "kubelet"), scenario, salt
        self.jobs: dict[str, JobOnServer] = {}
        self.due: float | None = None

    def draw(self, key: str) -> float:
        """Chance by name: the same key gives the same number in every run of a seed, whatever else was drawn before."""
        return Random(f"{self._salt}/{key}").random()  # noqa: S311 - reproducibility is the point

    def step(self) -> float | None:
        """What is due on every node."""
        self._look_at_jobs()
        pods: dict[str, dict[str, Item]] = defaultdict(dict)
        for item in list(self._access.items("pods")):
            pods[_owner_of(item)][item.name] = item
        sources = (("ConfigMap", "configmaps"), ("Secret", "secrets"))
        others = {(kind, item.name): item.obj for kind, table in sources for item in self._access.items(table)}
        for uid, job in self.jobs.items():
            job.turn(pods[uid], others)
        self.due = min((at for job in self.jobs.values() for at in job.due), default=None)
        return self.due

    def others_ended(self, before: Item, after: Item) -> None:
        """Note a deletion that no operator has asked for."""
        marked = "deletionTimestamp" in after.obj["metadata"] and "deletionTimestamp" not in before.obj["metadata"]
        if marked and (job := self.jobs.get(_owner_of(after))) is not None:
            job.truth.by_others += 1

    def _look_at_jobs(self) -> None:
        for framework in self._scenario.frameworks:
            for item in self._access.items(f"{framework.plural}.{framework.group}"):
                manifest = {"apiVersion": framework.api_version, "kind": framework.kind, **item.obj}
                if item.uid not in self.jobs:
                    script = self._scenario.behaviour
                    job = JobOnServer(framework, manifest, thorough=False, access=self._access, draw=self.draw, script=script)
                    if self.draw(f"skewed/{item.name}") < 0.5:
                        job.skew = SKEW * (2 * self.draw(f"clock/{item.name}") - 1)
                    self.jobs[item.uid] = job
                self.jobs[item.uid].manifest = manifest


def _owner_of(item: Item) -> str:
    """The UID of the object's controller; "" without one."""
    owners = item.obj["metadata"].get("ownerReferences") or ()
    return next((one["uid"] for one in owners if one.get("controller")), "")
