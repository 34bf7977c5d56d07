"""What surrounds one job in memory: API server, nodes, quotas, Kueue, and the program.

`play` is one turn of everything that is not the operator.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Self

import msgspec

from jobcommon.api import labels
from jobcommon.api.status import Metric, TrainerStatus
from jobcommon.api.timestamp import format_time
from jobcommon.api.view import ObjectView, object_view
from jobcommon.client.errors import StatusError
from jobcommon.controller.result import ActionResult, Effect
from jobcommon.reconcile.plan import Action, Create, Delete, RemoveFinalizer, SetImage, Update, backed_off_as
from jobcommon.reconcile.reports import after_reports
from jobcommon.testutil.builders import START, Manifest, Pod
from jobcommon.testutil.kueue import admitted, evicted
from jobcommon.testutil.node_model import GRACE, GROUP, PLENTY, NodeModel, group_of

PODS = "pods"
WORKLOAD = ("Workload", "demo")
REPORT_EVERY = 10.0
FLAVOR: Manifest = {"kind": "ResourceFlavor", "metadata": {"name": "default", "uid": "default"}, "spec": {}}


@dataclass
class PlatformModel(NodeModel):
    """The objects of one job, and those who act on them.

    `refused` names kinds of writes that a webhook refuses (`backed_off_as`), `pods_allowed` is a ResourceQuota, and `share` the
    workers for which Kueue has quota.
    """

    exists: bool = True
    chance: Random = field(default_factory=lambda: Random(0))  # noqa: S311 - reproducibility is the point
    pods_allowed: int | None = None
    share: int | None = None
    refused: frozenset[str] = frozenset()
    quota: bool = True
    preempted: bool = False
    reports: bool = False
    checkpoint: str = ""
    _objects: int = 0

    def play(self) -> bool:
        """One turn of everything that is not the operator; whether it changed anything."""
        before = {name: pod.raw for name, pod in self.pods.items()}, dict(self.others)
        self._kueue()
        self._volcano()
        self._lose_nodes()
        self._kubelets()
        self.place()
        self.protect()
        return before != ({name: pod.raw for name, pod in self.pods.items()}, dict(self.others))

    # -- Kueue ------------------------------------------------------------------------------------------------------

    def _kueue(self) -> None:
        for (kind, name), found in list(self.others.items()):
            if kind != "Workload" or not str(found["apiVersion"]).startswith("kueue"):
                continue
            conditions = {one["type"]: one["status"] for one in (found.get("status") or {}).get("conditions") or ()}
            holds = "admission" in (found.get("status") or {})
            if self.preempted and holds and conditions.get("Evicted") != "True":
                self.others[kind, name] = evicted(found, at=self.now)
            elif self.quota and not self.preempted and not holds and found["spec"].get("active", True):
                self.others[kind, name] = given = admitted(found, at=self.now)
                for asked, one in zip(found["spec"]["podSets"], given["status"]["admission"]["podSetAssignments"], strict=True):
                    if "minCount" in asked and self.share is not None:
                        one["count"] = max(min(one["count"], self.share), asked["minCount"])

    def _volcano(self) -> None:
        """Take up a PodGroup of Volcano, whose pods are scheduled alone here."""
        group = self.others.get(GROUP, {})
        if str(group.get("apiVersion")).startswith("scheduling.volcano.sh") and not group.get("status"):
            self.others[GROUP] = {**group, "status": {"phase": "Inqueue"}}

    # -- the program ------------------------------------------------------------------------------------------------

    @property
    def trains(self) -> bool:
        """Whether all replicas that the job wants run."""
        names = [self.job.pod_name(replica) for replica in self.job.replicas]
        phases = [self.pods[name].raw["status"]["phase"] if name in self.pods else "" for name in names]
        ready = [self.pods[name].view.ready for name in names if name in self.pods]
        leaving = any("deletionTimestamp" in self.pods[name].raw["metadata"] for name in names if name in self.pods)
        return bool(names) and set(phases) == {"Running"} and all(ready) and not leaving

    def _next_report(self) -> float | None:
        program = self.program
        if not self.reports or program.hung_since is not None or not self.trains or self.job.status.finished:
            return None
        last = program.last_report if program.last_report is not None else START
        return max(last + REPORT_EVERY, program.loaded_at, self.now)

    def _report(self) -> None:
        program = self.program
        if (due := self._next_report()) is None or due > self.now or not self.manifest.get("status"):
            return
        program.step += 1
        program.reports_in_run += 1
        program.last_report = self.now
        status = after_reports(self.job.status, [(program.step, self.now, "reporter")], self.now, self.now)
        metrics = [Metric(name="current_step", value=str(program.step)), Metric(name="phase", value="train")]
        metrics += [Metric(name="checkpoint", value=self.checkpoint)] if self.checkpoint else []
        report = TrainerStatus(metrics=metrics, last_updated_time=format_time(self.now))
        self.manifest["status"] = status.model_copy(update={"trainer_status": report}).to_json()
        self._touch(self.manifest)

    # -- the API server ---------------------------------------------------------------------------------------------

    def _send(self, action: Action) -> ActionResult:
        """One request of the operator, and its answer."""
        full = isinstance(action, Create) and action.plural == PODS and len(self.pods) >= (self.pods_allowed or PLENTY * 100)
        if full or backed_off_as(action) in self.refused:
            why = "exceeded quota: team" if full else 'admission webhook "policy" denied the request'
            text = f'{action.plural} "{action.name}" is forbidden: {self.words(why)}'
            return ActionResult(action, Effect.REFUSED, error=StatusError(403, "Forbidden", text))
        if isinstance(action, Create) and action.plural == PODS and action.name in self.pods:
            text = f'pods "{action.name}" already exists'
            return ActionResult(action, Effect.REFUSED, error=StatusError(409, "AlreadyExists", text))
        self._apply(action)
        self.protect()
        return ActionResult(action, Effect.APPLIED)

    def _apply(self, action: Action) -> None:
        pod = self.pods.get(action.name) if action.plural == PODS else None
        match action:
            case Create(plural="pods"):
                uid = self._next_uid(action.name)
                self.pods[action.name] = Pod.created(self.framework, action.manifest, uid=uid, at=self.now)
            case Create():
                metadata = {**action.manifest["metadata"], "uid": self._next_uid(action.name), "resourceVersion": "1"}
                generated = action.generate() if action.generate is not None else {}
                self.others[action.manifest["kind"], action.name] = {**action.manifest, **generated, "metadata": metadata}
            case Update(plural="pods"):
                self._expire(action.name)
            case Update():
                self.others[action.manifest["kind"], action.name] = dict(action.manifest)
            case SetImage() | RemoveFinalizer() | Delete(plural="pods"):
                if pod is not None and pod.view.uid == action.uid:
                    self._apply_to_pod(pod, action)
            case Delete(plural="podgroups") if self._in_use():
                group = self.others[GROUP]
                self.others[GROUP] = {**group, "metadata": {**group["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
            case Delete() if action.plural == self.framework.plural:
                if action.uid == self.manifest["metadata"]["uid"]:
                    self.delete_job()
            case Delete():
                self.others = {key: one for key, one in self.others.items() if one["metadata"]["uid"] != action.uid}

    def _apply_to_pod(self, pod: Pod, action: SetImage | RemoveFinalizer | Delete) -> None:
        match action:
            case SetImage() if _fits(pod, action):
                self.put(pod.with_image(action.image, dict(action.annotations), action.others))
            case RemoveFinalizer():
                self.put(pod.without_finalizer())
                self._reap(pod.name)
            case Delete(force=True):
                self.put(pod.deleting(at=self.now, grace=0))
                self._reap(pod.name)
            case Delete() if action.resource_version in (None, pod.view.resource_version):
                self.delete_pod(pod.name)

    def _expire(self, name: str) -> None:
        """The kubelet ends a pod whose own deadline has passed."""
        pod = self.pods[name].expired()
        runs = pod.view.phase == "Running"
        self.put(pod.failed(143, at=self.now)._with(status={"reason": "DeadlineExceeded"}) if runs else pod)

    def _next_uid(self, name: str) -> str:
        self._objects += 1
        return f"{name}#{self._objects}"

    def protect(self) -> None:
        """The protection's finalizer of a PodGroup goes when no pod that has not ended names the group."""
        if GROUP in self.others and "deletionTimestamp" in self.others[GROUP]["metadata"] and not self._in_use():
            del self.others[GROUP]

    def _in_use(self) -> bool:
        living = (pod for pod in self.pods.values() if pod.raw["status"]["phase"] in ("Pending", "Running"))
        return any(group_of(pod) is not None for pod in living)

    def delete_pod(self, name: str, *, grace: int | None = None) -> Self:
        """Ask for a pod's deletion."""
        pod = self.pods[name]
        grace = pod.raw["spec"].get("terminationGracePeriodSeconds", GRACE) if grace is None else grace
        over = pod.raw["status"]["phase"] in ("Succeeded", "Failed")
        self.put(pod.deleting(at=self.now, grace=0 if over or not pod.view.scheduled else grace))
        self._reap(name)
        return self

    def delete_job(self) -> Self:
        """The job is deleted in the background: gone at once, its children left to the garbage collector."""
        self.exists = False
        for name in list(self.pods):
            self.delete_pod(name)
        self.others.clear()
        return self

    @staticmethod
    def _touch(manifest: Manifest) -> None:
        manifest["metadata"]["resourceVersion"] = str(int(manifest["metadata"]["resourceVersion"]) + 1)

    @staticmethod
    def _view(manifest: Mapping[str, Any]) -> ObjectView:
        return object_view(msgspec.json.encode(manifest))


def _fits(pod: Pod, change: SetImage) -> bool:
    """Whether the API server takes the change of its images: the tests of the patch hold."""
    parts = ((f"/spec/{part}", pod.raw["spec"].get(part) or ()) for part in ("initContainers", "containers"))
    there = {f"{path}/{at}": (one["name"], one["image"]) for path, found in parts for at, one in enumerate(found)}
    wanted = [(change.path, change.container, change.before), *(other[:3] for other in change.others)]
    own = pod.view.uid, pod.view.annotations.get(labels.ATTEMPT)
    return own == (change.uid, change.attempt) and all(there.get(path) == (name, image) for path, name, image in wanted)
