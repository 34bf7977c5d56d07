"""Builders of manifests for tests: jobs, and pods in every state a kubelet or the API server can bring them into.

A manifest is plain JSON. `job_manifest` gives one of a job; `Pod` is an immutable builder whose methods each give a new pod
in another state and whose `view` is what a controller sees::

    Pod.of(job, "Worker", 0).running(at=10).failed(137, at=20).view
"""

from collections.abc import Collection, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import msgspec

from jobcommon.api import labels
from jobcommon.api.observed import Observed
from jobcommon.api.pod import PodView, pod_view
from jobcommon.api.replica import Replica
from jobcommon.api.timestamp import format_time
from jobcommon.api.view import ObjectView, object_view
from jobcommon.framework import FINALIZER, Framework, Job
from jobcommon.manifests.children import service_manifests
from jobcommon.reconcile.features import features_of
from jobcommon.reconcile.view import look
from jobcommon.spec import read_job

Manifest = dict[str, Any]
START = 1_700_000_000.0
"""The time at which tests begin, in seconds since the epoch."""
GONE: Any = object()
"""In place of a value: see `put`."""
IMAGE_ID = f"docker.io/library/image@sha256:{'0' * 64}"


def put(manifest: Manifest, path: str, value: Any) -> None:
    """Set what stands at the dotted path in the manifest, or with `GONE` take it out; a number is a place in a list."""
    *parents, last = path.split(".")
    at: Any = manifest
    for part in parents:
        at = at[int(part) if isinstance(at, list) else part]
    if value is GONE:
        del at[last]
    else:
        at[last] = value


def template(framework: Framework, **container: Any) -> Manifest:
    """A pod template with the framework's main container, and `container` on top of it."""
    return {"spec": {"containers": [{"name": framework.container or "main", "image": "image", **container}]}}


def replica_spec(framework: Framework, replicas: int | None = 1, restart_policy: str | None = None, **fields: Any) -> Manifest:
    """A replica spec; None leaves a field out."""
    spec = {"replicas": replicas, "restartPolicy": restart_policy, "template": template(framework), **fields}
    return {key: value for key, value in spec.items() if value is not None}


def job_manifest(
    framework: Framework,
    replicas: Mapping[str, int | Manifest],
    *,
    policy: str | None = None,
    name: str = "demo",
    uid: str = "uid-demo",
    run_policy: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Manifest:
    """A job with the given number of replicas of each type (or the given replica spec), all of restart policy `policy`."""
    specs = {
        kind: value if isinstance(value, Mapping) else replica_spec(framework, value, policy)
        for kind, value in replicas.items()
    }
    manifest: Manifest = {
        "apiVersion": framework.api_version,
        "kind": framework.kind,
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": uid,
            "resourceVersion": "1",
            "generation": 1,
            "creationTimestamp": format_time(START),
            "annotations": dict(annotations or {}),
        },
        "spec": {"runPolicy": dict(run_policy or {}), framework.replica_specs: specs, **spec},
    }
    if status is not None:
        manifest["status"] = dict(status)
    return manifest


def condition(kind: str, holds: bool = True, reason: str = "", message: str = "", at: float = START) -> Manifest:
    """One condition of a status."""
    moment = format_time(at)
    return {
        "type": kind,
        "status": "True" if holds else "False",
        "reason": reason,
        "message": message,
        "lastUpdateTime": moment,
        "lastTransitionTime": moment,
    }


def finished_status(kind: str = "Succeeded", reason: str = "", at: float = START) -> Manifest:
    """The status of a job that ended at `at`."""
    return {
        "conditions": [condition("Created"), condition(kind, reason=reason, at=at)],
        "replicaStatuses": {},
        "startTime": format_time(START),
        "completionTime": format_time(at),
    }


def pod_manifest(framework: Framework, job: Job, replica: Replica) -> Manifest:
    """The manifest of the pod that our controller creates for that slot of a job without other objects."""
    return look(framework, job, Observed(), START, features_of(framework)).pod(replica)


@dataclass(frozen=True)
class Pod:
    """A pod as JSON. Every method gives a new one; times are seconds since the epoch."""

    ASSUMES: ClassVar = ("eviction-api", "preemption", "oom", "kubelet-eviction", "node-taint")

    raw: Manifest
    main: str

    @classmethod
    def of(cls, framework: Framework, job: Job, kind: str, index: int, *, uid: str = "", at: float = START) -> "Pod":
        """The pod our controller creates for that slot, as the API server keeps it: Pending, without a node."""
        return cls.created(framework, pod_manifest(framework, job, Replica(kind, index)), uid=uid, at=at)

    @classmethod
    def created(cls, framework: Framework, manifest: Mapping[str, Any], *, uid: str = "", at: float = START) -> "Pod":
        """The pod that the API server makes of `manifest`."""
        raw = deepcopy(dict(manifest))
        name = raw["metadata"]["name"]
        raw["metadata"] |= {"uid": uid or f"uid-{name}", "resourceVersion": "1", "creationTimestamp": format_time(at)}
        raw["status"] = {"phase": "Pending"}
        return cls(raw, framework.container or raw["spec"]["containers"][0]["name"])

    @cached_property
    def view(self) -> PodView:
        """What a controller sees of it."""
        return pod_view(msgspec.json.encode(self.raw))

    @property
    def name(self) -> str:
        """metadata.name."""
        return str(self.raw["metadata"]["name"])

    # -- the kubelet ------------------------------------------------------------------------------------------------

    def scheduled(self, node: str = "") -> "Pod":
        """Bound to a node, its containers not started yet."""
        return self._with(spec={"nodeName": node or self.raw["spec"].get("nodeName") or "node-1"})._condition(
            "PodScheduled", "True"
        )

    def running(self, at: float = START, *, restarts: int = 0, last: Manifest | None = None) -> "Pod":
        """Its containers run, the main one for the time `restarts` + 1, after a run that ended so."""
        pod = self.scheduled()._condition("Ready", "True")._with(status={"phase": "Running", "startTime": format_time(at)})
        return pod._main({"running": {"startedAt": format_time(at)}}, restarts, last=last, ready=True)

    def succeeded(self, at: float = START) -> "Pod":
        """It ended with code 0."""
        return self._ended("Succeeded", 0, at, "Completed", "")

    def failed(self, code: int, at: float = START, *, reason: str = "Error", message: str = "") -> "Pod":
        """Its main container ended with `code`, and it is not restarted in place."""
        return self._ended("Failed", code, at, reason, message)

    def evicted(self, reason: str = "Evicted", message: str = "The node was low on resource: memory.") -> "Pod":
        """Ended by the kubelet, which left no container status."""
        status = {"phase": "Failed", "reason": reason, "message": message, "containerStatuses": []}
        return self.scheduled()._with(status=status)

    def crash_looping(self, restarts: int, code: int = 1) -> "Pod":
        """The main container has failed `restarts` + 1 times and waits for its next start."""
        waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}}
        last = {**self._run(restarts, code), "startedAt": format_time(START), "finishedAt": format_time(START)}
        return self.running()._main(waiting, restarts, last=last)

    def between_runs(self, code: int, at: float = START) -> "Pod":
        """The main container has just ended with `code`; the kubelet will start it again."""
        state = {"terminated": {**self._run(self.restarts, code), "finishedAt": format_time(at)}}
        return self._with(status={"phase": "Running"})._main(state)

    def waiting(self, reason: str, message: str) -> "Pod":
        """The main container cannot be started, for instance ImagePullBackOff."""
        return self.scheduled()._main({"waiting": {"reason": reason, "message": message}}, 0)

    def unschedulable(self, message: str = "0/3 nodes are available") -> "Pod":
        """The scheduler finds no node."""
        return self._condition("PodScheduled", "False", reason="Unschedulable", message=message)

    def lost(self, at: float = START) -> "Pod":
        """Evicted from a node that is silent: it stays."""
        return self.running().disrupted("DeletionByTaintManager").deleting(at)

    def placed(self, after: float) -> "Pod":
        """The scheduler found its node `after` seconds."""
        return self._condition("PodScheduled", "True", lastTransitionTime=format_time(START + after))

    def disrupted(self, reason: str = "EvictionByEvictionAPI") -> "Pod":
        """Marked by the platform as about to be ended."""
        return self._condition("DisruptionTarget", "True", reason=reason)

    def with_sidecar(self, code: int | None, at: float | None = None, message: str = "") -> "Pod":
        """A second container, running or ended with `code`, listed before the main one."""
        ended = {"exitCode": code, "reason": "Error", "message": message, **({"finishedAt": format_time(at)} if at else {})}
        state = {"running": {}} if code is None else {"terminated": ended}
        sidecar = {"name": "sidecar", "restartCount": 0, "ready": code is None, "state": state}
        return self._with(status={"containerStatuses": [sidecar, *self.raw["status"].get("containerStatuses", ())]})

    def with_init(self, code: int | None, *, restarts: int = 0, last: int | None = None, policy: str = "") -> "Pod":
        """An init container, running or ended with `code`, after a run that ended with `last`; of `policy` Always a sidecar."""
        state = {"running": {}} if code is None else {"terminated": self._run(restarts, code)}
        before = {"lastState": {"terminated": self._run(restarts - 1, last)}} if last is not None else {}
        spec = {"name": "prepare", "image": "image", **({"restartPolicy": policy} if policy else {})}
        status = {"name": "prepare", "restartCount": restarts, "state": state, **before}
        return self._with(spec={"initContainers": [spec]}, status={"initContainerStatuses": [status]})

    def restarted_after(self, code: int, restarts: int = 1) -> "Pod":
        """The main container runs again after a run that ended with `code`."""
        return self.running()._main({"running": {}}, restarts, last=self._run(restarts - 1, code), ready=True)

    def with_stopping_image(self, attempt: int) -> "Pod":
        """An image that stops the main container, for that attempt, is set; the kubelet has not seen it."""
        return self.with_image(f"image:stopped:attempt-{attempt}", {})._with(metadata={"generation": 2})

    def ordered_to_stop(self, after: int = 0) -> "Pod":
        """The operator has asked the program to stop, so many seconds after `START`."""
        annotations = {**self.raw["metadata"]["annotations"], labels.STOP_ORDERED: format_time(START + after)}
        return self._with(metadata={"annotations": annotations})

    def spec_seen(self) -> "Pod":
        """The kubelet's status is about the present spec."""
        return self._with(status={"observedGeneration": self.raw["metadata"]["generation"]})

    def stopped_by_image(self, attempt: int = 0) -> "Pod":
        """The kubelet has stopped the main container because of its image: that of `attempt`, if one is given."""
        if attempt:
            return self.with_stopping_image(attempt).stopped_by_image()
        image = next(c["image"] for c in self.raw["spec"]["containers"] if c["name"] == self.main)
        message = f'Failed to apply default image tag "{image}": couldn\'t parse image name'
        waiting = {"waiting": {"reason": "InvalidImageName", "message": message}}
        return self._with(status={"phase": "Running"})._main(waiting, last=self._run(self.restarts, 143))

    def main_ended(self, code: int, at: float = START) -> "Pod":
        """The main container has ended with `code` for good, while an ordinary sidecar runs on."""
        phase = {"phase": "Running"}
        ended = self.running()._ended("Running", code, at, "Error" if code else "Completed", "")
        return ended.with_sidecar(None)._with(status=phase)

    # -- the API server ---------------------------------------------------------------------------------------------

    def deleting(self, at: float = START, *, grace: int = 30) -> "Pod":
        """Its deletion was asked for at `at`: the timestamp lies the grace period later."""
        return self._with(metadata={"deletionTimestamp": format_time(at + grace), "deletionGracePeriodSeconds": grace})

    def last_delete(self, at: float = START) -> "Pod":
        """The kubelet's DELETE without a grace period, when all containers have ended: the timestamp moves to its time."""
        return self.deleting(at=at, grace=0)

    def without_finalizer(self) -> "Pod":
        """Our finalizer taken off."""
        return self._with(metadata={"finalizers": [f for f in self.raw["metadata"].get("finalizers", ()) if f != FINALIZER]})

    def with_image(self, image: str, annotations: Mapping[str, str], others: Collection[tuple[str, ...]] = ()) -> "Pod":
        """With another image of the main container and of `others`, and more annotations."""
        images = {(path.split("/")[2], name): text for path, name, _, text in others} | {("containers", self.main): image}
        spec = {
            part: [{**c, "image": images.get((part, c["name"]), c["image"])} for c in self.raw["spec"][part]]
            for part in ("initContainers", "containers")
            if part in self.raw["spec"]
        }
        known = self.raw["metadata"].get("annotations") or {}
        return self._with(spec=spec, metadata={"annotations": {**known, **annotations}})

    def expired(self) -> "Pod":
        """The operator has given it a deadline that has passed."""
        return self._with(metadata={"annotations": {labels.EXPIRED: "true"}}, spec={"activeDeadlineSeconds": 1})

    def in_attempt(self, attempt: int, earlier_runs: int) -> "Pod":
        """Restarted in place for that attempt, after so many runs of earlier ones."""
        own = {labels.ATTEMPT: str(attempt), labels.EARLIER_RUNS: str(earlier_runs)}
        return self._with(metadata={"annotations": {**self.raw["metadata"].get("annotations", {}), **own}})

    def without_id(self) -> "Pod":
        """The kubelet does not know the container of the run that has ended."""
        (main,) = self.raw["status"]["containerStatuses"]
        run = {key: value for key, value in main["state"]["terminated"].items() if key != "containerID"}
        return self._with(status={"containerStatuses": [{**main, "state": {"terminated": run}}]})

    def labelled(self, **own: str) -> "Pod":
        """With other labels of ours: ``replica_index="-1"``."""
        changed = {f"{labels.PREFIX}{key.replace('_', '-')}": value for key, value in own.items()}
        return self._with(metadata={"labels": {**self.raw["metadata"]["labels"], **changed}})

    def renamed(self, name: str) -> "Pod":
        """Under another name."""
        return self._with(metadata={"name": name})

    @property
    def restarts(self) -> int:
        """restartCount of the main container."""
        statuses = self.raw["status"].get("containerStatuses", ())
        return next((int(s["restartCount"]) for s in statuses if s["name"] == self.main), 0)

    def _ended(self, phase: str, code: int, at: float, reason: str, message: str) -> "Pod":
        start = {"startedAt": self.raw["status"]["startTime"]} if "startTime" in self.raw["status"] else {}
        run = {**self._run(self.restarts, code), "reason": reason, "message": message, **start, "finishedAt": format_time(at)}
        return self.scheduled()._condition("Ready", "False")._with(status={"phase": phase})._main({"terminated": run})

    def _condition(self, kind: str, status: str, **fields: str) -> "Pod":
        others = [c for c in self.raw["status"].get("conditions", ()) if c["type"] != kind]
        return self._with(status={"conditions": [*others, {"type": kind, "status": status, **fields}]})

    def _main(
        self, state: Manifest, restarts: int | None = None, *, last: Manifest | None = None, ready: bool = False
    ) -> "Pod":
        """The main container in that state, the only one, started again so often as before unless `restarts` says so."""
        count = self.restarts if restarts is None else restarts
        before = {"lastState": {"terminated": last}} if last else {}
        main = {"name": self.main, "imageID": IMAGE_ID, "ready": ready, "restartCount": count, "state": state, **before}
        return self._with(status={"containerStatuses": [main]})

    def _run(self, number: int, code: int) -> Manifest:
        """A run of a container that ended with `code`."""
        return {"exitCode": code, "reason": "Error" if code else "Completed", "containerID": f"test://{self.name}/{number}"}

    def _with(self, **parts: Mapping[str, Any]) -> "Pod":
        changed = {part: {**self.raw.get(part, {}), **fields} for part, fields in parts.items()}
        return Pod({**self.raw, **changed}, self.main)


def services_of(framework: Framework, job: Job) -> tuple[ObjectView, ...]:
    """The Services a job wants, as if they existed."""
    return tuple(
        view_of(manifest, uid=f"uid-service-{manifest['metadata']['name']}") for manifest in service_manifests(framework, job)
    )


def view_of(manifest: Mapping[str, Any], *, uid: str, resource_version: str = "1") -> ObjectView:
    """The view of any object that the API server makes of `manifest`."""
    metadata = {**manifest["metadata"], "uid": uid, "resourceVersion": resource_version}
    return object_view(msgspec.json.encode({**manifest, "metadata": metadata}))


def observe(framework: Framework, manifest: Mapping[str, Any], pods: Mapping[str, str] | None = None, **more: Any) -> Observed:
    """The job's Services, and pods given as ``{"Worker-0": "running", "Worker-1": "failed 137"}``.

    The states are names of `Pod` methods, with an exit code for `failed`; several are applied in order when separated by
    a comma.
    """
    job = read_job(framework, manifest)
    views = []
    for slot, states in (pods or {}).items():
        kind, _, index = slot.rpartition("-")
        pod = Pod.of(framework, job, kind, int(index))
        for state in states.split(","):
            method, *numbers = state.split()
            pod = getattr(pod, method)(*map(int, numbers))
        views.append(pod.view)
    return Observed(pods=tuple(views), services=services_of(framework, job), **more)
