"""A minimal cluster in memory: one job, its operator and users, on `PlatformModel`, which plays everything else.

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
from typing import Any, Self

import msgspec

from jobcommon.api.kueue import KUEUE_WORKLOADS
from jobcommon.api.observed import Observed
from jobcommon.api.status import ConditionType
from jobcommon.api.timestamp import format_time
from jobcommon.api.view import object_view
from jobcommon.controller.refusals import Refusals
from jobcommon.framework import Framework, Job
from jobcommon.reconcile import plan, plan_for_orphans
from jobcommon.reconcile.plan import Event, Plan
from jobcommon.reconcile.reports import signs_of_life
from jobcommon.testutil.builders import START, Manifest, job_manifest
from jobcommon.testutil.invariants import check_deeds, check_plan
from jobcommon.testutil.platform_model import FLAVOR, PlatformModel
from jobcommon.testutil.program_model import Program, Truth

ENOUGH = 40
"""More reconciles than any situation needs to settle."""
PLURALS = {
    "ResourceFlavor": "resourceflavors",
    "WorkloadPriorityClass": "workloadpriorityclasses",
    "PriorityClass": "priorityclasses",
}


@dataclass
class ClusterModel(PlatformModel):
    """One job and what belongs to it. `cluster` are the objects without a namespace that the operator sees.

    Unless it is `thorough`, the job is read once for each version, and only every eighth plan is made twice more, to show that
    it is deterministic.
    """

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
        views = {key: self._view(manifest) for key, manifest in self.others.items()}
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
            cluster={(PLURALS[o["kind"]], o["metadata"]["name"]): object_view(msgspec.json.encode(o)) for o in self.cluster},
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
        return KUEUE_WORKLOADS if of_kueue else f"{kind.lower()}s"

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
            self.check(job, observed, decided)
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

    def check(self, job: Job, observed: Observed, decided: Plan) -> None:
        """The invariants of one decision."""
        if self.thorough or len(self.plans) % 8 == 0:
            check_plan(self.framework, job, observed, self.now, decided)
        else:
            check_deeds(job, observed, self.now, decided)

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
