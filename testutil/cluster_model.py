"""A minimal cluster in memory: one job, its operator and users, API server, quotas, Kueue and the program, on `NodeModel`.

The model applies plans as a real cluster would and checks the invariants (`testutil.invariants`) before each one. Tests play
the kubelet, the user and crashes of the operator::

    world = ClusterModel.of(TEST_JOB, {"Worker": 2}, policy="ExitCode")
    world.settle()                      # the operator reconciles until there is nothing to do
    world.run().settle()                # the kubelet starts what is pending, and the operator reconciles
    world.exit("demo-worker-0", 137).settle()
    assert world.current == "Restarting"

or let the platform act: `react` has the operator and the platform take turns until nothing changes, and `wait` lets time
pass, in which the operator looks when its last plan asked for it, and at no other moment.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Self

import msgspec

from jobcommon.api import labels
from jobcommon.api.kueue import KUEUE_WORKLOADS
from jobcommon.api.observed import Observed
from jobcommon.api.status import ConditionType, Metric, TrainerStatus
from jobcommon.api.timestamp import format_time
from jobcommon.api.view import object_view
from jobcommon.client.errors import StatusError
from jobcommon.controller.refusals import Refusals
from jobcommon.controller.result import ActionResult, Effect
from jobcommon.framework import Framework
from jobcommon.reconcile import plan, plan_for_orphans
from jobcommon.reconcile.plan import Action, Create, Delete, Event, Plan, RemoveFinalizer, SetImage, Update, backed_off_as
from jobcommon.reconcile.reports import after_reports, signs_of_life
from jobcommon.testutil.builders import START, Manifest, Pod, job_manifest
from jobcommon.testutil.invariants import check_deeds, check_plan
from jobcommon.testutil.kueue import admitted, evicted, plural_of
from jobcommon.testutil.node_model import GRACE, GROUP, PLENTY, NodeModel, Program, Truth, group_of

PODS = "pods"
REPORT_EVERY = 10.0
FLAVOR: Manifest = {"kind": "ResourceFlavor", "metadata": {"name": "default", "uid": "default"}, "spec": {}}
ENOUGH = 40
"""More reconciles than any situation needs to settle."""


@dataclass
class ClusterModel(NodeModel):
    """One job and what belongs to it. `cluster` are the objects without a namespace that the operator sees.

    `refused` names kinds of writes that a webhook refuses (`backed_off_as`), `pods_allowed` is a ResourceQuota, and `share` the
    workers for which Kueue has quota.

    Unless it is `thorough`, the job is read once for each version, and only every eighth plan is made twice more, to show that
    it is deterministic.
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
    events: list[Event] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)
    log: list[tuple[float, Plan]] = field(default_factory=list)
    cluster: list[Manifest] = field(default_factory=lambda: [FLAVOR])
    missing: Mapping[str, str] = field(default_factory=dict)
    unkept: str = ""
    refusals: Refusals = field(default_factory=Refusals)
    _alive: tuple[object, float] = (None, START)

    @classmethod
    def of(cls, framework: Framework, replicas: Mapping[str, Any], **job: Any) -> Self:
        """A model with a new job, as `job_manifest` builds it."""
        return cls(framework, job_manifest(framework, replicas, **job))

    # -- observed state --------------------------------------------------------------------------------------------

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
        """The children whose controller is the job's UID, and what else its operator sees."""
        uid, status = self.manifest["metadata"]["uid"], self.job.status
        views = {key: object_view(msgspec.json.encode(manifest)) for key, manifest in self.others.items()}
        owned = {key: view for key, view in views.items() if view.owner is None or view.owner.uid == uid}
        owners = {name: owner.uid for name, pod in self.pods.items() if (owner := pod.view.owner) is not None}
        alive = signs_of_life(status)
        if alive != self._alive[0]:
            self._alive = alive, self.now
        return Observed(
            predecessors=frozenset(name for name, owner in owners.items() if owner != uid),
            pods=tuple(pod.view for name, pod in self.pods.items() if owners.get(name) == uid),
            services=tuple(view for (kind, _), view in owned.items() if kind == "Service" and view.owner is not None),
            companions={(self._plural(kind, name), name): view for (kind, name), view in owned.items() if kind != "Service"},
            cluster={(plural_of(o["kind"]), o["metadata"]["name"]): object_view(msgspec.json.encode(o)) for o in self.cluster},
            backed_off=self.refusals.backed_off(self.now),
            refusal=self.refusals.text,
            quota_refuses_for=self.refusals.quota_refuses_for(self.now),
            unkept=self.unkept,
            missing=self.missing,
            same_for=self.now - self._alive[1] if self.reports else None,
            begun=status.start_time is not None,
        )

    def _plural(self, kind: str, name: str) -> str:
        of_kueue = kind == "Workload" and str(self.others[kind, name]["apiVersion"]).startswith("kueue")
        return KUEUE_WORKLOADS if of_kueue else plural_of(kind)

    # -- the operator -----------------------------------------------------------------------------------------------

    def step(self, *, writes: int | None = None) -> Plan:
        """One reconcile. With `writes` the operator crashes after that many writes, of which the status is the last."""
        before = self.job.status
        if not self.exists:
            uid = self.manifest["metadata"]["uid"]
            orphans = [pod.view for pod in self.pods.values() if (owner := pod.view.owner) is not None and owner.uid == uid]
            decided = plan_for_orphans(orphans)
        else:
            job, observed = self.job, self.observed
            decided = plan(self.framework, job, observed, self.now)
            if self.thorough or len(self.plans) % 8 == 0:
                check_plan(self.framework, job, observed, self.now, decided)
            else:
                check_deeds(job, observed, self.now, decided)
        self.plans.append(decided)
        self.log.append((self.now, decided))
        limit = len(decided.actions) + 1 if writes is None else writes
        outcomes = [self._send(action) for action in decided.actions[:limit]]
        if not self.refusals.record(outcomes, self.now) and not self.refusals.pending(self.now):
            self.refusals = Refusals()
        if limit > len(decided.actions) and decided.status is not None and self.exists:
            self.manifest["status"] = decided.status.to_json()
            self._touch(self.manifest)
            self.events += decided.events
        if self.exists and before.has(ConditionType.STALLED) and (self.job.status.attempt or 0) > (before.attempt or 0):
            self.truth.incidents += 1
        return decided

    def settle(self) -> list[Plan]:
        """Reconcile until there is nothing to do."""
        passes = []
        for _ in range(ENOUGH):
            text, decided = self.refusals.text, self.step()
            passes.append(decided)
            # A new refusal is for the status to say.
            if not decided.actions and decided.status is None and self.refusals.text == text:
                return passes
        raise AssertionError(f"not at rest after {ENOUGH} passes; the last one:\n{passes[-1].describe()}")

    def start(self) -> Self:
        """Reconcile, start the pods that wait for it, and reconcile again."""
        self.settle()
        self.run()
        self.settle()
        return self

    def react(self) -> Self:
        """The operator and the platform act by turns until nothing changes."""
        self.truth.unseen = False
        for _ in range(ENOUGH):
            self.settle()
            if not self.play():
                return self
        raise AssertionError("the operator and the platform never come to rest")

    def wait(self, seconds: float) -> Self:
        """Time passes; the operator looks when its last plan or a refusal asked for it, and when the program reports."""
        end = self.now + seconds
        for _ in range(400):
            wake = self.plans[-1].wake_at if self.plans else None
            retry = self.refusals.until if self.refusals.pending(self.now) else None
            times = [
                at
                for at in (wake, retry, self._next_report(), self._next_loss(), self._next_end())
                if at is not None and at <= end
            ]
            if not times:
                self.now = end
                return self
            self.now = max(self.now, min(times))
            self._report()
            self.react()
        raise AssertionError("the operator is woken in a loop")

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

    def evict(self, name: str) -> Self:
        """The kubelet evicts the pod under memory pressure."""
        self.put(self.pods[name].evicted())
        return self

    def lose_node_of(self, name: str) -> Self:
        """The pod's node is gone, and the pod garbage collector has seen to the pod."""
        self.put(self.pods[name].disrupted("DeletionByPodGC")._with(status={"phase": "Failed"}).deleting(at=self.now, grace=0))
        self._reap(name)
        return self

    def replace_job(self) -> None:
        """The user deletes the job and creates it again, while its programs take their time to end."""
        for name, pod in list(self.pods.items()):
            self.put(pod.without_finalizer())
            self._reap(name)
        self.delete_job()
        self.recreate_job(f"{self.manifest['metadata']['uid']}+")
        self.manifest["metadata"]["creationTimestamp"] = format_time(self.now)
        self.truth, self.program, self.refusals = Truth(), Program(), Refusals()
        self.starts.clear()

    def recreate_job(self, uid: str) -> Self:
        """A new job of the same name and spec."""
        metadata = {**self.manifest["metadata"], "uid": uid}
        self.manifest = {**self.manifest, "metadata": metadata}
        self.manifest.pop("status", None)
        self._touch(self.manifest)
        self.exists = True
        return self

    # -- the platform -----------------------------------------------------------------------------------------------

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


def _fits(pod: Pod, change: SetImage) -> bool:
    """Whether the API server takes the change of its images: the tests of the patch hold."""
    parts = ((f"/spec/{part}", pod.raw["spec"].get(part) or ()) for part in ("initContainers", "containers"))
    there = {f"{path}/{at}": (one["name"], one["image"]) for path, found in parts for at, one in enumerate(found)}
    wanted = [(change.path, change.container, change.before), *(other[:3] for other in change.others)]
    own = pod.view.uid, pod.view.annotations.get(labels.ATTEMPT)
    return own == (change.uid, change.attempt) and all(there.get(path) == (name, image) for path, name, image in wanted)
