"""What surrounds one job in memory: API server, scheduler, kubelets, nodes that are lost, quotas, Kueue, and the program.

`play` is one turn of everything that is not the operator. Single kubelets can be played by hand instead.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Self

import msgspec

from jobcommon.api import labels
from jobcommon.api.gang import min_count
from jobcommon.api.status import Metric, TrainerStatus
from jobcommon.api.timestamp import format_time
from jobcommon.api.view import ObjectView, object_view
from jobcommon.client.errors import StatusError
from jobcommon.controller.result import ActionResult, Effect
from jobcommon.framework import FINALIZER, Framework, Job
from jobcommon.reconcile.plan import Action, Create, Delete, RemoveFinalizer, SetImage, Update, backed_off_as
from jobcommon.reconcile.reports import after_reports
from jobcommon.spec import read_job
from jobcommon.testutil.builders import START, Manifest, Pod
from jobcommon.testutil.kueue import admitted, evicted
from jobcommon.testutil.program_model import Program, Truth

PODS = "pods"
GROUP, WORKLOAD = ("PodGroup", "demo"), ("Workload", "demo")
PLENTY = 100
GRACE = 30
REPORT_EVERY = 10.0
FLAVOR: Manifest = {"kind": "ResourceFlavor", "metadata": {"name": "default", "uid": "default"}, "spec": {}}
_TOLERATED = 300
"""Seconds for which a pod tolerates a silent node unless its job says otherwise."""


@dataclass
class PlatformModel:
    """The objects of one job, and those who act on them. `runs` counts the starts of the main container by pod name.

    `room` is for how many pods there are nodes. The scheduler tries pods in their order, with an `order` in one that this
    number draws. `refused` names kinds of writes that the API server refuses (`backed_off_as`), and `pods_allowed` is a
    ResourceQuota. With `restless`, the platform words its messages anew at each moment.
    """

    framework: Framework
    manifest: Manifest
    now: float = START
    pods: dict[str, Pod] = field(default_factory=dict)
    others: dict[tuple[str, str], Manifest] = field(default_factory=dict)
    runs: dict[str, int] = field(default_factory=dict)
    exists: bool = True
    thorough: bool = True
    chance: Random = field(default_factory=lambda: Random(0))  # noqa: S311 - reproducibility is the point
    order: int | None = None
    restless: bool = False
    room: int = PLENTY
    pods_allowed: int | None = None
    refused: frozenset[str] = frozenset()
    quota: bool = True
    preempted: bool = False
    silent: set[str] = field(default_factory=set)
    silent_since: dict[str, float] = field(default_factory=dict)
    reports: bool = False
    program: Program = field(default_factory=Program)
    truth: Truth = field(default_factory=Truth)
    worlds: dict[str, tuple[str, str]] = field(default_factory=dict)
    programs: dict[str, tuple[dict[str, str], dict[str, str]]] = field(default_factory=dict)
    mixed: list[str] = field(default_factory=list)
    _objects: int = 0
    _read: tuple[str, Job] | None = None

    @property
    def job(self) -> Job:
        """The job as the operator reads it."""
        version = str(self.manifest["metadata"]["resourceVersion"])
        if self.thorough or self._read is None or self._read[0] != version:
            self._read = version, read_job(self.framework, self.manifest)
        return self._read[1]

    def words(self, text: str) -> str:
        """A message of the platform."""
        moment = "".join(chr(ord("a") + int(digit)) for digit in f"{self.now - START:.0f}")
        return f"{text}, {moment}" if self.restless else text

    def play(self) -> bool:
        """One turn of everything that is not the operator; whether it changed anything."""
        before = {name: pod.raw for name, pod in self.pods.items()}, dict(self.others)
        self._kueue()
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
                self.others[kind, name] = admitted(found, at=self.now)

    # -- the kubelets -----------------------------------------------------------------------------------------------

    def run(self, *names: str) -> Self:
        """Start the pods named, or all that wait for their first start."""
        for name in names or sorted(self.pods):
            pod = self.pods[name]
            if pod.raw["status"]["phase"] == "Pending" and "deletionTimestamp" not in pod.raw["metadata"]:
                self.put(pod.running(at=self.now))
                self.runs[name] = self.runs.get(name, 0) + 1
        return self

    def exit(self, name: str, code: int, **cause: Any) -> Self:
        """The main container ends with `code`. Where the pod's restartPolicy says so, it will be started again."""
        pod = self.pods[name]
        policy = pod.raw["spec"]["restartPolicy"]
        deleting = "deletionTimestamp" in pod.raw["metadata"]
        if not deleting and (policy == "Always" or (policy == "OnFailure" and code != 0)):
            self.put(pod.between_runs(code, at=self.now))
        else:
            self.put(pod.succeeded(at=self.now) if code == 0 else pod.failed(code, at=self.now, **cause))
        return self

    def restart(self, name: str) -> Self:
        """The kubelet starts the main container of a pod again."""
        pod = self.pods[name]
        self.put(pod.running(at=self.now, restarts=pod.restarts + 1))
        self.runs[name] += 1
        return self

    def stop_terminating(self, code: int = 143) -> Self:
        """Every pod whose deletion was asked for comes to its end."""
        for name, pod in list(self.pods.items()):
            if "deletionTimestamp" in pod.raw["metadata"] and pod.raw["status"]["phase"] not in ("Succeeded", "Failed"):
                ended = pod.succeeded(at=self.now) if code == 0 else pod.failed(code, at=self.now)
                self.put(ended.last_delete(at=self.now + 3))
                self._reap(name)
        return self

    def _kubelets(self) -> None:
        for name, pod in list(self.pods.items()):
            raw, view = pod.raw, pod.view
            if view.uid in self.silent or not view.scheduled:
                if raw["metadata"].get("deletionGracePeriodSeconds") and not view.scheduled:
                    self._end(name, pod)
                continue
            if raw["status"]["phase"] in ("Succeeded", "Failed"):
                if "deletionTimestamp" in raw["metadata"] and raw["metadata"].get("deletionGracePeriodSeconds") != 0:
                    self.put(pod.last_delete(at=self.now))
                    self._reap(name)
                continue
            if "deletionTimestamp" in raw["metadata"]:
                self._end(name, pod)
                continue
            self._run_containers(name, pod)

    def _run_containers(self, name: str, pod: Pod) -> None:
        main = next((s for s in pod.raw["status"].get("containerStatuses", ()) if s["name"] == pod.main), None)
        image = next(c["image"] for c in pod.raw["spec"]["containers"] if c["name"] == pod.main)
        gate = ":stopped:" in image
        if main is None:
            self.put(pod.waiting("InvalidImageName", image) if gate else pod.running(at=self.now))
            if not gate:
                self._starts(name)
        elif gate and "waiting" not in main["state"]:
            self.put(pod.stopped_by_image())
        elif not gate and "running" not in main["state"]:
            again = pod.running(at=self.now, restarts=pod.restarts + 1)
            last = main["state"].get("terminated") or (main.get("lastState") or {}).get("terminated")
            statuses = [
                {**s, "lastState": {"terminated": last}} if last else s for s in again.raw["status"]["containerStatuses"]
            ]
            self.put(again._with(status={"containerStatuses": statuses}))
            self._starts(name)

    def _starts(self, name: str) -> None:
        """Note what the program knows of its peers, and whether one of another attempt still runs."""
        self.runs[name] = self.runs.get(name, 0) + 1
        self.program.starts_over(self.now)
        own = self.pods[name].view.annotations
        self._read_world(self.pods[name])
        self.worlds[self.pods[name].view.uid] = world = own.get(labels.ATTEMPT, ""), own.get(labels.SIZE, "")
        if not self.job.restarts_together:
            return
        for other, pod in self.pods.items():
            main = next((s for s in pod.raw["status"].get("containerStatuses", ()) if s["name"] == pod.main), None)
            runs = main is not None and "running" in main["state"] and pod.raw["status"]["phase"] == "Running"
            if runs and pod.view.uid not in self.silent and self.worlds.get(pod.view.uid, world) != world:
                self.mixed.append(f"{name} starts in {world} while {other} runs in {self.worlds[pod.view.uid]}")

    def _read_world(self, pod: Pod) -> None:
        """Note the variables with which a main program starts, and its files, which are those of when its pod started."""
        variables, own = {}, pod.raw["metadata"].get("annotations") or {}
        for entry in next(c.get("env") or () for c in pod.raw["spec"]["containers"] if c["name"] == pod.main):
            path = (entry.get("valueFrom") or {}).get("fieldRef", {}).get("fieldPath", "")
            variables[entry["name"]] = entry.get("value") or own.get(path.partition("'")[2][:-2], "")
        mounted = [volume["configMap"]["name"] for volume in pod.raw["spec"].get("volumes") or () if "configMap" in volume]
        files = {key: text for name in mounted for key, text in self.others["ConfigMap", name]["data"].items()}
        self.programs[pod.view.uid] = variables, self.programs.get(pod.view.uid, ({}, files))[1]

    def _end(self, name: str, pod: Pod) -> None:
        if pod.raw["status"]["phase"] == "Pending" and not pod.view.scheduled:
            self.put(pod.last_delete(at=self.now))
        else:
            self.put(pod.failed(143, at=self.now).last_delete(at=self.now))
        self._reap(name)

    # -- the scheduler ----------------------------------------------------------------------------------------------

    def place(self) -> list[str]:
        """Bind what finds a node, and say of the others that they find none. The members of a gang are bound all at once.

        Pods that have ended are forgotten, so a gang may lack members for ever.
        """
        living = {name: pod for name, pod in self.pods.items() if pod.raw["status"]["phase"] in ("Pending", "Running")}
        bound = [name for name, pod in living.items() if pod.view.scheduled]
        waiting = [n for n, pod in living.items() if n not in bound and "deletionTimestamp" not in pod.raw["metadata"]]
        if self.order is not None:
            # By name, so that it does not depend on how often the scheduler looks.
            waiting.sort(key=lambda name: Random(f"{self.order}/{living[name].view.uid}").random())  # noqa: S311
        alone = [name for name in waiting if group_of(living[name]) is None]
        gang = [name for name in waiting if name not in alone]
        chosen = [*alone, *gang][: max(self.room - len(bound), 0)]
        members = sum(group_of(pod) is not None for pod in living.values())
        placed = sum(group_of(living[name]) is not None for name in (*bound, *chosen))
        least = min_count(self.others[GROUP]) if GROUP in self.others else members + 1
        if members < least or placed < least:
            chosen = [name for name in chosen if name in alone]
        for name in waiting:
            pod, text = self.pods[name], self.words("0/9 nodes are available")
            if name in chosen:
                self.put(pod.scheduled())
            elif pod.view.unschedulable != text:
                self.put(pod.unschedulable(text))
        return chosen

    def schedule(self) -> list[str]:
        """What the scheduler places now, started."""
        if chosen := self.place():
            self.run(*chosen)
        return chosen

    # -- nodes that are lost ----------------------------------------------------------------------------------------

    def _next_loss(self) -> float | None:
        seconds = self.job.run_policy.node_loss_seconds
        due = [at + (_TOLERATED if seconds is None else seconds) for uid, at in self.silent_since.items() if at >= 0]
        return min(due, default=None)

    def _lose_nodes(self) -> None:
        """The taint manager deletes the pods of a node that has been silent for as long as they tolerate."""
        seconds = self.job.run_policy.node_loss_seconds
        for pod in list(self.pods.values()):
            uid = pod.view.uid
            since = self.silent_since.get(uid)
            if since is None or since < 0 or self.now < since + (_TOLERATED if seconds is None else seconds):
                continue
            self.silent_since[uid] = -1.0
            if "deletionTimestamp" not in pod.raw["metadata"]:
                self.truth.by_others += 1
                self.put(pod.disrupted("DeletionByTaintManager").deleting(at=self.now, grace=GRACE))
        gone = self.silent_since.keys() - {pod.view.uid for pod in self.pods.values()}
        for uid in gone:
            del self.silent_since[uid]

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
        report = TrainerStatus(metrics=metrics, last_updated_time=format_time(self.now))
        self.manifest["status"] = status.model_copy(update={"trainer_status": report}).to_json()
        self._touch(self.manifest)

    # -- the API server ---------------------------------------------------------------------------------------------

    def _send(self, action: Action) -> ActionResult:
        """One request of the operator, and its answer."""
        full = isinstance(action, Create) and action.plural == PODS and len(self.pods) >= (self.pods_allowed or PLENTY * 100)
        if full or backed_off_as(action) in self.refused:
            text = f'{action.plural} "{action.name}" is forbidden: {self.words("exceeded quota: team")}'
            return ActionResult(action, Effect.REFUSED, error=StatusError(403, "Forbidden", text))
        self._apply(action)
        self.protect()
        return ActionResult(action, Effect.APPLIED)

    def _apply(self, action: Action) -> None:
        pod = self.pods.get(action.name) if action.plural == PODS else None
        match action:
            case Create(plural="pods"):
                if pod is None:  # else 409: the old one is still terminating
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
                self.put(pod.with_image(action.image, dict(action.annotations)))
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

    def _reap(self, name: str) -> None:
        """Remove a pod whose deletion is complete: nothing runs any more and no finalizer is left."""
        raw = self.pods[name].raw
        over = raw["status"]["phase"] in ("Succeeded", "Failed") or raw["metadata"].get("deletionGracePeriodSeconds") == 0
        if over and "deletionTimestamp" in raw["metadata"] and FINALIZER not in raw["metadata"].get("finalizers", ()):
            del self.pods[name]

    def put(self, pod: Pod) -> Self:
        """The pod as it is now, under a new version."""
        version = str(int(pod.raw["metadata"]["resourceVersion"]) + 1)
        self.pods[pod.name] = pod._with(metadata={"resourceVersion": version})
        return self

    def protect(self) -> None:
        """The protection's finalizer of a PodGroup goes when no pod that has not ended names the group."""
        if GROUP in self.others and "deletionTimestamp" in self.others[GROUP]["metadata"] and not self._in_use():
            del self.others[GROUP]

    def _in_use(self) -> bool:
        living = (pod for pod in self.pods.values() if pod.raw["status"]["phase"] in ("Pending", "Running"))
        return any(group_of(pod) is not None for pod in living)

    def delete_pod(self, name: str, *, grace: int = GRACE) -> Self:
        """Ask for a pod's deletion."""
        pod = self.pods[name]
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


def group_of(pod: Pod) -> str | None:
    """The PodGroup that the pod names."""
    return (pod.raw["spec"].get("schedulingGroup") or {}).get("podGroupName")


def _fits(pod: Pod, change: SetImage) -> bool:
    """Whether the API server takes the change of its image: the tests of the patch hold."""
    main = pod.raw["spec"]["containers"][0]
    there = (pod.view.uid, pod.view.annotations.get(labels.ATTEMPT), main["name"], main["image"])
    return there == (change.uid, change.attempt, change.container, change.before)
