"""The scheduler, the nodes and their kubelets in memory, for the pods of one job.

Single kubelets can be played by hand.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Self

from jobcommon.api import labels
from jobcommon.api.gang import min_count
from jobcommon.api.timestamp import format_time
from jobcommon.framework import FINALIZER, Framework, Job
from jobcommon.reconcile.slots import is_spare
from jobcommon.spec import read_job
from jobcommon.testutil.builders import START, Manifest, Pod

GROUP = ("PodGroup", "demo")
PLENTY = 100
GRACE = 30
STOPPED, CREATING, INITIALIZING, BAD_NODE = ":stopped:", "ContainerCreating", "PodInitializing", "bad"
_TOLERATED = 300
"""Seconds for which a pod tolerates a silent node unless its job says otherwise."""


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
class NodeModel:
    """The pods of one job, and what brings them to run. `runs` counts the starts of the main container by pod name.

    `room` is for how many pods there are nodes. The scheduler tries pods in their order, with an `order` in one that this
    number draws. What it binds in a time of `trouble` gets a node whose kubelet "rejects" pods, or cannot set up their
    "volumes", until that is over. Programs take `stops_after` seconds to end. With `restless`, the platform words its messages
    anew at each moment. The nodes' clock is `skew` seconds ahead of the API server's. `silent` are the pods whose node does not
    answer, by UID, and since when.
    """

    framework: Framework
    manifest: Manifest
    now: float = START
    pods: dict[str, Pod] = field(default_factory=dict)
    others: dict[tuple[str, str], Manifest] = field(default_factory=dict)
    runs: dict[str, int] = field(default_factory=dict)
    thorough: bool = True
    order: int | None = None
    restless: bool = False
    room: int = PLENTY
    trouble: str = ""
    stops_after: float = 0.0
    skew: float = 0.0
    silent: dict[str, float] = field(default_factory=dict)
    program: Program = field(default_factory=Program)
    truth: Truth = field(default_factory=Truth)
    starts: list[tuple[str, str]] = field(default_factory=list)
    worlds: dict[str, tuple[str, str]] = field(default_factory=dict)
    programs: dict[str, tuple[dict[str, str], dict[str, str]]] = field(default_factory=dict)
    mixed: list[str] = field(default_factory=list)
    _read: tuple[str, Job] | None = None

    @property
    def job(self) -> Job:
        """The job as the operator reads it."""
        version = str(self.manifest["metadata"]["resourceVersion"])
        if self.thorough or self._read is None or self._read[0] != version:
            self._read = version, read_job(self.framework, self.manifest)
        return self._read[1]

    @property
    def clock(self) -> float:
        """The time by the nodes' clock."""
        return self.now + self.skew

    def words(self, text: str) -> str:
        """A message of the platform."""
        moment = "".join(chr(ord("a") + int(digit)) for digit in f"{self.now - START:.0f}")
        return f"{text}, {moment}" if self.restless else text

    # -- the kubelets -----------------------------------------------------------------------------------------------

    def run(self, *names: str) -> Self:
        """Start the pods named, or all that wait for their first start."""
        for name in names or sorted(self.pods):
            pod = self.pods[name]
            if pod.raw["status"]["phase"] == "Pending" and "deletionTimestamp" not in pod.raw["metadata"]:
                self.put(pod.running(at=self.clock))
                self.runs[name] = self.runs.get(name, 0) + 1
        return self

    def exit(self, name: str, code: int, **cause: Any) -> Self:
        """The main container ends with `code`. Where the pod's restartPolicy says so, it will be started again."""
        pod = self.pods[name]
        policy = pod.raw["spec"]["restartPolicy"]
        deleting = "deletionTimestamp" in pod.raw["metadata"]
        if not deleting and (policy == "Always" or (policy == "OnFailure" and code != 0)):
            self.put(pod.between_runs(code, at=self.clock))
        else:
            self.put(pod.succeeded(at=self.clock) if code == 0 else pod.failed(code, at=self.clock, **cause))
        return self

    def stop_terminating(self, code: int = 143) -> Self:
        """Every pod whose deletion was asked for comes to its end."""
        for name, pod in list(self.pods.items()):
            if "deletionTimestamp" in pod.raw["metadata"] and pod.raw["status"]["phase"] not in ("Succeeded", "Failed"):
                ended = pod.succeeded(at=self.clock) if code == 0 else pod.failed(code, at=self.clock)
                self.put(ended.last_delete(at=self.now + 3))
                self._reap(name)
        return self

    def notices(self, pod: Pod) -> bool:
        """Whether the scheduler and the kubelet have taken note of the pod's present version."""
        del pod
        return True

    def _kubelets(self) -> None:
        for name, pod in list(self.pods.items()):
            if self.notices(pod):
                self._kubelet(name, pod)

    def _kubelet(self, name: str, pod: Pod) -> None:
        raw, view = pod.raw, pod.view
        if view.uid in self.silent or not view.scheduled:
            if raw["metadata"].get("deletionGracePeriodSeconds") and not view.scheduled:
                self._end(name, pod)
        elif raw["status"]["phase"] in ("Succeeded", "Failed"):
            if "deletionTimestamp" in raw["metadata"] and raw["metadata"].get("deletionGracePeriodSeconds") != 0:
                self.put(pod.last_delete(at=self.now))
                self._reap(name)
        elif view.deletion_time is not None:
            if self.now >= self._ends_at(pod):
                self._end(name, pod)
        elif self.on_bad_node(pod) and self.trouble == "rejects":
            self.truth.by_others += not is_spare(view)
            rejected = pod.evicted("OutOfcpu", self.words("Pod was rejected: Node didn't have enough resource: cpu"))
            self.put(rejected._with(status={"startTime": format_time(self.clock)}))
        elif self.on_bad_node(pod) or self._lacks_volume(pod):
            if not raw["status"].get("containerStatuses"):
                self.put(pod.waiting(CREATING, ""))
        else:
            self._run_containers(name, pod)

    def on_bad_node(self, pod: Pod) -> bool:
        """Whether its kubelet cannot start it: the pod has a node, and that is all."""
        return bool(self.trouble) and pod.view.node_name == BAD_NODE and not _begun(pod)

    def _lacks_volume(self, pod: Pod) -> bool:
        """Whether the Secret or the ConfigMap of a volume is missing."""
        volumes = pod.raw["spec"].get("volumes") or ()
        needed = [("ConfigMap", one["configMap"]["name"]) for one in volumes if "configMap" in one]
        needed += [("Secret", one["secret"]["secretName"]) for one in volumes if "secret" in one]
        return not _begun(pod) and any(key not in self.others for key in needed)

    def _ends_at(self, pod: Pod) -> float:
        """When a program that was asked to end has ended."""
        grace = float(pod.raw["metadata"].get("deletionGracePeriodSeconds", 0))
        takes = self.stops_after * (1.0 if self.order is None else Random(pod.view.uid).random())  # noqa: S311
        return (pod.view.deletion_time or self.now) - grace + min(grace, takes)

    def _next_end(self) -> float | None:
        ends = [self._ends_at(pod) for pod in self.pods.values() if pod.view.deletion_time is not None]
        return min((at for at in ends if at > self.now), default=None)

    def _run_containers(self, name: str, pod: Pod) -> None:
        main = next((s for s in statuses_of(pod) if s["name"] == pod.main), None)
        image = next(c["image"] for c in pod.raw["spec"]["containers"] if c["name"] == pod.main)
        state: Mapping[str, Any] = main["state"] if main is not None else {"waiting": {"reason": CREATING}}
        gate, reason = STOPPED in image, state.get("waiting", {}).get("reason")
        if reason in (CREATING, INITIALIZING):
            self._initialize(name, pod, gate=gate, waits=reason == INITIALIZING)
        elif gate and "waiting" not in state:
            self.put(pod.stopped_by_image())
        elif main is not None and not gate and "running" not in state:
            last = main["state"].get("terminated") or (main.get("lastState") or {}).get("terminated")
            self.put(pod.running(at=self.clock, restarts=pod.restarts + 1 if last else 0, last=last))
            self._starts(name)

    def _initialize(self, name: str, pod: Pod, *, gate: bool, waits: bool) -> None:
        """The init containers run one after the other, and then the main one starts. Later images are not looked at."""
        helpers = pod.raw["spec"].get("initContainers") or ()
        stopped = next((one for one in helpers if STOPPED in one["image"]), None)
        if stopped is not None and not waits:
            wrong = {"waiting": {"reason": "InvalidImageName", "message": stopped["image"]}}
            later = {"waiting": {"reason": INITIALIZING, "message": ""}}
            found = [{"name": h["name"], "restartCount": 0, "state": wrong if h is stopped else later} for h in helpers]
            self.put(pod.waiting(INITIALIZING, "")._with(status={"initContainerStatuses": found}))
        if stopped is not None:
            return
        done = {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": format_time(self.clock)}}
        kept: Manifest = {"running": {}}
        found = [{"name": h["name"], "restartCount": 0, "state": kept if "restartPolicy" in h else done} for h in helpers]
        image = next(c["image"] for c in pod.raw["spec"]["containers"] if c["name"] == pod.main)
        ready = pod.waiting("InvalidImageName", image) if gate else pod.running(at=self.clock)
        self.put(ready._with(status={"initContainerStatuses": found}) if found else ready)
        if not gate:
            self._starts(name)
        elif helpers:
            self.mixed.append(f"{name} runs {helpers[0]['name']} before its program may start")

    def _starts(self, name: str) -> None:
        """Note what the program knows of its peers, and whether one of another attempt or size still runs."""
        pod = self.pods[name]
        self.runs[name] = self.runs.get(name, 0) + 1
        self.program.starts_over(self.now)
        self._read_world(pod)
        own = pod.view.annotations
        self.worlds[pod.view.uid] = world = own.get(labels.ATTEMPT, ""), own.get(labels.SIZE, "")
        self.starts.append((name, world[0]))
        if self.job.restarts_together:
            others = {other: self.worlds[self.pods[other].view.uid] for other in self.running()}
            self.mixed += [
                f"{name} starts in {world} while {n} runs in {other}" for n, other in others.items() if other != world
            ]

    def running(self) -> dict[str, Mapping[str, str]]:
        """By name, what the programs that run know of their world. Those on a silent node are left to themselves."""
        uid = self.manifest["metadata"]["uid"]
        return {
            name: self.programs[pod.view.uid][0]
            for name, pod in self.pods.items()
            if pod.view.owner is not None and pod.view.owner.uid == uid and pod.view.uid not in self.silent
            if any(s["name"] == pod.main and "running" in s["state"] for s in statuses_of(pod))
            if pod.raw["status"]["phase"] == "Running" and pod.view.uid in self.programs
        }

    def _read_world(self, pod: Pod) -> None:
        """Note the variables with which a main program starts, and its files, which are those of when its pod started."""
        variables, own = {}, pod.raw["metadata"].get("annotations") or {}
        for entry in next(c.get("env") or () for c in pod.raw["spec"]["containers"] if c["name"] == pod.main):
            path = (entry.get("valueFrom") or {}).get("fieldRef", {}).get("fieldPath", "")
            variables[entry["name"]] = entry.get("value") or own.get(path.partition("'")[2][:-2], "")
        mounted = [volume["configMap"]["name"] for volume in pod.raw["spec"].get("volumes") or () if "configMap" in volume]
        files = {key: text for name in mounted for key, text in self.others["ConfigMap", name]["data"].items()}
        self.programs[pod.view.uid] = variables, self.programs.get(pod.view.uid, ({}, files))[1]

    def answer(self, pod: Pod) -> int:
        """The exit code with which a pod's program answers SIGTERM."""
        del pod
        return 143

    def _end(self, name: str, pod: Pod) -> None:
        """The containers of a pod end. The kubelet's last DELETE follows at its next turn."""
        if not pod.view.scheduled:
            self.put(pod.last_delete(at=self.now))
            self._reap(name)
        else:
            code = self.answer(pod)
            self.put(pod.succeeded(at=self.clock) if code == 0 else pod.failed(code, at=self.clock))

    # -- the scheduler ----------------------------------------------------------------------------------------------

    def place(self) -> list[str]:
        """Bind what finds a node, and say of the others that they find none. The members of a gang are bound all at once.

        Pods that have ended are forgotten, so a gang may lack members for ever.
        """
        living = {name: pod for name, pod in self.pods.items() if pod.raw["status"]["phase"] in ("Pending", "Running")}
        bound = [name for name, pod in living.items() if pod.view.scheduled]
        waiting = [n for n, pod in living.items() if n not in bound and "deletionTimestamp" not in pod.raw["metadata"]]
        waiting = [n for n in waiting if self.notices(living[n])]
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
                self.put(pod.scheduled(BAD_NODE if self.trouble else "node-1"))
            elif pod.view.unschedulable != text:
                self.put(pod.unschedulable(text))
        return chosen

    def schedule(self) -> list[str]:
        """What the scheduler places now, started."""
        if chosen := self.place():
            self.run(*chosen)
        return chosen

    # -- nodes that are lost ----------------------------------------------------------------------------------------

    def silence(self, name: str) -> Self:
        """The node of a pod does not answer any more."""
        self.silent[self.pods[name].view.uid] = self.now
        return self

    def _losses(self) -> list[tuple[float, Pod]]:
        """The pods on silent nodes, and until when they tolerate that."""
        seconds = self.job.run_policy.node_loss_seconds
        tolerated = _TOLERATED if seconds is None else seconds
        pods = [pod for pod in self.pods.values() if pod.view.uid in self.silent and pod.view.deletion_time is None]
        return [(self.silent[pod.view.uid] + tolerated, pod) for pod in pods]

    def _next_loss(self) -> float | None:
        return min((due for due, _ in self._losses()), default=None)

    def _lose_nodes(self) -> None:
        """The taint manager deletes the pods of a node that has been silent for as long as they tolerate."""
        for due, pod in self._losses():
            if self.now >= due:
                self.truth.by_others += 1
                self.put(pod.disrupted("DeletionByTaintManager").deleting(at=self.now, grace=GRACE))

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


def statuses_of(pod: Pod) -> Sequence[Manifest]:
    """What the kubelet says of the pod's containers."""
    return pod.raw["status"].get("containerStatuses") or ()


def _begun(pod: Pod) -> bool:
    """Whether the kubelet has begun with its containers."""
    return any(s["state"].get("waiting", {}).get("reason") != CREATING for s in statuses_of(pod))


def group_of(pod: Pod) -> str | None:
    """The PodGroup that the pod names."""
    return (pod.raw["spec"].get("schedulingGroup") or {}).get("podGroupName")
