"""The world of a history: one job on the cluster model, with a scheduler, kubelets, nodes that are lost, a queue and a program.

Unlike `ClusterModel` it keeps time: the operator looks when something has changed and when its last plan asked for it, and at
no other moment. `busy` counts what the platform has done to the job, independently of the decision.
"""

from dataclasses import dataclass, field, replace
from random import Random

import msgspec

from jobcommon.api import labels
from jobcommon.api.kueue import KUEUE_WORKLOADS
from jobcommon.api.observed import FINALIZERS, IMAGES, Observed
from jobcommon.api.status import ConditionType, Metric, TrainerStatus
from jobcommon.api.timestamp import format_time
from jobcommon.api.view import ObjectView, object_view
from jobcommon.framework import Job
from jobcommon.reconcile.plan import Action, Delete, Plan
from jobcommon.reconcile.reports import after_reports, signs_of_life
from jobcommon.testutil.builders import START, Manifest, Pod
from jobcommon.testutil.invariants import check_deeds
from jobcommon.testutil.kueue import admitted, evicted
from jobcommon.testutil.native_gang import GROUP, NativeWorld, group_of

PLENTY = 100
REPORT_EVERY = 10.0
GRACE = 30
FLAVOR: Manifest = {"kind": "ResourceFlavor", "metadata": {"name": "default", "uid": "default"}, "spec": {}}
PODS = "pods"


@dataclass
class Truth:
    """What has happened to the job, counted by who did it."""

    by_others: int = 0
    failed_runs: int = 0
    incidents: int = 0
    permanent: bool = False
    unseen: bool = False
    _latest: tuple[float, frozenset[str]] = (0.0, frozenset())

    def failed(self, now: float, name: str, *, permanent: bool = False) -> None:
        """The program of a replica has failed. What fails within a second, before the operator looks, is one incident.

        `permanent`: that ends the job, unless another end that the operator has not seen either came before.
        """
        self.permanent |= permanent and not self.unseen
        self.failed_runs += 1
        at, together = self._latest
        if not self.unseen or now > at + 1 or name in together:
            self.incidents += 1
            at, together = now, frozenset()
        self._latest, self.unseen = (at, together | {name}), True


@dataclass
class Program:
    """A training that reports: it loads, makes a step every few seconds, and may hang."""

    loading_seconds: float = 90.0
    step: int = 0
    loaded_at: float = 0.0
    hung_since: float | None = None
    last_report: float | None = None
    reports_in_run: int = 0

    def starts_over(self, now: float) -> None:
        """A run begins from the last checkpoint."""
        self.loaded_at, self.hung_since, self.reports_in_run = now + self.loading_seconds, None, 0
        self.step = max(self.step - 1, 0)


@dataclass
class PairWorld(NativeWorld):
    """`chance` decides what happens. With `restless`, the platform words its messages anew at each moment."""

    chance: Random = field(default_factory=lambda: Random(0))  # noqa: S311 - reproducibility is the point
    restless: bool = False
    truth: Truth = field(default_factory=Truth)
    program: Program = field(default_factory=Program)
    reports: bool = False
    silent: set[str] = field(default_factory=set)
    silent_since: dict[str, float] = field(default_factory=dict)
    refused: frozenset[str] = frozenset()
    unkept: str = ""
    flavor_seen: bool = True
    quota: bool = True
    preempted: bool = False
    log: list[tuple[float, Plan]] = field(default_factory=list)
    kept: set[tuple[str, str]] = field(default_factory=set)
    worlds: dict[str, tuple[str, str]] = field(default_factory=dict)
    programs: dict[str, tuple[dict[str, str], dict[str, str]]] = field(default_factory=dict)
    mixed: list[str] = field(default_factory=list)
    _alive: tuple[object, float] = (None, START)
    _read: tuple[str, Job] | None = None

    @property
    def job(self) -> Job:
        """The job, read once for each of its versions."""
        version = str(self.manifest["metadata"]["resourceVersion"])
        if self._read is None or self._read[0] != version:
            self._read = version, super().job
        return self._read[1]

    def words(self, text: str) -> str:
        """A message of the platform."""
        moment = "".join(chr(ord("a") + int(digit)) for digit in f"{self.now - START:.0f}")
        return f"{text}, {moment}" if self.restless else text

    # -- what the operator sees -----------------------------------------------------------------------------------------------

    @property
    def observed(self) -> Observed:
        """With the objects of queues and gangs by plural, and the time since the last sign of life of the program."""
        found, uid = super().observed, self.manifest["metadata"]["uid"]
        companions: dict[tuple[str, str], ObjectView] = {}
        for (kind, name), manifest in self.others.items():
            view = self._view(manifest)
            if kind != "Service" and (view.owner is None or view.owner.uid == uid):
                of_kueue = kind == "Workload" and str(manifest["apiVersion"]).startswith("kueue")
                companions[KUEUE_WORKLOADS if of_kueue else f"{kind.lower()}s", name] = view
        flavors = {("resourceflavors", "default"): object_view(msgspec.json.encode(FLAVOR))} if self.flavor_seen else {}
        alive = signs_of_life(self.job.status)
        if alive != self._alive[0]:
            self._alive = alive, self.now
        return replace(
            found,
            companions=companions,
            cluster=flavors,
            backed_off=self.refused,
            refusal=self.words("quota") if PODS in self.refused else "",
            unkept=self.unkept,
            same_for=self.now - self._alive[1],
            begun=bool(self.status.get("startTime")),
        )

    # -- time -----------------------------------------------------------------------------------------------------------------

    def step(self, *, writes: int | None = None) -> Plan:
        """One reconcile; logs are kept before the actions."""
        before = self.job.status
        made = super().step(writes=writes)
        self.log.append((self.now, made))
        if self.exists and before.has(ConditionType.STALLED) and (self.job.status.attempt or 0) > (before.attempt or 0):
            self.truth.incidents += 1
        return made

    def react(self) -> None:
        """The operator and the platform act by turns until nothing changes."""
        self.truth.unseen = False
        for _ in range(40):
            self.settle()
            if not self._platform():
                return
        raise AssertionError("the operator and the platform never come to rest")

    def wait(self, seconds: float) -> None:
        """Time passes; the operator looks when its last plan asked for it, and when the program reports."""
        end = self.now + seconds
        for _ in range(400):
            wake = self.plans[-1].wake_at if self.plans else None
            times = [at for at in (wake, self._next_report(), self._next_loss()) if at is not None and at <= end]
            if not times:
                self.now = end
                return
            self.now = max(self.now, min(times))
            self._report()
            self.react()
        raise AssertionError("the operator is woken in a loop")

    def check(self, job: Job, observed: Observed, decided: Plan) -> None:
        """The invariants; that a plan is deterministic is tried now and then, because it costs two more plans."""
        if len(self.plans) % 8 == 0:
            super().check(job, observed, decided)
        else:
            check_deeds(job, observed, self.now, decided)

    # -- the platform ---------------------------------------------------------------------------------------------------------

    def _platform(self) -> bool:
        """One turn of everything that is not the operator; whether it changed anything."""
        before = {name: pod.raw for name, pod in self.pods.items()}, dict(self.others)
        self._kueue()
        self._lose_nodes()
        self._kubelets()
        self._place()
        self.protect()
        return before != ({name: pod.raw for name, pod in self.pods.items()}, dict(self.others))

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
        variables = {}
        for entry in next(c.get("env") or () for c in pod.raw["spec"]["containers"] if c["name"] == pod.main):
            path = (entry.get("valueFrom") or {}).get("fieldRef", {}).get("fieldPath", "")
            variables[entry["name"]] = entry.get("value") or pod.view.annotations.get(path.partition("'")[2][:-2], "")
        mounted = [volume["configMap"]["name"] for volume in pod.raw["spec"].get("volumes") or () if "configMap" in volume]
        files = {key: text for name in mounted for key, text in self.others["ConfigMap", name]["data"].items()}
        self.programs[pod.view.uid] = variables, self.programs.get(pod.view.uid, ({}, files))[1]

    def _end(self, name: str, pod: Pod) -> None:
        if pod.raw["status"]["phase"] == "Pending" and not pod.view.scheduled:
            self.put(pod.last_delete(at=self.now))
        else:
            self.put(pod.failed(143, at=self.now).last_delete(at=self.now))
        self._reap(name)

    def _place(self) -> None:
        """Bind what finds a node, and say of the others that they find none."""
        living = {name: pod for name, pod in self.pods.items() if pod.raw["status"]["phase"] in ("Pending", "Running")}
        bound = [name for name, pod in living.items() if pod.view.scheduled]
        waiting = [n for n, pod in living.items() if n not in bound and "deletionTimestamp" not in pod.raw["metadata"]]
        alone = [name for name in waiting if group_of(living[name]) is None]
        gang = [name for name in waiting if name not in alone]
        chosen = [*alone, *gang][: max(self.room - len(bound), 0)]
        members = sum(group_of(pod) is not None for pod in living.values())
        placed = sum(group_of(living[name]) is not None for name in (*bound, *chosen))
        least = self._least(members)
        if members < least or placed < least:
            chosen = [name for name in chosen if name in alone]
        for name in chosen:
            self.put(self.pods[name].scheduled())
        for name in waiting:
            if name not in chosen:
                pod = self.pods[name]
                text = self.words("0/9 nodes are available")
                if pod.view.unschedulable != text:
                    self.put(pod.unschedulable(text))

    def _least(self, members: int) -> int:
        if GROUP not in self.others:
            return members + 1
        spec = self.others[GROUP]["spec"]
        gang = ((spec.get("schedulingPolicy") or {}).get("gang") or {}) if "schedulingPolicy" in spec else {}
        return int(gang.get("minCount", 1))

    def _next_loss(self) -> float | None:
        seconds = self.job.run_policy.node_loss_seconds
        due = [at + (300 if seconds is None else seconds) for uid, at in self.silent_since.items() if at >= 0]
        return min(due, default=None)

    def _lose_nodes(self) -> None:
        """The taint manager deletes the pods of a node that has been silent for as long as they tolerate."""
        seconds = self.job.run_policy.node_loss_seconds
        for pod in list(self.pods.values()):
            uid = pod.view.uid
            since = self.silent_since.get(uid)
            if since is None or since < 0 or self.now < since + (300 if seconds is None else seconds):
                continue
            self.silent_since[uid] = -1.0
            if "deletionTimestamp" not in pod.raw["metadata"]:
                self.truth.by_others += 1
                self.put(pod.disrupted("DeletionByTaintManager").deleting(at=self.now, grace=GRACE))
        gone = self.silent_since.keys() - {pod.view.uid for pod in self.pods.values()}
        for uid in gone:
            del self.silent_since[uid]

    # -- the program ----------------------------------------------------------------------------------------------------------

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
        if (due := self._next_report()) is None or due > self.now or not self.status:
            return
        program.step += 1
        program.reports_in_run += 1
        program.last_report = self.now
        status = after_reports(self.job.status, [(program.step, self.now, "reporter")], self.now, self.now)
        metrics = [Metric(name="current_step", value=str(program.step)), Metric(name="phase", value="train")]
        report = TrainerStatus(metrics=metrics, last_updated_time=format_time(self.now))
        self.manifest["status"] = status.model_copy(update={"trainer_status": report}).to_json()
        self._touch(self.manifest)

    # -- the API server -------------------------------------------------------------------------------------------------------

    def _apply(self, action: Action) -> None:
        if isinstance(action, Delete) and action.plural == PODS and action.force:
            pod = self.pods.get(action.name)
            if pod is not None and pod.view.uid == action.uid:
                self.put(pod.deleting(at=self.now, grace=0))
                self._reap(action.name)
            return
        super()._apply(action)


REFUSABLE: dict[str, frozenset[str]] = {
    "pods": frozenset({PODS}),
    "images": frozenset({IMAGES}),
    "finalizers": frozenset({FINALIZERS}),
}
