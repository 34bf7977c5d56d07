"""Seeded failures as objects on an API server. The status is what the operator itself writes for them.

Texts of kubelet, scheduler, admission and Kueue are those of Kubernetes 1.29 to 1.36 and of the containerd runtime.
"""

# ruff: noqa: E501  recorded texts, as they come

import tomllib
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jobcommon.api.observed import Observed, Rejection
from jobcommon.api.timestamp import format_time
from jobcommon.diagnosis import Found
from jobcommon.framework import Framework, Options
from jobcommon.operators.jax import JAX
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.reconcile import plan
from jobcommon.reconcile.spec_warnings import unaware
from jobcommon.spec import read_job
from jobcommon.testutil.builders import START, Manifest, Pod, job_manifest, services_of
from jobcommon.testutil.cluster_model import ClusterModel
from jobcommon.testutil.frameworks import SCALED_JOB

NOW = START + 100
MESSAGES: dict[str, Any] = tomllib.loads((Path(__file__).parent / "messages.toml").read_text(encoding="utf-8"))
TEXTS = MESSAGES["texts"]
SAID = {row["name"]: row["said"][-1] for row in MESSAGES["creating"]}
Change = Callable[[Pod], Pod]


@dataclass(frozen=True)
class Scenario:
    """A failure: what was found, the reason that is to be named, words of the sentence or advice, and what `also` is in the answer."""

    name: str
    reason: str
    words: tuple[str, ...]
    found: Found
    now: float
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class Named:
    """What is to be named, of what is found."""

    name: str
    reason: str
    words: tuple[str, ...]
    now: float

    def of(self, found: Found, *also: str) -> Scenario:
        """With what the advice, the evidence or what comes next says, too."""
        return Scenario(self.name, self.reason, self.words, found, self.now, also)


def scenario(name: str, reason: str, *words: str, now: float = NOW) -> Named:
    return Named(name, reason, words, now)


def running(pod: Pod) -> Pod:
    return pod.running()


def event(
    about: str, reason: str, message: str, *, warning: bool = True, at: float = NOW - 10, container: str = ""
) -> Manifest:
    kind = "Warning" if warning else "Normal"
    return {
        "involvedObject": {
            "uid": about,
            "name": about.removeprefix("uid-"),
            "fieldPath": f"spec.containers{{{container}}}" if container else "",
        },
        "reason": reason,
        "message": message,
        "type": kind,
        "lastTimestamp": format_time(at),
    }


def node(name: str = "node-1", *, ready: str = "True", message: str = "", **allocatable: str) -> Manifest:
    amounts = {key.replace("_", ".", 1).replace("_", "/"): value for key, value in allocatable.items()}
    conditions = [{"type": "Ready", "status": ready, "message": message}]
    return {"metadata": {"name": name}, "status": {"allocatable": amounts, "conditions": conditions}}


def found(
    pods: Mapping[str, Change] | None = None,
    *,
    framework: Framework = PYTORCH,
    replicas: Mapping[str, Any] | None = None,
    policy: str | None = "Never",
    run_policy: Mapping[str, Any] | None = None,
    container: Mapping[str, Any] | None = None,
    template: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
    observed: Mapping[str, Any] | None = None,
    operator: bool = True,
    earlier: Sequence[Manifest] = (),
    **more: Any,
) -> Found:
    """A job of two Workers (or `replicas`) with its pods so; without a change a pod is Pending. None: no operator."""
    manifest = job_manifest(framework, replicas or {"Worker": 2}, policy=policy, run_policy=run_policy)
    manifest["metadata"]["labels"] = dict(labels or {})
    for spec in manifest["spec"][framework.replica_specs].values():
        spec["template"] = deepcopy(spec["template"])
        spec["template"]["spec"]["containers"][0].update(container or {})
        spec["template"]["spec"].update(template or {})
    raws: list[Manifest] = []
    if operator:
        job = read_job(framework, manifest)
        built = [made(Pod.of(framework, job, *_slot(slot))) for slot, made in (pods or {}).items()]
        for pod in built:
            _leave_message(pod, more.get("logs", {}).get(pod.name, ()))
        views = tuple(pod.view for pod in built)
        seen = Observed(pods=views, services=services_of(framework, job), **(observed or {}))
        manifest["status"] = {"failures": list(earlier)}
        for now in (START, NOW - 5, NOW - 5):
            decided = plan(framework, read_job(framework, manifest), seen, now)
            if decided.status is not None:
                manifest["status"] = decided.status.to_json()
        raws = [pod.raw for pod in built]
    return Found(framework, manifest, raws, **more)


def _leave_message(pod: Pod, lines: Sequence[str]) -> None:
    """What the kubelet keeps of the log of a main container that has failed."""
    policy = pod.raw["spec"]["containers"][0]["terminationMessagePolicy"]
    message = "\n".join(lines[-80:])[-2048:] if policy == "FallbackToLogsOnError" else ""
    for status in (pod.raw["status"].get("containerStatuses") or ())[:1]:
        runs = ((status.get(state) or {}).get("terminated") or {} for state in ("state", "lastState"))
        for run in (run for run in runs if run.get("exitCode") and not run.get("message")):
            run["message"] = message


def _slot(name: str) -> tuple[str, int]:
    kind, _, index = name.rpartition("-")
    return kind, int(index)


def beside(change: Change, **scenario: Any) -> Found:
    """Worker-0 runs, and Worker-1 is so."""
    return found({"Worker-0": running, "Worker-1": change}, **scenario)


def waiting(reason: str, message: str, **scenario: Any) -> Found:
    """Both workers wait with this state of their container."""
    return found({"Worker-0": lambda pod: pod.waiting(reason, message), "Worker-1": running}, **scenario)


def unschedulable(message: str, **scenario: Any) -> Found:
    return beside(lambda pod: pod.unschedulable(message), **scenario)


def failed(code: int, *, reason: str = "Error", message: str = "", lines: Sequence[str] = (), **scenario: Any) -> Found:
    """Worker-0 runs and Worker-1 has ended with `code`, having printed `lines`."""
    pods = {"Worker-0": running, "Worker-1": lambda pod: pod.failed(code, at=NOW - 20, reason=reason, message=message)}
    return found(pods, logs={"demo-worker-1": tuple(lines)}, **scenario)


def creating(reason: str, message: str, **scenario: Any) -> Found:
    """Worker-1 is on a node and its containers are not created; the kubelet says why in an event."""
    pods = {"Worker-0": running, "Worker-1": lambda pod: pod.waiting("ContainerCreating", "")}
    return found(pods, events=[event("uid-demo-worker-1", reason, message)], **scenario)


def refused(message: str) -> Found:
    """The pods cannot be created."""
    return found(observed={"refusal": f"pods/demo-worker-0 is refused: {message}", "backed_off": frozenset({"pods"})})


def crash(code: int, restarts: int, *, reason: str = "Error", lines: Sequence[str] = (), **scenario: Any) -> Found:
    """Worker-1 is restarted in place, and waits for the next start."""

    def looping(pod: Pod) -> Pod:
        made = pod.crash_looping(restarts, code)
        status = made.raw["status"]["containerStatuses"][0]
        status["lastState"]["terminated"] |= {"reason": reason, "finishedAt": format_time(NOW - 4)}
        return made

    logs = {"demo-worker-1": tuple(lines)}
    return beside(looping, policy="OnFailure", logs=logs, **scenario)


def again(pod: Pod, at: float) -> Pod:
    """Runs since `at`, having failed four times."""
    made = pod.running()
    status = made.raw["status"]["containerStatuses"][0]
    ended = {"exitCode": 1, "reason": "Error", "finishedAt": format_time(at - 10)}
    status |= {"restartCount": 4, "state": {"running": {"startedAt": format_time(at)}}, "lastState": {"terminated": ended}}
    return made


def probed(kind: str, container: str = "pytorch", at: float = NOW - 21, *, whole: bool = False) -> list[Manifest]:
    """The events of a kubelet that kills a container because of a probe; the `whole` pod if nothing of it is started again."""
    uid = "uid-demo-worker-1"
    killing = f"Stopping container {container}" if whole else f"Container {container} failed {kind.lower()} probe"
    said = f"{kind} probe failed: HTTP probe failed with statuscode: 503"
    return [
        event(uid, "Unhealthy", said, at=at, container=container),
        event(uid, "Killing", killing, at=at, warning=False, container=container),
    ]


PROBED = {"reason": "SIGTERM", "replica": "Worker-1", "pod": "demo-worker-1", "time": format_time(NOW - 20), "exitCode": 143}


def removed(before: Found, **more: Any) -> Found:
    """The pods of `before` are gone."""
    return replace(before, pods=(), logs={}, gone=frozenset({"demo-worker-1"}), **more)


HOOK = [event("uid-demo-worker-1", "FailedPostStartHook", "PostStartHook failed", at=NOW - 21, container="pytorch"), event("uid-demo-worker-1", "Killing", "FailedPostStartHook", at=NOW - 21, container="pytorch", warning=False)]  # fmt: skip


def hook_failed(pod: Pod) -> Pod:
    """Between two runs that its postStart hook ended."""
    return pod.waiting("PostStartHookError", 'Exec lifecycle hook ([false]) for Container "pytorch" failed')


def with_sidecar(pod: Pod) -> Pod:
    """A native sidecar runs, but has not started, and the main container waits for it."""
    made = pod.waiting("PodInitializing", "").with_init(None, policy="Always")
    status = made.raw["status"]["initContainerStatuses"][0]
    status |= {"started": False, "state": {"running": {"startedAt": format_time(START)}}}
    return made


def preparing(pod: Pod, since: float = START) -> Pod:
    """Its init container runs."""
    made = pod.waiting("PodInitializing", "").with_init(None)
    made.raw["status"]["initContainerStatuses"][0]["state"] = {"running": {"startedAt": format_time(since)}}
    return made


def sidecar_failed(pod: Pod) -> Pod:
    """A sidecar fails again and again after the main container's success."""
    made = pod.main_ended(0)
    ended = {"exitCode": 3, "reason": "Error", "finishedAt": format_time(NOW - 4)}
    state = {"waiting": {"reason": "CrashLoopBackOff"}}
    made.raw["status"]["containerStatuses"][0] |= {"restartCount": 2, "state": state, "lastState": {"terminated": ended}}
    return made


WORDS = {"volumes": [{"name": "cfg", "configMap": {"name": "train-config", "items": [{"key": "train.yaml", "path": "t"}]}}]}
EINOPS = ("Traceback (most recent call last):", "ModuleNotFoundError: No module named 'einops'")


NO_MASTER = "The client socket has failed to connect to any network address of (nosuch.corp, 29500). The IPv4 network addresses of (nosuch.corp, 29500) cannot be retrieved (gai error: -2 - Name or service not known)."  # fmt: skip
NO_ADDRESS = "[W1126 12:40:01.1 socket.cpp:767] [c10d] The IPv6 network addresses of ({}, 23456) cannot be retrieved (gai error: -2 - Name or service not known)."
NO_RANK_0 = "torch.distributed.DistStoreError: wait timeout after 60000ms, keys: /default_pg/0//cpu//0/0"
ALONE = "Timed out after 61 seconds waiting for clients. 1/2 clients joined."


def never_ready(pod: Pod) -> Pod:
    made = pod.running()._condition("Ready", "False")
    made.raw["status"]["containerStatuses"][0]["ready"] = False
    return made


def init_failed(pod: Pod) -> Pod:
    waits = pod.waiting("PodInitializing", "")
    made = waits.with_init(3, restarts=2, last=3)
    made.raw["status"]["initContainerStatuses"][0]["state"] = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}
    return made


def init_ended(pod: Pod) -> Pod:
    return pod.waiting("PodInitializing", "").with_init(3)._with(status={"phase": "Failed"})


def init_out_of_memory(pod: Pod) -> Pod:
    made = pod.waiting("PodInitializing", "").with_init(137)._with(spec=pod.raw["spec"], status={"phase": "Failed"})
    made.raw["status"]["initContainerStatuses"][0]["state"]["terminated"]["reason"] = "OOMKilled"
    return made


def stuck_on(pod: Pod) -> Pod:
    return pod.running().deleting(at=NOW - 400)


def held_by_finalizer(pod: Pod) -> Pod:
    return pod.succeeded(at=NOW - 500).last_delete(at=NOW - 500)


def held_by_another(pod: Pod) -> Pod:
    pod.raw["metadata"]["finalizers"] = ["example.com/hold"]
    return pod.succeeded(at=NOW - 500).last_delete(at=NOW - 500)


def gated(pod: Pod) -> Pod:
    made = pod.unschedulable("Scheduling is blocked due to non-empty scheduling gates")
    made.raw["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/topology"}]
    return made


def then(before: Found, changed: Mapping[str, Change], **more: Any) -> Found:
    """The pods of `before` have changed since its status was written."""
    job = read_job(before.framework, before.job)
    made = {
        pod.name: pod.raw for pod in (change(Pod.of(before.framework, job, *_slot(slot))) for slot, change in changed.items())
    }
    return replace(before, pods=[made.get(raw["metadata"]["name"], raw) for raw in before.pods], **more)


def edited(before: Found, suspend: bool, at: float) -> Found:
    """A user has suspended or resumed the job, and the operator has written its status later."""
    spec, fields = before.job["spec"], [{"time": format_time(at)}, {"time": format_time(NOW), "subresource": "status"}]
    metadata = {**before.job["metadata"], "managedFields": fields}
    return replace(before, job={**before.job, "metadata": metadata, "spec": {**spec, "runPolicy": {"suspend": suspend}}})


SCALED = [
    event(
        job_manifest(PYTORCH, {})["metadata"]["uid"],
        "SpecWarning",
        str(unaware(PYTORCH, read_job(PYTORCH, job_manifest(PYTORCH, {})), "Worker")),
    )
]


def lacking(*events: Manifest) -> Found:
    """The pod of Worker-1, which ran, is gone."""
    before = both_running(events=events)
    return replace(before, pods=before.pods[:1])


def created(pod: Pod, at: float) -> Pod:
    pod.raw["metadata"]["creationTimestamp"] = format_time(at)
    return pod


def stopping(pods: Mapping[str, str]) -> Found:
    """Worker-1 was killed, and both are stopped in place. Their pods are so."""
    run = {"restartScope": "Job", "restartMethod": "Auto"}
    killed = {"Worker-0": running, "Worker-1": lambda pod: pod.restarted_after(137)}
    before = found(killed, policy="OnFailure", run_policy=run)

    def as_in(states: str) -> Change:
        def made(pod: Pod) -> Pod:
            for state in states.split(","):
                method, *numbers = state.split()
                pod = getattr(pod, method)(*map(int, numbers))
            return pod

        return made

    invalid = 'Failed to apply default image tag "image:stopped:attempt-1": couldn\'t parse image name'
    events = [event(f"uid-demo-worker-{index}", "InspectFailed", invalid) for index in (0, 1)]
    return then(before, {slot: as_in(f"running,{states}") for slot, states in pods.items()}, events=events)


def elastic(case: str) -> tuple[Found, float]:
    """What becomes of an elastic job of three workers, and when."""
    fewest, most = 3 if case == "lacks too many" else 2, 4 if case == "awaits" else 3
    policy = {"minReplicas": fewest, "maxReplicas": most, "shrinkAfterSeconds": 30, "growAfterSeconds": 100}
    run = {"restartScope": "Job", "restartMethod": "Auto", "elastic": policy}
    world = ClusterModel.of(SCALED_JOB, {"Worker": 3}, policy="ExitCode", run_policy=run)
    assert isinstance(world, ClusterModel)
    world.react()
    if case == "bounded":
        world.scale("Worker", 9).react()
    elif case == "awaits":
        report = {"lastUpdatedTime": "2026-01-01T00:00:00Z", "metrics": [{"name": "checkpoint", "value": "7"}]}
        world.manifest["status"] |= {"trainerStatus": report}
        world.edit().scale("Worker", 4).react()
    elif case == "resizing":
        world.scale("Worker", 2).settle()
    else:
        world.lose_node_of("demo-worker-1").room = 2
        world.react()
        world.wait({"smaller": 60, "asks": 200}.get(case, 0))
    return Found(SCALED_JOB, world.manifest, [pod.raw for pod in world.pods.values()]), world.now


def attempts(
    *ends: tuple[str, int, str], seconds: float = 5.0, framework: Framework = PYTORCH, others: Any = None, **run_policy: Any
) -> tuple[Found, float]:
    """A job of two workers after these ends, each so many seconds after the start: of which replica, its code and message."""
    model = ClusterModel.of(framework, {**(others or {}), "Worker": 2}, policy="ExitCode", run_policy=run_policy)
    for slot, code, message in ends:
        cause = {"message": message} if message else {}
        model.start().tick(seconds).exit(f"demo-{slot.lower()}", code, **cause).settle()
        model.stop_terminating().tick(seconds).settle()
    gone = frozenset({"demo-worker-0", "demo-worker-1"} - model.pods.keys())
    return Found(framework, model.manifest, [pod.raw for pod in model.pods.values()], gone=gone), model.now


def stalled(**tails: Sequence[str]) -> Found:
    """Replicas of a job whose program reports nothing any more, with what they printed."""
    pods = {f"demo-{name}": tuple(lines) for name, lines in tails.items()}
    made = found(
        {f"Worker-{number}": running for number in range(len(pods))},
        replicas={"Worker": len(pods)},
        tails={name.replace("_", "-"): lines for name, lines in pods.items()},
        printed_at={name.replace("_", "-"): NOW - 70 - number for number, name in enumerate(pods)},
        last_lines={name.replace("_", "-"): lines[-1] for name, lines in pods.items()},
    )
    condition = {"type": "Stalled", "status": "True", "message": "PyTorchJob demo has reported no progress since 22:13"}
    status = {**made.job["status"], "conditions": [*made.job["status"]["conditions"], condition]}
    return replace(made, job={**made.job, "status": status})


def ended_by_limit(reason: str, *tails: Sequence[str]) -> Found:
    """The job has failed by a limit, and its pods are stopped: with it those lines are recorded."""
    made = stalled(**{f"worker_{number}": lines for number, lines in enumerate(tails)})
    condition = {"type": "Failed", "status": "True", "reason": reason, "message": "PyTorchJob demo: no progress since 22:13"}
    status = {**made.job["status"], "conditions": [condition], "completionTime": format_time(NOW - 1)}
    ends = {
        f"Worker-{number}": lambda pod, lines=lines: pod.running().failed(143, message="\n".join(lines)).last_delete()
        for number, lines in enumerate(tails)
    }
    return recorded(then(replace(made, job={**made.job, "status": status}, tails={}, last_lines={}), ends))


def not_mounted(name: str) -> list[Manifest]:
    said = enumerate(NOT_MOUNTED[name])
    return [event("uid-demo-worker-1", reason, message, at=NOW - 10 * number) for number, (reason, message) in said]


def silent_node(pod: Pod) -> Pod:
    """It is being deleted, and its node does not answer."""
    return pod.running().scheduled("node-2").deleting(at=NOW - 5)


def shut_down(pod: Pod) -> Pod:
    """By its node, when the operator had stopped it with its job."""
    ended = pod.running().failed(143, at=NOW - 18).disrupted("TerminationByKubelet")
    return ended._with(status={"reason": "Terminated", "message": "imminent node shutdown"}).deleting(at=NOW - 19)


def limited(made: Found, memory: str) -> Found:
    """A LimitRange has set the limit of its pods."""
    pods = deepcopy([dict(pod) for pod in made.pods])
    for pod in pods:
        pod["spec"]["containers"][0]["resources"] = {"limits": {"memory": memory}}
    return replace(made, pods=pods)


def never_started(change: Change) -> Found:
    """Worker-0 waits for Worker-1, which is so, gives up, and the job with it."""
    model = ClusterModel.of(PYTORCH, {"Worker": 2}, policy="Never")
    model.settle()
    model.run("demo-worker-0").put(change(model.pods["demo-worker-1"])).tick(100).settle()
    model.exit("demo-worker-0", 1, message="\n".join((*EINOPS[:1], STORE))).settle()
    return Found(PYTORCH, model.manifest, [pod.raw for pod in model.pods.values()])


STOPPED = "in_attempt 0 0,stopped_by_image 1,ordered_to_stop 90"
NOT_STOPPED = "in_attempt 0 0,with_stopping_image 1,ordered_to_stop 90"


LOST = "torch.distributed.DistBackendError: NCCL error: Connection closed by remote peer demo-worker-1<41873>"


def stopped_with(*lines: str, peer: str = LOST) -> Found:
    """Worker-0 has failed of what the peer did, the job with it, and Worker-1, which ran, is stopped and gone."""
    lost = {"Worker-0": lambda pod: pod.failed(1, at=NOW - 20), "Worker-1": running}
    before = found(lost, logs={"demo-worker-0": (*EINOPS[:1], peer)})
    message = "\n".join(lines)
    later = then(
        before, {"Worker-1": lambda pod: pod.running().failed(143, at=NOW - 2, message=message).last_delete(at=NOW - 2)}
    )
    return replace(recorded(later), pods=later.pods[:1], gone=frozenset({"demo-worker-1"}))


def recorded(later: Found) -> Found:
    """The operator has seen the pods as they are now."""
    decided = plan(PYTORCH, read_job(PYTORCH, later.job), Observed(pods=tuple(member.pod for member in later.members)), NOW)
    assert decided.status is not None
    return replace(later, job={**later.job, "status": decided.status.to_json()})


SPAWNING = (EINOPS[0], '  File "<string>", line 1, in <module>', '  File "train.py", line 2, in <module>', "    mp.set_start_method('spawn')", "RuntimeError: context has already been set")  # fmt: skip


def both_running(**scenario: Any) -> Found:
    return beside(running, **scenario)


def deleted_with(finalizer: str) -> Found:
    """A job in the namespace team that is deleted and has a finalizer of another controller."""
    made = both_running()
    metadata = {
        **made.job["metadata"],
        "namespace": "team",
        "deletionTimestamp": format_time(NOW - 60),
        "finalizers": [finalizer],
    }
    return replace(made, job={**made.job, "metadata": metadata})


def on_record(before: Found, **status: Any) -> Found:
    """The job with these fields of its status."""
    return replace(before, job={**before.job, "status": {**before.job["status"], **status}})


RAISED = [event("uid-demo", "InternalError", "KeyError: 'size'")]
EARLIER = {"replica": "Worker-1", "pod": "other", "reason": "SIGKILL", "exitCode": 137, "time": format_time(START - 7200)}
TRACEBACK = ("epoch 3 loss 0.12", "Traceback (most recent call last):", '  File "train.py", line 12, in <module>', "    return self.fc(x)", "RuntimeError: mat1 and mat2 shapes cannot be multiplied (64x784 and 100x10)")  # fmt: skip
GPUS = "0/3 nodes are available: 1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, 2 Insufficient nvidia.com/gpu. preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
EIGHT_GPUS = {"resources": {"limits": {"nvidia.com/gpu": 8}}}
OWN = replace(PYTORCH, options=Options(kueue=True))
WORKLOAD = {
    "metadata": {"name": "pytorchjob-demo-1a2b3"},
    "spec": {"queueName": "research"},
    "status": {"conditions": [{"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": "couldn't assign flavors to pod set worker: insufficient unused quota for nvidia.com/gpu in flavor a100, 8 more needed"}]},
}  # fmt: skip
#: What Kueue says, what is to be done, and the status of the Workload.
KUEUE = (
    ("ClusterQueue cq is inactive", "correct what the message names", {"conditions": [{"type": "QuotaReserved", "status": "False", "reason": "Inadmissible", "message": "ClusterQueue cq is inactive"}]}),
    ("ETA 10m (the admission check prov is Pending)", "kubectl get admissionchecks", {"conditions": [{"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved"}], "admissionChecks": [{"name": "here", "state": "Ready"}, {"name": "prov", "state": "Pending", "message": "ETA 10m"}]}),
    ("no capacity in zone a (the admission check prov is Retry)", "kubectl get admissionchecks", {"conditions": [{"type": "QuotaReserved", "status": "False", "reason": "Pending"}, {"type": "Evicted", "status": "True", "reason": "AdmissionCheck"}], "admissionChecks": [{"name": "prov", "state": "Retry", "message": "no capacity in zone a"}]}),
    ("Exceeded the PodsReady timeout", "were not ready in time", {"conditions": [{"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": "Exceeded the PodsReady timeout default/w"}, {"type": "Evicted", "status": "True", "reason": "PodsReadyTimeout"}]}),
)  # fmt: skip
POD_GROUP = {
    "metadata": {"name": "demo"},
    "spec": {"minMember": 2, "queue": "research"},
    "status": {"phase": "Pending", "conditions": [{"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": "2/2 tasks in gang unschedulable", "lastTransitionTime": "2023-11-14T22:10:00Z"}]},
}  # fmt: skip
NATIVE_GROUP = {"metadata": {"name": "demo"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}, "status": {"conditions": [{"type": "PodGroupInitiallyScheduled", "status": "False", "reason": "Unschedulable", "message": "pod group is unschedulable", "lastTransitionTime": "2023-11-14T22:10:00Z"}]}}  # fmt: skip
NO_COMMAND = 'failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: exec: "trainn.sh": executable file not found in $PATH'  # fmt: skip
PROBE = 'Readiness probe failed: Get "http://10.1.2.3:8080/healthz": dial tcp 10.1.2.3:8080: connect: connection refused'
SSH = ("ssh: Could not resolve hostname demo-worker-1.demo.default.svc: Name or service not known", "ORTE was unable to reliably start one or more daemons.")  # fmt: skip
STORE = "torch.distributed.DistStoreError: Timed out after 901 seconds waiting for clients. 1/2 clients joined. c10d store timed out"


RESET = ("Traceback (most recent call last):", "ConnectionResetError: [Errno 104] Connection reset by peer")
ELASTIC = "torch.distributed.elastic.rendezvous.api"
GONE = {"involvedObject": {"name": "demo-worker-1", "uid": "uid-gone"}}
KILLED = {"replica": "Worker-0", "pod": "other", "reason": "OOMKilled", "exitCode": 137, "time": format_time(NOW - 1820)}
MPI_PAIR: dict[str, Any] = {"framework": MPI, "policy": None, "replicas": {"Launcher": 1, "Worker": 2}}
STEPS = ("step 3", "step 4")
AT_BARRIER = ("step 3", "waiting at the barrier")
DIED = ("Exception in thread loader:", "Traceback (most recent call last):", '  File "/app/data.py", line 7, in load', "    raise OSError(116)", "OSError: [Errno 116] Stale file handle: '/data'")  # fmt: skip


def launched(code: int, *lines: str) -> Found:
    """The launcher of two workers has failed."""
    pods = {"Launcher-0": lambda pod: pod.failed(code, at=NOW - 20), "Worker-0": running, "Worker-1": running}
    logs = {"demo-launcher-0": lines, "demo-launcher": lines}
    return found(pods, run_policy={"backoffLimit": 0}, logs=logs, **MPI_PAIR)


def deleted_peer(**more: Any) -> Found:
    """Worker-1 was deleted by hand and made anew; Worker-0 fails without it."""
    said = "PyTorchJob demo is restarting because Worker-1: Deleted on node node-2"
    events = [event("uid-demo", "PyTorchJobRestarting", said, at=NOW - 400)]
    pods = {"Worker-0": lambda pod: pod.failed(1, at=NOW - 20), "Worker-1": running}
    return found(pods, events=events, logs={"demo-worker-0": RESET}, **more)


def deleted(pod: Pod) -> Pod:
    """Another client has deleted it, and our finalizer holds it."""
    return pod.failed(143, at=NOW - 24).last_delete(at=NOW - 24)


def launching(pod: Pod) -> Pod:
    """Its launcher waits for the next start."""
    return pod.crash_looping(3, 255)


def raising(*tail: str, at: float) -> Found:
    return both_running(
        tails={"demo-worker-1": tail},
        printed_at={"demo-worker-0": NOW, "demo-worker-1": at},
        last_lines={"demo-worker-0": "step 7", "demo-worker-1": tail[-1]},
    )


def overlapping(pod: Pod) -> Pod:
    """Fails a second later than the other, having lost it."""
    return pod.failed(1, at=NOW - 19)


TIMED_OUT = "Unable to attach or mount volumes: unmounted volumes=[ckpt], unattached volumes=[]: timed out waiting for the condition"  # fmt: skip
#: What the kubelet says while volumes are not ready, the latest first.
NOT_MOUNTED: dict[str, tuple[tuple[str, str], ...]] = {
    "a volume that is attached elsewhere, and time-outs": (("FailedMount", TIMED_OUT), ("FailedAttachVolume", SAID["volume attached elsewhere"])),
    "a ConfigMap of a volume, found missing in the second of its binding": (("Scheduled", "Successfully assigned default/demo-worker-1 to node-1"), ("FailedMount", SAID["ConfigMap of a volume"])),
}  # fmt: skip
OTHERS = "RuntimeError: [gloo/pair.cc] Connection closed by peer [127.0.0.1]:3"
EMPTY = "\n".join((*EINOPS[:1], "EOFError: Ran out of input"))
TOGETHER = {"restartScope": "Job", "backoffLimit": 2}
#: Jobs that ended after several attempts: how long each took, the run policy, how each ended, and the cause.
ATTEMPTS: tuple[tuple[Any, ...], ...] = (
    ("attempts that ended otherwise than the first", 5, TOGETHER, (("Worker-1", 137, ""), *[("Worker-0", 255, EMPTY)] * 2), "PythonException", "Worker-0", "EOFError"),
    ("runs that ended otherwise than another replica's", 5, {"backoffLimit": 2}, (("Worker-1", 137, ""), *[("Worker-0", 255, EMPTY)] * 2), "PythonException", "Worker-0", "EOFError"),
    ("a permanent code after a crash that was restarted", 2, {}, (("Worker-1", 139, ""), ("Worker-0", 1, "\n".join((*EINOPS[:1], "sqlite3.OperationalError: no such table: trials")))), "PythonException", "Worker-0", "no such table"),
    ("runs that cannot join again after a peer's own failure", 40, {"backoffLimit": 2}, (("Worker-1", 255, EMPTY), *[("Worker-0", 255, OTHERS)] * 2), "PythonException", "Worker-1", "EOFError"),
    ("a run that cannot join again after its own failure", 40, {"backoffLimit": 1}, (("Worker-1", 255, EMPTY), ("Worker-1", 255, OTHERS)), "PythonException", "Worker-1", "EOFError", "; its later runs failed because of it"),
    ("a last attempt that was killed", 40, TOGETHER, (*[("Worker-0", 255, EMPTY)] * 2, ("Worker-1", 137, "")), "SIGKILL", "Worker-1"),
    ("attempts without a peer, after one that failed by itself", 5, TOGETHER, (("Worker-1", 137, ""), *[("Worker-0", 255, OTHERS)] * 2), "PeersUnreachable", "Worker-0 on node node-1: exit code 255"),
    ("runs without a peer that was killed", 5, {"backoffLimit": 1}, (("Worker-1", 137, ""), ("Worker-0", 255, OTHERS)), "SIGKILL", "Worker-1", "; Worker-0 failed because of it"),
)  # fmt: skip

NO_RENDEZVOUS: Manifest = {"container": {"command": ["torchrun", "--nnodes=2", "x.py"]}, "run_policy": {"restartScope": "Job"}}


def of_messages(table: str, seeded: Callable[..., Found]) -> list[Scenario]:
    """A scenario for each message of a table."""
    rows = MESSAGES[table]
    return [scenario(row["name"], row["reason"], *row["words"]).of(seeded(*row["said"])) for row in rows]


SCENARIOS = (
    # the program
    scenario("exit code 1", "ProgramFailed", "Worker-1 on node node-1", "exit code 1").of(replace(failed(1, lines=("done nothing",)), unread={"events": "ann may not list events"}), "events could not be read: ann may not list events"),
    scenario("exit code 2", "ProgramFailed", "exit code 2", "wrong arguments").of(failed(2), "it printed nothing"),
    scenario("exit code 128 of the runtime", "CommandNotFound", "trainn.sh").of(failed(128, reason="StartError", message=NO_COMMAND)),
    scenario("exit code 143", "SIGTERM", "SIGTERM").of(failed(143)),
    scenario("out of memory", "OOMKilled", "more memory than its limit").of(failed(137, reason="OOMKilled")),
    scenario("out of memory, an init container", "InitContainerFailed", "more memory than its limit of 256Mi (OOMKilled").of(beside(init_out_of_memory, template={"initContainers": [{"name": "prepare", "image": "image", "resources": {"limits": {"memory": "256Mi"}}}]})),
    scenario("out of memory, by a LimitRange", "OOMKilled", "more memory than its limit of 512Mi, which the template does not set").of(limited(failed(137, reason="OOMKilled"), "512Mi")),
    scenario("a Python exception", "PythonException", "RuntimeError", "shapes cannot be multiplied").of(failed(1, lines=TRACEBACK)),
    scenario("launcher cannot reach workers", "PeersUnreachable", "Launcher-0", "Could not resolve hostname demo-worker-1").of(found({"Launcher-0": lambda pod: pod.failed(255, at=NOW - 20), "Worker-0": running}, framework=MPI, policy=None, replicas={"Launcher": 1, "Worker": 1}, run_policy={"backoffLimit": 0}, logs={"demo-launcher-0": SSH, "demo-launcher": SSH})),
    scenario("an address outside of the job", "HostUnreachable", "Worker-1", "no pod of the job is named nosuch.corp").of(failed(1, lines=(*EINOPS[:1], f'torch.distributed.DistNetworkError: {NO_MASTER}')), "the operator sets the address of rank 0 in MASTER_ADDR"),
    scenario("an address that is each replica's own", "PeersUnreachable", "Worker-1").of(failed(1, lines=(*EINOPS[:1], "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while trying to connect to (localhost, 23456).")), "the operator sets the address of rank 0 in MASTER_ADDR"),
    scenario("a server in the same pod that was killed", "HostUnreachable", "Worker-0", "its container sidecar ended first: killed by SIGKILL (exit code 137)", "; then exit code 1: Conn").of(found({"Worker-0": lambda pod: pod.failed(1, at=NOW - 20).with_sidecar(137, NOW - 21)}, replicas={"Worker": 1}, logs={"demo-worker-0": (*EINOPS[:1], "ConnectionRefusedError: [Errno 111] Connection refused")})),
    scenario("a task that did not come", "PeersUnreachable", "Worker-0", "task:2 did not reach the barrier of the coordinator, 2/3 did").of(found({"Worker-0": lambda pod: pod.failed(1, at=NOW - 20), "Worker-1": running, "Worker-2": running}, framework=JAX, replicas={"Worker": 3}, logs={"demo-worker-0": TEXTS["barrier"].splitlines()})),
    scenario("a host of mpirun outside of the job", "HostUnreachable", "Launcher-0", "no pod of the job is named gpu-node-7").of(launched(1, 'Error from server (Forbidden): pods "gpu-node-7" is forbidden: User "system:serviceaccount:default:demo-launcher" cannot get resource "pods" in API group "" in the namespace "default"', "-" * 74, *SSH[1:]), "leave -H, --host and --hostfile out"),
    scenario("the rank that counts the others ends after those that wait for it", "PeersUnreachable", "Master-0 on node node-1: exit code 1: torch.distributed.DistStoreError: Timed out after 61 seconds waiting for clients. 2/4").of(found({"Master-0": lambda pod: pod.failed(1, at=NOW - 20), "Worker-0": lambda pod: pod.failed(1, at=NOW - 21)}, replicas={"Master": 1, "Worker": 1}, logs={"demo-master-0": (*EINOPS[:1], f'torch.distributed.DistStoreError: {ALONE.replace("1/2", "2/4")}'), "demo-worker-0": (*EINOPS[:1], NO_RANK_0)})),
    scenario("processes that fail again and again", "PythonException", "Worker-1", "its log repeats an exception: RuntimeError").of(both_running(tails={"demo-worker-1": SPAWNING * 2}, printed_at={"demo-worker-1": NOW})),
    scenario("connections that are tried again", "Running", "2/2 Running").of(both_running(tails={"demo-worker-1": (EINOPS[0], "ConnectionRefusedError: [Errno 111] Connection refused") * 2}, printed_at={"demo-worker-1": NOW})),
    scenario("a name of the job that does not resolve yet", "Running", "2/2 Running").of(both_running(tails={"demo-worker-1": [NO_ADDRESS.format("demo-worker-0")] * 4})),
    scenario("a server that ended without an error", "FileNotFound", "Launcher-0 on node node-1: exit code 205: FileNotFoundError").of(found({"Launcher-0": lambda pod: pod.failed(205, at=NOW - 20), "Worker-0": lambda pod: pod.succeeded(at=NOW - 21)}, framework=MPI, policy=None, replicas={"Launcher": 1, "Worker": 1}, run_policy={"backoffLimit": 0}, logs={f'demo-launcher{end}': (*EINOPS[:1], "FileNotFoundError: [Errno 2] No such file or directory: 'a'") for end in ("", "-0")})),
    scenario("an error before the peers' ends, of a replica that was slower to end", "GpuOutOfMemory", "Worker-1 on node node-1: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB", "; it had not ended when the job failed; Worker-0 failed because of it").of(stopped_with(*EINOPS[:1], "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB", "[rank2]:[W1126 12:10:11.283 ProcessGroupNCCL.cpp:1250] Warning: WARNING: process group has NOT been destroyed")),
    scenario("an error of CUDA that NCCL's watchdog has found, of a replica that was slower to end", "GpuError", "Worker-1 on node node-1: [E1126", "an illegal memory access was encountered; it had not ended when the job failed; Worker-0 failed because of it").of(stopped_with(*TEXTS["illegal"].splitlines())),
    scenario("a replica that said how it was stopped", "PeersUnreachable", "Worker-0 on node node-1: exit code 1", "closed by").of(stopped_with(*EINOPS[:1], "torch.distributed.elastic.multiprocessing.api.SignalException: Process 7 got signal: 15")),
    scenario("a peer's failure comes a second earlier", "SIGSEGV", "Worker-0", "segmentation fault").of(found({"Worker-0": lambda pod: pod.failed(139, at=NOW - 20), "Worker-1": overlapping}, logs={"demo-worker-1": ("RuntimeError: [gloo/pair.cc] Connection closed by peer [127.0.0.1]:3",)})),
    scenario("a peer's failure is seen a second later", "OOMKilled", "Worker-1").of(found({"Worker-0": lambda pod: pod.failed(1, at=NOW - 21), "Worker-1": lambda pod: pod.failed(137, at=NOW - 20, reason="OOMKilled")}, logs={"demo-worker-0": (STORE,)})),
    scenario("the cause ends after those that lost it, and is not on record", "PythonException", "Worker-1 on node node-1: exit code 1: RuntimeError: mat1", "; Worker-0 failed because of it").of(then(found({"Worker-0": lambda pod: pod.failed(1, at=NOW - 20), "Worker-1": running, "Worker-2": running}, replicas={"Worker": 3}, run_policy={"cleanPodPolicy": "None"}, logs={"demo-worker-0": RESET, "demo-worker-1": TRACEBACK, "demo-worker-2": RESET}), {"Worker-1": lambda pod: pod.failed(1, at=NOW - 8), "Worker-2": lambda pod: pod.failed(134, at=NOW - 19)})),
    scenario("a peer that was deleted", "Deleted", "Worker-1 on node node-2: deleted, by a user or another controller; Worker-0 failed because of it").of(deleted_peer(), "find out who deletes pods", "Connection reset by peer"),
    scenario("a peer that was deleted, and whose new pod could not join", "Deleted", "Worker-1 on node node-2: deleted", "; Worker-0 failed because of it").of(replace(then(deleted_peer(), {"Worker-1": lambda pod: pod.failed(1, at=NOW - 19)}), logs={"demo-worker-0": RESET, "demo-worker-1": (STORE,)})),
    scenario("an end of its own, though a peer was deleted", "PythonException", "Worker-0 on node node-1: exit code 1: RuntimeError: mat1").of(replace(deleted_peer(), logs={"demo-worker-0": TRACEBACK})),
    scenario("a rank that was killed long before the others gave up", "OOMKilled", "Worker-0: used more memory", "; Worker-1 failed because of it").of(failed(134, lines=("Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)",), earlier=[KILLED])),
    scenario("a rendezvous without a replica that has no node", "InsufficientResources", "Worker-1 had not started: cannot be scheduled: 0/1 nodes are available: 1 Insufficient cpu; Worker-0 on node", "1/2 clients joined").of(replace(never_started(lambda pod: pod.unschedulable("0/1 nodes are available: 1 Insufficient cpu.")), events=[event("uid-gone", "FailedScheduling", "0/1 nodes are available: 1 Insufficient cpu.", at=NOW - 30) | GONE, event("uid-gone", "Started", "Started container pytorch", at=NOW + 9, warning=False) | GONE])),
    scenario("a rendezvous without a replica whose image is not there", "ImageNotFound", "Worker-1 had not started: the image me/train:v9 cannot be pulled: not found; Worker-0 on node").of(replace(never_started(lambda pod: pod.waiting("ImagePullBackOff", TEXTS["not_there"])), events=[event("uid-gone", "Failed", f'Failed to pull image "me/train:v9": {TEXTS["not_there"].partition("Pull: ")[2]}', at=NOW - 40) | GONE, event("uid-gone", "Failed", "Error: ErrImagePull", at=NOW - 30) | GONE])),
    scenario("torchrun for more nodes than there are", "PeersUnreachable", "fewer torchrun agents", "Worker-1 on node").of(failed(1, lines=(f'{ELASTIC}.RendezvousTimeoutError',), container={"command": ["torchrun", "--nnodes=3", "train.py"]})),
    scenario("a barrier that a rank which hangs does not reach", "CollectiveTimeout", "Rank 0 failed to pass monitoredBarrier in 5000 ms", "; Worker-0 is still running, its last line: downloading").of(failed(1, lines=("RuntimeError: [Rank 1]: Rank 0 failed to pass monitoredBarrier in 5000 ms",), run_policy={"cleanPodPolicy": "None"}, last_lines={"demo-worker-0": "downloading"})),
    scenario("a launcher whose worker has no node", "InsufficientResources", "Worker-1: cannot be scheduled").of(found({"Launcher-0": launching, "Worker-0": running, "Worker-1": lambda pod: pod.unschedulable("0/1: 1 Insufficient cpu")}, **MPI_PAIR)),
    scenario("a launcher whose worker's name cannot be resolved yet", "PeersUnreachable", "Could not resolve hostname demo-worker-1", "; Worker-1 (Pending): its containers are being created", now=START + 20).of(found({"Launcher-0": launching, "Worker-0": running, "Worker-1": lambda pod: pod.waiting("ContainerCreating", "")}, logs={"demo-launcher": SSH}, **MPI_PAIR)),
    scenario("a thread that has ended", "StorageFailed", "Worker-1 on node node-1: its thread loader has ended with an exception: OSError: [Errno 116]", "the process is still running").of(raising(*DIED, at=NOW - 9)),
    scenario("an earlier run of the replica that failed", "PythonException", "Worker-1 on node node-1: exit code 1: RuntimeError").of(failed(1, lines=TRACEBACK, policy="ExitCode", earlier=[{**EARLIER, "time": format_time(NOW - 30)}])),
    scenario("an exception, and silence", "StorageFailed", "its log ends with an exception", "has printed nothing for 5 min since").of(raising(*DIED[1:], at=NOW - 300)),
    scenario("a success after an exception", "Succeeded", "has succeeded, but the log of Worker-0 ends with an exception: RuntimeError: mat1").of(found({"Worker-0": lambda pod: pod.succeeded(), "Worker-1": lambda pod: pod.succeeded()}, tails={"demo-worker-0": TRACEBACK})),
    scenario("backoffLimit used up", "ProgramFailed", "exit code 3").of(failed(3, policy="OnFailure", run_policy={"backoffLimit": 0})),
    *(scenario(name, *cause, now=START + 9000).of(attempts(*ends, seconds=seconds, **policy)[0]) for name, seconds, policy, ends, *cause in ATTEMPTS),
    scenario("workers of mpirun that end at once", "EndedEarly", "Worker-1 on node node-1: its command ended with exit code 0, and the Launcher cannot reach a Worker").of(attempts(("Worker-1", 0, ""), ("Worker-1", 0, ""), framework=MPI, others={"Launcher": 1})[0]),
    scenario("a parameter server that ends again and again", "EndedEarly", "PS-0 on node node-1: its command ended with exit code 0, and the replicas that it serves need it; restarted 3 times").of(found({"PS-0": lambda pod: pod.crash_looping(3, 0), "Worker-0": running}, framework=TF, policy="Always", replicas={"PS": 1, "Worker": 1})),
    scenario("a program that succeeds again and again", "EndedEarly", "Worker-1", "and restartPolicy Always restarts it").of(beside(lambda pod: pod.crash_looping(3, 0), policy="Always")),
    scenario("replicas that fail alike", "ModuleNotFound", "Worker-0, Worker-1 on node node-1: exit code 1: ").of(found({f'Worker-{n}': lambda pod: pod.failed(1, at=NOW - 20) for n in range(2)}, logs={f'demo-worker-{n}': EINOPS for n in range(2)})),
    scenario("restarted in place", "ProgramFailed", "Worker-1", "exit code 1", "restarted 3 times").of(crash(1, 3)),
    scenario("started again after a stop in place", "Running", "2/2 Running").of(found(dict.fromkeys(("Worker-0", "Worker-1"), lambda pod: again(pod, NOW - 5).in_attempt(1, 4)), policy="OnFailure", run_policy={"restartScope": "Job", "restartMethod": "Auto"}, earlier=[EARLIER])),
    scenario("between two failures", "ModuleNotFound", "No module named 'einops'", "restarted 4 times, running again for 5 s").of(beside(lambda pod: again(pod, NOW - 5), policy="OnFailure", logs={"demo-worker-1": EINOPS})),
    scenario("failed often, and runs since", "Running", "2/2 Running").of(beside(lambda pod: again(pod, NOW - 90), policy="OnFailure", logs={"demo-worker-1": EINOPS})),
    scenario("waiting for its replacement", "SIGKILL", "Worker-1").of(failed(137, policy="ExitCode", run_policy={"backoffLimit": 5})),
    scenario("init container", "InitContainerFailed", "prepare", "exit code 3").of(beside(init_failed)),
    scenario("init container, of a pod that is not restarted", "InitContainerFailed", "prepare", "exit code 3", "no data").of(beside(init_ended, logs={"demo-worker-1": ("no data",)})),
    scenario("sidecar", "SidecarRunning", "container sidecar is still running").of(beside(lambda pod: pod.main_ended(0))),
    scenario("readiness", "ReadinessProbeFailed", "connection refused").of(beside(never_ready, events=[event("uid-demo-worker-1", "Unhealthy", PROBE)])),
    scenario("liveness", "LivenessProbeFailed", "Liveness probe failed").of(crash(137, 2, events=[event("uid-demo-worker-1", "Unhealthy", "Liveness probe failed: command timed out")])),
    scenario("liveness, of a pod that is not restarted", "LivenessProbeFailed", "stopped by the kubelet (exit code 143): Liveness probe failed: HTTP probe failed with statuscode: 503").of(failed(143, events=probed("Liveness"))),
    scenario("startup, by a program that ends with a code of its own", "StartupProbeFailed", "stopped by the kubelet (exit code 1): Startup probe failed").of(failed(1, lines=("KeyboardInterrupt",), events=probed("Startup", whole=True))),
    scenario("liveness, of a container that runs again", "Running").of(beside(lambda pod: pod.restarted_after(143), policy="OnFailure", events=probed("Liveness", at=NOW - 31)), "Worker-1 was stopped by the kubelet (exit code 143): Liveness probe failed: HTTP"),
    scenario("liveness, of a pod that was replaced", "Running").of(both_running(earlier=[PROBED], events=probed("Liveness")), "Worker-1 was stopped by the kubelet (exit code 143): Liveness probe failed: HTTP"),
    scenario("killed long after a probe failed", "SIGKILL", "SIGKILL").of(failed(137, events=probed("Liveness", at=NOW - 900))),
    scenario("liveness, again and again", "LivenessProbeFailed", "Liveness probe failed", "restarted 4 times, running again for 90 s").of(beside(lambda pod: again(pod, NOW - 90), policy="OnFailure", events=probed("Liveness", at=NOW - 101))),
    scenario("the startup probe of a pod that runs", "StartupProbeFailed", "not started yet: Startup probe failed").of(beside(never_ready, events=probed("Startup")[:1])),
    scenario("a sidecar that does not start", "StartupProbeFailed", "its sidecar prepare has not passed its startup probe (100 s): HTTP probe failed").of(beside(with_sidecar, events=probed("Startup", "prepare")[:1])),
    scenario("a long init container", "InitContainerRunning", "its init container prepare has run for 20 min", "its last line, 15 min old: waiting for db:5432", now=START + 1200).of(beside(preparing, printed_at={"demo-worker-1": START + 300}, last_lines={"demo-worker-1": "waiting for db:5432"})),
    scenario("a postStart hook", "PostStartHookFailed", "stopped by the kubelet (exit code 137): PostStartHook failed").of(failed(137, events=HOOK)),
    scenario("a postStart hook of a program that fails at once", "PythonException", "shapes cannot be multiplied").of(failed(1, lines=TRACEBACK, events=HOOK)),
    scenario("a postStart hook, again and again", "PostStartHookFailed", "Exec lifecycle hook ([false])").of(beside(hook_failed, policy="OnFailure")),
    scenario("a sidecar that fails after the main container's success", "ProgramFailed", "container pytorch has succeeded, but container sidecar: failed with exit code 3", "restarted 2 times").of(beside(sidecar_failed, policy="OnFailure")),
    scenario("a pod and its log are gone", "ProgramFailed", "Worker-1 on node node-1: failed with exit code 1; its log is gone").of(removed(failed(1, run_policy={"cleanPodPolicy": "All"}))),
    scenario("a pod is gone, but for its last lines", "ModuleNotFound", "No module named 'einops'").of(removed(failed(1, message="\n".join(EINOPS)))),
    # the platform
    scenario("evicted", "Evicted", "low on resource: memory").of(beside(lambda pod: pod.evicted()), "request what it really uses"),
    scenario("evicted for a limit of the pod", "Evicted", "evicted by its node: Usage of EmptyDir").of(removed(beside(lambda pod: pod.evicted(message='Usage of EmptyDir volume "cache" exceeds the limit "1Gi".')))),
    scenario("evicted and replaced", "Evicted", "low on resource").of(beside(lambda pod: pod.evicted(), policy="ExitCode")),
    scenario("node lost", "NodeLost", "lost with its node", "the operator replaces such a replica").of(beside(lambda pod: pod.running().disrupted("DeletionByPodGC").failed(137))),
    scenario("preempted", "Preempted", "higher priority").of(beside(lambda pod: pod.failed(143).disrupted("PreemptionByScheduler")), "give the job a priorityClassName; under restartPolicy OnFailure or ExitCode the operator replaces"),
    scenario("node shut down", "NodeShutdown", "shut down").of(beside(lambda pod: pod.evicted("Terminated", "Pod was terminated in response to imminent node shutdown."))),
    scenario("refused by its node", "NodeRefused", "OutOfnvidia.com/gpu").of(beside(lambda pod: pod.evicted("OutOfnvidia.com/gpu", "Node didn't have enough resource"))),
    scenario("terminating on a dead node", "NodeDoesNotAnswer", "Worker-1 on node node-1", "does not stop it", "Kubelet stopped posting").of(found({"Worker-0": lambda pod: pod.succeeded(), "Worker-1": stuck_on}, nodes=[node(ready="Unknown", message="Kubelet stopped posting node status.")])),
    scenario("evicted from a dead node", "NodeLost", "Worker-1", "stopped responding (Kubelet stopped posting").of(beside(lambda pod: pod.disrupted("DeletionByTaintManager").failed(137), nodes=[node(ready="Unknown", message="Kubelet stopped posting node status.")])),
    scenario("running on a dead node", "NodeDoesNotAnswer", "does not respond").of(beside(running, nodes=[node(ready="Unknown", message="Kubelet stopped posting node status.")])),
    scenario("a restart that a silent node delays", "NodeDoesNotAnswer", "Worker-1 on node node-2: deleted, but its node").of(then(found({"Worker-0": lambda pod: pod.failed(1, at=NOW - 20), "Worker-1": running}, policy="OnFailure", run_policy={"restartScope": "Job"}, logs={"demo-worker-0": RESET}), {"Worker-1": silent_node}, nodes=[node("node-2", ready="Unknown", message="Kubelet stopped posting node status.")])),
    scenario("a peer on a silent node, of a job that has failed", "NodeDoesNotAnswer", "Worker-1 (Running): deleted, but its").of(then(found({"Worker-0": lambda pod: pod.failed(1, at=NOW - 20), "Worker-1": running}, logs={"demo-worker-0": RESET}), {"Worker-1": silent_node}, nodes=[node("node-2", ready="Unknown", message="Kubelet stopped posting node status.")])),
    scenario("a peer whose node was shut down, which was reported later", "NodeShutdown", "Worker-1 on node node-1: ended because its node shut down: imminent node shutdown; Worker-0 failed because of it").of(recorded(then(found({"Worker-0": lambda pod: pod.failed(1, at=NOW - 20), "Worker-1": running}, logs={"demo-worker-0": RESET}), {"Worker-1": shut_down}))),
    scenario("started again in place, which the kubelet has not seen", "SIGKILL", "Worker-1").of(stopping(dict.fromkeys(("Worker-0", "Worker-1"), "in_attempt 1 1,stopped_by_image 1"))),
    scenario("finalizer stuck", "FinalizerStuck", "finalizer").of(beside(held_by_finalizer)),
    scenario("deadline of the job", "DeadlineExceeded", "activeDeadlineSeconds (60 s)", "waited", "Insufficient cpu").of(unschedulable("0/1 nodes are available: 1 Insufficient cpu.", run_policy={"activeDeadlineSeconds": 60})),
    scenario("deadline of a job that fails again and again", "DeadlineExceeded", "; restarts until then: 2; Worker-0 failed: exit code 255: EOFError", ": correct what the message names").of(on_record(attempts(*[("Worker-0", 255, EMPTY)] * 2, restartScope="Job", activeDeadlineSeconds=60)[0], conditions=[{"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": ""}])),
    scenario("pending for too long", "PendingTooLong", "Worker-1 has had no node", "Insufficient cpu", "pendingDeadlineSeconds is 60").of(unschedulable("0/1 nodes are available: 1 Insufficient cpu.", run_policy={"pendingDeadlineSeconds": 60})),
    scenario("deadline of the pod", "PodDeadlineExceeded", "pod template").of(beside(lambda pod: pod.evicted("DeadlineExceeded", "Pod was active on the node longer than the specified deadline"))),
    # images, configuration, volumes
    *of_messages("waiting", waiting), *of_messages("creating", creating),
    *(scenario(name, reason).of(beside(lambda pod: pod.waiting("ContainerCreating", ""), events=not_mounted(name))) for name, reason in zip(NOT_MOUNTED, ("VolumeAttachedElsewhere", "ConfigMapNotFound"), strict=True)),
    scenario("a Secret for pulling that does not exist", "SecretNotFound", "the Secret ghcr-cred of imagePullSecrets was not found, and the image docker.io/me/secret:1 cannot be pulled: pull access").of(waiting("ImagePullBackOff", TEXTS["denied"], events=[event("uid-demo-worker-0", "FailedToRetrieveImagePullSecret", "Unable to retrieve some image pull secrets (ghcr-cred); attempting to pull the image may not succeed.")])),
    scenario("key of a volume", "KeyNotFound", 'the volume "cfg" has no key "train.yaml"').of(creating("FailedMount", 'MountVolume.SetUp failed for volume "cfg" : configmap references non-existent config key: train.yaml', template=WORDS)),
    scenario("volumes of which the kubelet says nothing", "VolumesNotReady", "its volumes or network are not ready").of(beside(lambda pod: pod.waiting("ContainerCreating", ""))),
    scenario("volumes that are ready, and nothing else", "PullingImage", "may still be pulling the image").of(beside(lambda pod: pod.waiting("ContainerCreating", "")._condition("PodReadyToStartContainers", "True"))),
    # the scheduler
    *of_messages("unschedulable", unschedulable),
    scenario("GPUs in use", "InsufficientResources", "nvidia.com/gpu").of(unschedulable(GPUS, container=EIGHT_GPUS, nodes=[node(nvidia_com_gpu="8"), node("node-2", nvidia_com_gpu="8")]), "wait until other pods end"),
    scenario("GPUs in use, and a node group that may not grow", "InsufficientResources", "; pod didn't trigger scale-up: 1 max").of(unschedulable(GPUS, events=[event("uid-demo-worker-1", "NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max node group size reached", warning=False)]), "or raise the maximum size of the node group"),
    scenario("GPUs for a part of the job", "InsufficientResources", "request nvidia.com/gpu=16 together, all nodes have 8").of(unschedulable(GPUS, container=EIGHT_GPUS, nodes=[node(nvidia_com_gpu="8"), node("node-2")])),
    scenario("GPUs on no node", "NodeTooSmall", "nvidia.com/gpu=8", "the largest has 4").of(unschedulable(GPUS, container=EIGHT_GPUS, nodes=[node(nvidia_com_gpu="4"), node("node-2")])),
    scenario("taint, by a scheduler that does not name it", "UntoleratedTaint", "the nodes have the taints gpu=only").of(unschedulable("0/1 nodes are available: 1 node(s) had untolerated taint(s). no new claims to deallocate, preemption: 0/1 nodes", template={"tolerations": [{"key": "lab", "operator": "Exists"}, {"key": "team", "operator": "Exists"}]}, nodes=[{**node(), "spec": {"taints": [{"key": "team", "effect": "NoSchedule"}, {"key": "lab", "effect": "NoSchedule"}, {"key": "gpu", "value": "only", "effect": "NoSchedule"}]}}])),
    scenario("selector, of a label that no node has", "NodeSelector", "no node has the label gpu=a100").of(beside(lambda pod: pod.unschedulable("0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector"), template={"nodeSelector": {"gpu": "a100", "disk": "ssd"}}, nodes=[{**node(), "metadata": {"name": "node-1", "labels": {"disk": "ssd"}}}])),
    scenario("scheduling gate", "SchedulingGated", "kueue.x-k8s.io/topology").of(beside(gated)),
    scenario("no scheduler", "NoScheduler", '"volcano"').of(found({"Worker-0": lambda pod: pod, "Worker-1": running}, template={"schedulerName": "volcano"})),
    # queues
    scenario("suspended", "Suspended", "runPolicy.suspend").of(found(run_policy={"suspend": True})),
    scenario("in Kueue's queue", "QueuedByKueue", "research", "insufficient unused quota for nvidia.com/gpu").of(found(run_policy={"suspend": True}, labels={"kueue.x-k8s.io/queue-name": "research"}, workloads=[WORKLOAD])),
    scenario("not taken up by Kueue", "QueuedByKueue", "research", "no Workload").of(found(run_policy={"suspend": True}, labels={"kueue.x-k8s.io/queue-name": "research"})),
    scenario("Kueue has no integration of the kind", "QueuedByKueue", "Kueue has no integration of MXJob").of(found(framework=MXNET, replicas={"Worker": 1}, run_policy={"suspend": True}, labels={"kueue.x-k8s.io/queue-name": "r"})),
    scenario("in Kueue's queue without a Workload of the operator", "QueuedByKueue", "in Kueue's queue research: the label kueue.x-k8s.io/priority-class names WorkloadPriorityClass high, which does not exist").of(found(framework=OWN, labels={"kueue.x-k8s.io/queue-name": "research", "kueue.x-k8s.io/priority-class": "high"})),
    *(scenario(f"in Kueue's queue: {says}", "QueuedByKueue", says, does).of(found(run_policy={"suspend": True}, labels={"kueue.x-k8s.io/queue-name": "research"}, workloads=[{**WORKLOAD, "status": status}])) for says, does, status in KUEUE),
    scenario("PodGroup larger than the job", "GangPending", "its PodGroup waits for 9 pods, but the job has 2", "lower spec.runPolicy").of(found({"Worker-0": lambda pod: pod.unschedulable("x"), "Worker-1": lambda pod: pod}, pod_groups=[{**POD_GROUP, "spec": {"minMember": 9}}])),
    scenario("PodGroup pending", "GangPending", "2 pods at once", "2/2 tasks", "since 2023-11-14T22:10:00Z").of(found({"Worker-0": lambda pod: pod.unschedulable("pod group is not ready, 2 Pending, 2 minAvailable"), "Worker-1": lambda pod: pod}, pod_groups=[POD_GROUP])),
    scenario("Kubernetes' own PodGroup waits", "GangPending", "2 pods at once", "since 2023-11-14T22:10:00Z", "0/4 nodes are available: 4 Insufficient cpu").of(found({"Worker-0": lambda pod: pod.unschedulable("pod group is unschedulable, waiting for minCount pods from a gang"), "Worker-1": lambda pod: pod.unschedulable("0/4 nodes are available: 4 Insufficient cpu.")}, pod_groups=[NATIVE_GROUP])),
    # the API server
    *of_messages("refused", refused),
    scenario("name in use", "NameConflict", "pods/demo-worker-0").of(found(observed={"refusal": "pods/demo-worker-0 already exists and belongs to another owner; delete or rename it"})),
    scenario("refused for good", "InvalidSpec", "hostNetwork").of(found(observed={"rejections": {("pods", "demo-worker-0"): Rejection("spec.hostNetwork: Invalid value")}})),
    # the operator
    scenario("invalid", "InvalidSpec", "Helper").of(found(replicas={"Helper": 1})),
    scenario("no operator", "NoOperator", "100 s").of(found(operator=False)),
    scenario("suspended, and no operator", "NoOperator", "100 s", "; runPolicy.suspend is true").of(found(operator=False, run_policy={"suspend": True})),
    scenario("suspended while no operator was running", "NoOperator", "it is to be suspended, and its status", "; runPolicy.suspend is true").of(edited(both_running(), True, NOW - 40)),
    scenario("suspended just now", "Suspended", "runPolicy.suspend is true").of(edited(both_running(), True, NOW - 4)),
    scenario("resumed while no operator was running", "NoOperator", "it is to run again, and its status").of(edited(found(run_policy={"suspend": True}), False, NOW - 40)),
    scenario("resumed just now", "Starting").of(edited(found(run_policy={"suspend": True}), False, NOW - 4)),
    scenario("a framework's function raises", "FrameworkError", "pytorch", "KeyError: 'size'").of(found(operator=False, events=RAISED)),
    scenario("a pod is gone", "NoOperator", "a pod of Worker is gone", now=NOW + 100).of(lacking()),
    scenario("a server that has ended before its workers", "EndedEarly", "PS-0 on node node-1: its command ended with exit code 0, and the replicas that it serves need it").of(found({"PS-0": lambda pod: pod.succeeded(at=NOW - 90), "Worker-0": running}, framework=TF, replicas={"PS": 1, "Worker": 1}, policy="OnFailure")),
    scenario("an API server that fails", "Refused", "0/2 Running; Error creating: 500 InternalError: etcdserver: mvcc: database space exceeded").of(found(events=[event(job_manifest(PYTORCH, {})["metadata"]["uid"], "SuccessfulCreateService", "Created service: demo", warning=False), event(job_manifest(PYTORCH, {})["metadata"]["uid"], "FailedCreatePod", "Error creating: 500 InternalError: etcdserver: mvcc: database space exceeded")])),
    scenario("a pod has just gone", "Starting", "1/2 Running", now=NOW + 100).of(lacking(event("uid-demo", "SuccessfulDeletePod", "Deleted pod demo-worker-1", warning=False, at=NOW + 98))),
    scenario("the operator died before a pod ended", "NoOperator", "Worker-1 ended 18 min ago", now=NOW + 1080).of(then(both_running(), {"Worker-1": lambda pod: pod.succeeded(at=NOW - 20)})),
    scenario("a pod was deleted while no operator was running", "Deleted", "Worker-1 on node node-1: deleted, by a user or another controller; Worker-0 failed because of it", now=NOW + 1080).of(found({"Worker-0": lambda pod: pod.failed(1, at=NOW - 20), "Worker-1": deleted}, logs={"demo-worker-0": RESET})),
    scenario("all restart, and one takes long to stop", "SIGKILL", "Worker-1", now=NOW + 100).of(failed(137, policy="OnFailure", run_policy={"restartScope": "Job"})),
    scenario("another's finalizer on the job", "Deleting", "example.com/hold", "kubectl -n team patch pytorchjob demo").of(deleted_with("example.com/hold")),
    scenario("another's finalizer on a pod", "FinalizerStuck", "example.com/hold").of(beside(held_by_another)),
    scenario("another controller's", "ManagedElsewhere", "multikueue").of(found(operator=False, run_policy={"managedBy": "kueue.x-k8s.io/multikueue"})),
    # nothing is wrong
    scenario("succeeded while workers ran", "Succeeded", "has succeeded").of(found({"Master-0": lambda pod: pod.succeeded(), "Worker-0": running}, replicas={"Master": 1, "Worker": 1})),
    scenario("nothing is printed", "Running", "2/2 Running; nothing was printed for 20 min; the last line, by Worker-1: waiting for /data/_SUCCESS", now=NOW + 1200).of(both_running(printed_at={"demo-worker-0": NOW - 9, "demo-worker-1": NOW}, last_lines={"demo-worker-0": "epoch 1", "demo-worker-1": "waiting for /data/_SUCCESS"})),
    scenario("running", "Running", "2/2 Running").of(beside(running)),
    scenario("stalled, and one replica does something else", "Stalled", "has reported no progress since 22:13; the last line of Worker-1, 71 s old: open /mnt/nfs/shard-12.tar").of(stalled(worker_0=STEPS, worker_1=(*STEPS, "open /mnt/nfs/shard-12.tar"), worker_2=STEPS), "the last line of Worker-0, 70 s old: step 4", "kubectl exec demo-worker-1 -- py-spy dump"),
    scenario("failed by a stall", "Stalled", "no progress since 22:13; the last line of Worker-1: waiting for shard 4").of(ended_by_limit("Stalled", STEPS, (*STEPS, "waiting for shard 4"))),
    scenario("a deadline, and a replica that waits for something else", "DeadlineExceeded", "; the last line of Worker-1: Lock 7 not").of(ended_by_limit("DeadlineExceeded", AT_BARRIER, (*STEPS[:1], *["Lock 7 not acquired, waiting 0.05 s"] * 9), AT_BARRIER), "if it hung, see what Worker-1 waited for: while it runs"),
    scenario("stalled by a thread that has ended", "StorageFailed", "Worker-1", "Errno 116", "; PyTorchJob demo has reported").of(stalled(worker_0=STEPS, worker_1=DIED)),
    # what is in the answer, too
    scenario("nodes that are avoided", "SIGKILL").of(found({"Worker-0": lambda pod: pod.failed(137), "Worker-1": lambda pod: pod.failed(1)}, policy="OnFailure", run_policy={"nodeLossSeconds": 30}), "new pods avoid node node-1: 2 pods failed or were lost there"),
    scenario("a pod that may run twice", "NodeDoesNotAnswer").of(found({"Worker-0": running, "Worker-1": stuck_on}, run_policy={"nodeLossSeconds": 30}), "kubectl annotate pod demo-worker-1 kueue.x-k8s.io/safe-to-forcefully-delete=true"),
    scenario("what restarted a job that runs again", "Running").of(on_record(both_running(), restarts=2, lastRestartCause="Worker-1: RuntimeError: cudnn handle lost"), "last restarted because Worker-1: RuntimeError: cudnn handle lost"),
    scenario("a deletion whose events are gone", "Deleted", "Worker-1").of(on_record(replace(deleted_peer(), events=()), lastRestartCause="Worker-1: Deleted on node node-2", lastRestartTime=format_time(NOW - 22))),
    *(scenario(f"what follows a failure under {policy}", "ProgramFailed").of(then(found({"Worker-0": running, "Worker-1": running}, policy=policy), {"Worker-1": lambda pod: pod.failed(1, at=NOW - 1)}), follows) for policy, follows in (("Never", "the job fails"), ("OnFailure", "the operator replaces the pod"))),
    scenario("a log that is gone", "ProgramFailed", "terminationMessagePolicy: File").of(removed(failed(1, run_policy={"cleanPodPolicy": "All"})), "; cleanPodPolicy: Running", "the log of demo-worker-1 is gone; the status keeps exit code 1, its node node-1"),
    scenario("a log that is gone, of which the message is left", "ProgramFailed", "shard 7 is empty").of(removed(failed(1, message="shard 7 is empty")), "the log of demo-worker-1 is gone; the status keeps exit code 1, its node node-1, the message"),
    scenario("a job that restarts while its new pods start", "PythonException", "Worker-0", now=NOW).of(attempts(("Worker-0", 255, EMPTY), restartScope="Job", backoffLimit=2)[0], "Worker-0, Worker-1: is being scheduled; 1 failed runs so far, 3 end the job (backoffLimit 2)"),
    scenario("a job that runs outside its queue", "Running", ": add kubeflow.org/pytorchjob to integrations.frameworks of Kueue's configuration, or annotate").of(both_running(labels={"kueue.x-k8s.io/queue-name": "team"}), "it runs outside its queue and all quota: the label "),
    scenario("torchrun alone, while it runs", "Running").of(both_running(**NO_RENDEZVOUS), "torchrun has no rendezvous"),
    scenario("scaled in vain", "Running").of(both_running(events=SCALED), SCALED[0]["message"]),
    scenario("no room, and a node that comes", "InsufficientResources").of(found({"Worker-0": running, "Worker-1": lambda pod: pod.unschedulable("0/3 nodes are available: 3 Insufficient cpu.")}, events=[event("uid-demo-worker-1", "TriggeredScaleUp", "pod triggered scale-up: [{gpu 2->3 (max: 5)}]", warning=False)]), "the cluster autoscaler adds a node: pod triggered scale-up: [{gpu 2->3 (max: 5)}]"),
)  # fmt: skip
