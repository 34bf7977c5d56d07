"""A minimal cluster in memory: one job, its pods and Services, and models of the API server and the kubelets.

The model applies plans as a real cluster would and checks the invariants (`testutil.invariants`) before each one.
Tests play the kubelet, the user and crashes of the operator::

    world = ClusterModel.of(TEST_JOB, {"Worker": 2}, policy="ExitCode")
    world.settle()                      # the operator reconciles until there is nothing to do
    world.run().settle()                # the kubelet starts what is pending, and the operator reconciles
    world.exit("demo-worker-0", 137).settle()
    assert world.current == "Restarting"
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import msgspec

from jobcommon.api import labels
from jobcommon.api.observed import Observed
from jobcommon.api.view import ObjectView, object_view
from jobcommon.framework import FINALIZER, Framework, Job
from jobcommon.reconcile import plan, plan_for_orphans
from jobcommon.reconcile.features import FEATURES
from jobcommon.reconcile.plan import Action, Create, Delete, Event, Plan, RemoveFinalizer, SetImage, Update
from jobcommon.reconcile.situation import Feature
from jobcommon.spec import read_job
from jobcommon.testutil.builders import START, Manifest, Pod, job_manifest
from jobcommon.testutil.invariants import check_plan

ENOUGH = 30
"""More reconciles than any situation needs to settle."""


@dataclass
class ClusterModel:
    """One job and what belongs to it. `runs` counts the starts of the main container by pod name."""

    framework: Framework
    manifest: Manifest
    now: float = START
    pods: dict[str, Pod] = field(default_factory=dict)
    others: dict[tuple[str, str], Manifest] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)
    runs: dict[str, int] = field(default_factory=dict)
    exists: bool = True
    features: Sequence[Feature] = FEATURES
    _objects: int = 0

    @classmethod
    def of(cls, framework: Framework, replicas: Mapping[str, Any], **job: Any) -> "ClusterModel":
        """A model with a new job, as `job_manifest` builds it."""
        return cls(framework, job_manifest(framework, replicas, **job))

    # -- observed state --------------------------------------------------------------------------------------------

    @property
    def job(self) -> Job:
        """The job as the operator reads it."""
        return read_job(self.framework, self.manifest)

    @property
    def status(self) -> Manifest:
        """The status on record."""
        return dict(self.manifest.get("status") or {})

    @property
    def current(self) -> str:
        """The type of the current condition."""
        conditions = self.job.status.conditions
        return conditions[-1].type if conditions else ""

    @property
    def reason(self) -> str:
        """The reason of the current condition."""
        return self.job.status.conditions[-1].reason

    @property
    def observed(self) -> Observed:
        """The children whose controller is the job's UID, as its operator sees them."""
        uid = self.manifest["metadata"]["uid"]
        views = {key: self._view(manifest) for key, manifest in self.others.items()}
        owned = {key: view for key, view in views.items() if view.owner is not None and view.owner.uid == uid}
        owners = {name: owner.uid for name, pod in self.pods.items() if (owner := pod.view.owner) is not None}
        return Observed(
            predecessors=frozenset(name for name, owner in owners.items() if owner != uid),
            pods=tuple(pod.view for name, pod in self.pods.items() if owners.get(name) == uid),
            services=tuple(view for (kind, _), view in owned.items() if kind == "Service"),
            companions={(f"{kind.lower()}s", name): view for (kind, name), view in owned.items() if kind != "Service"},
        )

    # -- the operator -----------------------------------------------------------------------------------------------

    def step(self, *, writes: int | None = None) -> Plan:
        """One reconcile. With `writes` the operator crashes after that many writes, of which the status is the last."""
        if not self.exists:
            uid = self.manifest["metadata"]["uid"]
            orphans = [pod.view for pod in self.pods.values() if (owner := pod.view.owner) is not None and owner.uid == uid]
            decided = plan_for_orphans(orphans)
        else:
            job, observed = self.job, self.observed
            decided = plan(self.framework, job, observed, self.now, self.features)
            self.check(job, observed, decided)
        self.plans.append(decided)
        limit = len(decided.actions) + 1 if writes is None else writes
        for action in decided.actions[:limit]:
            self._apply(action)
        if limit > len(decided.actions) and decided.status is not None and self.exists:
            self.manifest["status"] = decided.status.to_json()
            self._touch(self.manifest)
            self.events += decided.events
        return decided

    def check(self, job: Job, observed: Observed, decided: Plan) -> None:
        """The invariants of one decision."""
        check_plan(self.framework, job, observed, self.now, decided, self.features)

    def settle(self) -> list[Plan]:
        """Reconcile until there is nothing to do."""
        passes = []
        for _ in range(ENOUGH):
            decided = self.step()
            passes.append(decided)
            if not decided.actions and decided.status is None:
                return passes
        raise AssertionError(f"not at rest after {ENOUGH} passes; the last one:\n{passes[-1].describe()}")

    # -- the kubelet ------------------------------------------------------------------------------------------------

    def run(self, *names: str) -> Self:
        """Start the pods named, or all that wait for their first start."""
        for name in names or sorted(self.pods):
            pod = self.pods[name]
            if pod.raw["status"]["phase"] == "Pending" and "deletionTimestamp" not in pod.raw["metadata"]:
                self.put(pod.running(at=self.now))
                self.runs[name] = self.runs.get(name, 0) + 1
        return self

    def start(self) -> Self:
        """Reconcile, start the pods that wait for it, and reconcile again."""
        self.settle()
        self.run()
        self.settle()
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

    # -- the user and the platform ----------------------------------------------------------------------------------

    def tick(self, seconds: float) -> Self:
        """Let time pass."""
        self.now += seconds
        return self

    def edit(self, **run_policy: Any) -> Self:
        """Change the run policy."""
        self.manifest["spec"]["runPolicy"].update(run_policy)
        return self._edited()

    def suspend(self) -> Self:
        """Suspend the job, and let its pods end."""
        self.edit(suspend=True).settle()
        self.stop_terminating().settle()
        return self

    def scale(self, kind: str, replicas: int) -> Self:
        """Change the number of replicas."""
        self.manifest["spec"][self.framework.replica_specs][kind]["replicas"] = replicas
        return self._edited()

    def _edited(self) -> Self:
        """A change of the spec has a generation of its own."""
        self.manifest["metadata"]["generation"] += 1
        self._touch(self.manifest)
        return self

    def delete_pod(self, name: str, *, grace: int = 30) -> Self:
        """Ask for a pod's deletion."""
        pod = self.pods[name]
        over = pod.raw["status"]["phase"] in ("Succeeded", "Failed")
        self.put(pod.deleting(at=self.now, grace=0 if over or not pod.view.scheduled else grace))
        self._reap(name)
        return self

    def evict(self, name: str) -> Self:
        """The kubelet evicts the pod under memory pressure."""
        self.put(self.pods[name].evicted())
        return self

    def lose_node_of(self, name: str) -> Self:
        """The pod's node is gone, and the pod garbage collector has seen to the pod."""
        self.put(self.pods[name].disrupted("DeletionByPodGC")._with(status={"phase": "Failed"}).deleting(at=self.now, grace=0))
        self._reap(name)
        return self

    def delete_service(self, name: str) -> Self:
        """A user deletes a Service."""
        del self.others["Service", name]
        return self

    def delete_job(self) -> Self:
        """The job is deleted in the background: gone at once, its children left to the garbage collector."""
        self.exists = False
        for name in list(self.pods):
            self.delete_pod(name)
        self.others.clear()
        return self

    def recreate_job(self, uid: str) -> Self:
        """A new job of the same name and spec."""
        metadata = {**self.manifest["metadata"], "uid": uid}
        self.manifest = {**self.manifest, "metadata": metadata}
        self.manifest.pop("status", None)
        self.exists = True
        return self

    # -- the API server ---------------------------------------------------------------------------------------------

    def _apply(self, action: Action) -> None:
        match action:
            case Create(plural="pods"):
                if action.name not in self.pods:  # else 409: the old one is still terminating
                    self._objects += 1
                    uid = f"{action.name}#{self._objects}"
                    self.pods[action.name] = Pod.created(self.framework, action.manifest, uid=uid, at=self.now)
            case Create():
                self._objects += 1
                metadata = {**action.manifest["metadata"], "uid": f"{action.name}#{self._objects}", "resourceVersion": "1"}
                generated = action.generate() if action.generate is not None else {}
                self.others[action.manifest["kind"], action.name] = {**action.manifest, **generated, "metadata": metadata}
            case Update():
                self.others[action.manifest["kind"], action.name] = dict(action.manifest)
            case SetImage():
                pod = self.pods.get(action.name)
                if pod is not None and _fits(pod, action):
                    self.put(pod.with_image(action.image, dict(action.annotations)))
            case RemoveFinalizer():
                pod = self.pods.get(action.name)
                if pod is not None and pod.view.uid == action.uid:
                    self.put(pod.without_finalizer())
                    self._reap(action.name)
            case Delete(plural="pods"):
                pod = self.pods.get(action.name)
                version = action.resource_version
                if pod is not None and pod.view.uid == action.uid and version in (None, pod.view.resource_version):
                    self.delete_pod(action.name)
            case Delete() if action.plural == self.framework.plural:
                if action.uid == self.manifest["metadata"]["uid"]:
                    self.delete_job()
            case Delete():
                gone = [key for key, manifest in self.others.items() if manifest["metadata"]["uid"] == action.uid]
                for key in gone:
                    del self.others[key]

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

    @staticmethod
    def _touch(manifest: Manifest) -> None:
        manifest["metadata"]["resourceVersion"] = str(int(manifest["metadata"]["resourceVersion"]) + 1)

    @staticmethod
    def _view(manifest: Manifest) -> ObjectView:
        return object_view(msgspec.json.encode(manifest))


def _fits(pod: Pod, change: SetImage) -> bool:
    """Whether the API server takes the change of its image: the tests of the patch hold."""
    main = pod.raw["spec"]["containers"][0]
    there = (pod.view.uid, pod.view.annotations.get(labels.ATTEMPT), main["name"], main["image"])
    return there == (change.uid, change.attempt, change.container, change.before)
