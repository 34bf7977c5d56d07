"""The table: what is done to a job, and how it and its pods must come out of it, on every cluster alike.

How a pod ended reads: phase, reason, exit code, reason of DisruptionTarget, and ``x2`` when its container ran twice in place.
Of every name the pods stand in order of their creation. Every container ends with the exit code that an
annotation of its pod names.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from jobcommon.api.labels import JOB_LABELS
from jobcommon.api.pod import STOPPING_TAG
from jobcommon.framework import Framework
from jobcommon.operators.jax import JAX
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.paddle import PADDLE
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.operators.xgboost import XGBOOST
from jobcommon.testutil.builders import Manifest, job_manifest, replica_spec
from jobcommon.testutil.real import steps as do
from jobcommon.testutil.real.containers import NODE
from jobcommon.testutil.real.run import IMAGE, JOB, NAMESPACE
from jobcommon.testutil.real.steps import Step

HOLD = "jobcommon.test/hold"
EVICTED = "EvictionByEvictionAPI"
#: The label of a node, with a name of the row: rows share the nodes.
OFFER = f"jobcommon.test/offers-{NAMESPACE}"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
ELECTED = ("--leader-elect", "--lease-name", "training-operators")
GATED: Manifest = {"schedulingGates": [{"name": "jobcommon.test/gate"}]}
#: The n-th run in a pod waits for the n-th line of the annotation. Only `sleep` is a process: many rows run at once.
SCRIPT = """
trap "$ON_TERM" TERM
n=0; [ -e /keep/n ] && read -r n < /keep/n; n=$((n + 1)); echo $n > /keep/n
echo "run $n of ${WORLD_SIZE:-}${RANK:+, rank $RANK}"
code=
while [ -z "$code" ]; do
  i=0
  while read -r line; do i=$((i + 1)); [ $i = $n ] && code=$line; done < /podinfo/ends
  [ -n "$code" ] || sleep 0.2
done
echo "run $n ends with $code"
exit "$code"
"""
UNTIL_TERM = "trap 'exit {}' TERM; while :; do sleep 0.2; done"
MOUNTS = ({"name": "podinfo", "mountPath": "/podinfo"}, {"name": "keep", "mountPath": "/keep"})
_ENDS = {"path": "ends", "fieldRef": {"fieldPath": f"metadata.annotations['{do.ENDS}']"}}
VOLUMES = ({"name": "podinfo", "downwardAPI": {"items": [_ENDS]}}, {"name": "keep", "emptyDir": {}})


def container(name: str, on_term: str = "exit 143", **fields: Any) -> Manifest:
    """A container that ends with the code of its annotation, and at SIGTERM as `on_term` says; "" ignores it."""
    env = [{"name": "ON_TERM", "value": on_term}]
    # It counts as started once its trap is set.
    probe = {"exec": {"command": ["test", "-e", "/keep/n"]}, "periodSeconds": 1, "failureThreshold": 60, "timeoutSeconds": 10}
    what = {"name": name, "image": IMAGE, "command": ["sh", "-c", SCRIPT], "startupProbe": probe}
    log = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    return {**what, "env": env, "volumeMounts": list(MOUNTS), **log, **fields}


def script(name: str, text: str, **fields: Any) -> Manifest:
    """A container that runs a script of its own."""
    return {"name": name, "image": IMAGE, "command": ["sh", "-c", text], "volumeMounts": [MOUNTS[1]], **fields}


def pod_spec(main: Manifest, *others: Manifest, grace: int = 10, **fields: Any) -> Manifest:
    """The spec of a pod with these containers."""
    common = {"terminationGracePeriodSeconds": grace, "volumes": list(VOLUMES), "automountServiceAccountToken": False}
    return {**common, "containers": [main, *others], **fields}


@dataclass(frozen=True)
class Kind:
    """A kind as rows use it: its replicas, the pod that decides on success and another one."""

    name: str
    framework: Framework
    replicas: Mapping[str, int]
    leads: str
    helps: str
    version: str = ""
    spec: Mapping[str, Any] = field(default_factory=dict)

    @property
    def fails(self) -> str:
        """A pod whose failure the job does not get over: a launcher is retried within backoffLimit, as a batch Job's pod is."""
        return self.helps if self.framework is MPI else self.leads

    @property
    def finish(self) -> tuple[Step, ...]:
        """Let the job succeed."""
        pods = (self.leads,) if self.framework is MPI else (self.helps, self.leads)
        return tuple(step for pod in pods for step in (do.end(0, pod), do.done(pod)))

    def ends(self, *helps: str, leads: tuple[str, ...] = ()) -> Mapping[str, tuple[str, ...]]:
        """How the pods end: those given first, and each name's last as in a success."""
        last = "Failed 143" if self.framework is MPI else "Succeeded 0"
        return {self.leads: (*leads, "Succeeded 0"), self.helps: (*helps, last)}

    def job(
        self, policy: str | None = None, *others: Manifest, main: Manifest | None = None, on_term: str = "exit 143",
        replicas: Mapping[str, int] | None = None, pod: Mapping[str, Any] | None = None, **run_policy: Any,
    ) -> Manifest:  # fmt: skip
        """A job of this kind whose replicas all have that restart policy."""
        first = {**container(self.framework.container or "main", on_term), **(main or {})}
        template = {"spec": pod_spec(first, *others, **(pod or {}))}
        counts = (replicas or self.replicas).items()
        specs = {name: replica_spec(self.framework, count, policy, template=template) for name, count in counts}
        made = job_manifest(self.framework, specs, run_policy=run_policy, **self.spec)
        version = self.version or self.framework.storage_version
        return {**made, "apiVersion": f"{self.framework.group}/{version}", "metadata": {"name": JOB}}


TFJOB = Kind("TFJob", TF, {"Worker": 2}, "worker-0", "worker-1")
PYTORCHJOB = Kind("PyTorchJob", PYTORCH, {"Master": 1, "Worker": 1}, "master-0", "worker-0")
MPIJOB = Kind("MPIJob v2beta1", MPI, {"Launcher": 1, "Worker": 1}, "launcher", "worker-0")
MPIJOB_V1 = Kind("MPIJob v1", MPI, MPIJOB.replicas, "launcher", "worker-0", "v1", {"transport": "SSH"})
MXJOB = Kind("MXJob", MXNET, {"Scheduler": 1, "Worker": 1}, "scheduler-0", "worker-0", spec={"jobMode": "MXTrain"})
JAXJOB = Kind("JAXJob", JAX, {"Worker": 2}, "worker-0", "worker-1")
XGBOOSTJOB = Kind("XGBoostJob", XGBOOST, PYTORCHJOB.replicas, "master-0", "worker-0")
PADDLEJOB = Kind("PaddleJob", PADDLE, PYTORCHJOB.replicas, "master-0", "worker-0")
KINDS = (TFJOB, PYTORCHJOB, MPIJOB, MPIJOB_V1, MXJOB, JAXJOB, XGBOOSTJOB, PADDLEJOB)
SUCCEEDED, FAILED, SUSPENDED = "Succeeded", "Failed", "Suspended"
IN_PLACE: Mapping[str, Any] = {"restartScope": "Job", "restartMethod": "Auto"}


@dataclass(frozen=True)
class Row:
    """One row: `job` is created, by an operator with the arguments `operator` (None: without one), and the steps taken.

    `state` is the job's last condition at the end, "" for a row without a job or whose job is gone; `reason` that condition's;
    `events` are reasons of events that there must be; `order` what was seen of the first pod of a name. `alone`: it disturbs
    other rows; `killed`: it needs containers, and parts of the cluster that can be killed.
    """

    name: str
    steps: tuple[Step, ...]
    job: Manifest | None = field(default_factory=PYTORCHJOB.job)
    kind: Kind = PYTORCHJOB
    state: str = SUCCEEDED
    pods: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    restarts: int = 0
    disruptions: int = 0
    reason: str = ""
    events: tuple[str, ...] = ()
    order: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    operator: tuple[str, ...] | None = ()
    alone: bool = False
    killed: bool = False


# fmt: off
def lifecycles(kind: Kind) -> Iterator[Row]:
    """What every kind goes through."""
    leads, helps = kind.leads, kind.helps

    def row(name: str, policy: str, *steps: Step, **expected: Any) -> Row:
        return Row(f"{kind.name}: {name}", (do.run(leads, helps), *steps), kind.job(policy), kind, **expected)

    succeeded, suffix = kind.ends(), kind.framework.kind
    stopped = {leads: ("Failed 143",), helps: ("Failed 143",)}
    failed: Mapping[str, Any] = {"state": FAILED, "pods": {**stopped, kind.fails: ("Failed 3",)}, "reason": f"{suffix}Failed"}
    yield row("success", "Never", *kind.finish, pods=succeeded, events=(f"{suffix}Succeeded", "SuccessfulCreatePod"))
    yield row("failure under Never", "Never", do.end(3, kind.fails), **failed)
    yield row("permanent failure under ExitCode", "ExitCode", do.end(3, kind.fails), **failed)
    yield row("retryable failure under ExitCode", "ExitCode", do.end(137, helps), do.replaced(helps), *kind.finish,
        pods=kind.ends("Failed 137"), restarts=1, events=(f"{suffix}Restarting",))
    yield row("failure under OnFailure", "OnFailure", do.end(3, leads), do.restarted(leads), *kind.finish,
        pods={**succeeded, leads: ("Succeeded 0 x2",)}, restarts=1)
    yield row("kubectl delete pod", "Never", do.delete(helps), do.replaced(helps), *kind.finish,
        pods=kind.ends("Failed 143"), disruptions=1)
    yield row("eviction", "OnFailure", do.evict(helps), do.replaced(helps), *kind.finish,
        pods=kind.ends(f"Failed 143 {EVICTED}"), disruptions=1)
    yield row("suspension and resume", "OnFailure", do.suspend(), do.over(leads, helps), do.becomes(SUSPENDED),
        do.suspend(False), do.replaced(leads, helps), *kind.finish,
        pods=kind.ends("Failed 143", leads=("Failed 143",)), events=(f"{suffix}Suspended", f"{suffix}Resumed"))


M, W = "master-0", "worker-0"
BOTH, FINISH, ends = do.run(M, W), PYTORCHJOB.finish, PYTORCHJOB.ends


def scale(workers: int) -> Step:
    return do.kubectl("scale", f"pytorchjob/{JOB}", f"--replicas={workers}")


def delete_job(cascade: str) -> Step:
    return do.kubectl("delete", "pytorchjob", JOB, f"--cascade={cascade}")


def suspensions() -> Iterator[Row]:
    """Pods that a suspension stops are no failures, whatever they answer SIGTERM with and whenever the operator sees it."""
    codes = (("Never", 143), ("Never", 1), ("ExitCode", 1), ("ExitCode", 143), ("OnFailure", 143))
    for (how, code), operator in product(codes, ("up", "down")):
        middle = (do.over(M, W),) if operator == "up" else (do.operator_dies(), do.over(M, W), do.operator_starts())
        yield Row(f"suspension under {how}, pods exit with {code}, operator {operator}",
            (BOTH, do.suspend(), do.ending(M, W), *middle, do.becomes(SUSPENDED), do.suspend(False), do.replaced(M, W),
                *FINISH),
            PYTORCHJOB.job(how, on_term=f"sleep 3; exit {code}", backoffLimit=1),
            pods=ends(f"Failed {code}", leads=(f"Failed {code}",)))
    late = script("late", "trap 'sleep 3; exit 143' TERM; while :; do sleep 0.2; done")
    yield Row("suspension, a second container ends later",
        (BOTH, do.suspend(), do.over(M, W), do.becomes(SUSPENDED), do.suspend(False), do.replaced(M, W),
            do.delete(M, W), do.over(M, W), BOTH, do.suspend(), do.over(M, W), do.becomes(SUSPENDED)),
        PYTORCHJOB.job("Never", late), state=SUSPENDED, pods=dict.fromkeys((M, W), ("Failed 143",) * 3), disruptions=2)


def deletions() -> Iterator[Row]:
    """Pods that others delete are disruptions under every policy."""
    # As for a quarantine.
    unlabelled = do.kubectl("label", "pod", f"{JOB}-{W}", *(f"{label}-" for label in JOB_LABELS))
    for how, operator in product(("Never", "ExitCode", "OnFailure"), ("up", "down")):
        asked: tuple[Step, ...] = (do.delete(W), do.ending(W))
        if operator == "down":
            asked = (do.operator_dies(), *asked, do.over(W), do.operator_starts())
        yield Row(f"kubectl delete pod under {how}, operator {operator}", (BOTH, *asked, do.replaced(W), *FINISH),
            PYTORCHJOB.job(how, on_term="sleep 2; exit 1"), pods=ends("Failed 1"), disruptions=1)
    yield Row("kubectl delete pod, SIGTERM ignored", (BOTH, do.delete(W), do.replaced(W), *FINISH),
        PYTORCHJOB.job("Never", on_term="", pod={"grace": 2}), pods=ends("Failed 137"), disruptions=1)
    yield Row("an evicted MPI worker that exits with 0",
        (do.run("launcher", W), do.evict(W), do.replaced(W), *MPIJOB.finish), MPIJOB.job(on_term="exit 0"), MPIJOB,
        pods={"launcher": ("Succeeded 0",), W: (f"Succeeded 0 {EVICTED}", "Succeeded 0")}, disruptions=1)
    yield Row("a pod's activeDeadlineSeconds, answered with exit 0", (),
        TFJOB.job("Never", on_term="exit 0", replicas={"Worker": 1}, pod={"activeDeadlineSeconds": 3}), TFJOB,
        state=FAILED, pods={W: ("Failed DeadlineExceeded 0",)}, reason="TFJobFailed")
    stopped: Mapping[str, Any] = {"state": "", "pods": dict.fromkeys((M, W), ("Failed 143",))}
    for propagation in ("Background", "Foreground"):
        yield Row(f"the job is deleted, {propagation}", (BOTH, delete_job(propagation.lower())), **stopped)
    yield Row("the job is deleted, Orphan, operator down",
        (BOTH, do.operator_dies(), delete_job("orphan"), do.operator_starts(), do.freed(M, W)),
        state="", pods=dict.fromkeys((M, W), ("Running",)))
    yield Row("the namespace is deleted", (BOTH, do.delete_namespace()), **stopped)
    yield Row("a pod loses its labels",
        (BOTH, unlabelled, do.freed(W), do.delete(W), do.replaced(W), *FINISH), pods=ends("Failed 143"))
    yield Row("a pod loses its labels, operator down",
        (BOTH, do.operator_dies(), unlabelled, do.operator_starts(), do.freed(W), delete_job("foreground")),
        **stopped)
    yield Row("the namespace is deleted together with its operator",
        (BOTH, do.namespace_ends_with_its_operator(M, W)), **stopped)


def restarts() -> Iterator[Row]:
    """What counts, and what does not."""
    sidecar = script("side", f"[ -e /keep/s ] || {{ : > /keep/s; exit 1; }}; {UNTIL_TERM.format(0)}", restartPolicy="Always")
    yield Row("a native sidecar restarts", (BOTH, *FINISH),
        PYTORCHJOB.job("Never", pod={"initContainers": [sidecar]}, backoffLimit=0), pods=ends())
    yield Row("the main container failed, another one lives", (BOTH, do.end(3, M)),
        PYTORCHJOB.job("Never", script("other", UNTIL_TERM.format(0))), state=FAILED, reason="PyTorchJobFailed")
    grows = f"[ $(hostname) = job-worker-1 ] && exec tail /dev/zero; {UNTIL_TERM.format(143)}"
    hog = {"command": ["sh", "-c", grows], "startupProbe": None, "resources": {"limits": {"memory": "16Mi"}}}
    yield Row("out of memory", (), TFJOB.job("ExitCode", main=hog, backoffLimit=0), TFJOB, state=FAILED,
        pods={W: ("Failed 143",), "worker-1": ("Failed OOMKilled 137",)}, reason="BackoffLimitExceeded", killed=True)
    large = {"resources": {"requests": {"cpu": "1200m"}}}
    yield Row("preempted by the scheduler", (do.run(W), do.preempted(W), do.replaced(W), do.end(0, W)),
        TFJOB.job("OnFailure", replicas={"Worker": 1}, main=large), TFJOB,
        pods={W: ("Failed 143 PreemptionByScheduler", "Succeeded 0")}, disruptions=1, killed=True)


def in_place() -> Iterator[Row]:
    """A failure restarts all replicas in their pods, also when the operator is killed meanwhile."""
    again = (do.restarted(M), BOTH, do.kept(M, W), do.end(0, M))
    fails = do.end(137, W)
    for how, operator in product(("OnFailure", "ExitCode"), ("up", "down")):
        steps = (fails,) if operator == "up" else (do.operator_dies(), fails, do.restarted(W), do.operator_starts())
        yield Row(f"restarted in place under {how}, operator {operator}", (BOTH, *steps, *again),
            PYTORCHJOB.job(how, **IN_PLACE), restarts=1)
    moments = {2: do.recorded(2, W, 137), 3: do.image_set(f"{STOPPING_TAG}3", M), 4: do.image_set(":attempt-4@", M)}
    five: list[Step] = [BOTH]
    for number in range(1, 6):
        five.append(fails)
        if moment := moments.get(number):
            five += [moment, do.operator_dies(), do.operator_starts()]
        five += [do.recorded(number, W, 137), do.attempt_runs(number, M, W), do.kept(M, W)]
    yield Row("restarted in place five times, the operator killed during three", (*five, do.end(0, M)),
        PYTORCHJOB.job("OnFailure", **IN_PLACE), restarts=5)
    ends_well = PYTORCHJOB.job("OnFailure", **IN_PLACE)
    template = PYTORCHJOB.job(on_term="exit 0")["spec"]["pytorchReplicaSpecs"]["Master"]["template"]
    ends_well["spec"]["pytorchReplicaSpecs"]["Master"]["template"] = template
    yield Row("restarted in place, a replica ends with 0 when it is stopped",
        (BOTH, fails, do.replaced(M), do.kept(W), do.end(0, M)), ends_well, restarts=1)


def resizes() -> Iterator[Row]:
    """Another number of replicas: those that stay keep their pods, and read the new world when they start again."""
    four = (M, W, "worker-1", "worker-2")
    yield Row("resized in place from 2 to 4 to 3",
        (BOTH, do.reads(2, M, W), scale(3), do.attempt_runs(1, M, W), do.run(*four), do.reads(4, *four),
            do.kept(*four), scale(2), do.attempt_runs(2, M, W), do.reads(3, *four[:3]), do.kept(*four[:3]),
            do.over("worker-2"), do.end(0, M)),
        PYTORCHJOB.job("OnFailure", **IN_PLACE), events=("PyTorchJobRestarting",))
    yield Row("elastic: grows in place by a spare pod, once this has a node",
        (BOTH, do.reads(2, M, W), scale(2), do.ungated("worker-1"), do.attempt_runs(1, M, W),
            do.reads(3, *four[:3]), do.kept(*four[:3]), do.end(0, M)),
        _with_override(PYTORCHJOB.job("OnFailure", **IN_PLACE, elastic={}), GATED), events=("PyTorchJobRestarting",))
    yield _losing_a_node("Auto", "OnFailure")
    other = script("other", "while [ ! -s /podinfo/ends ]; do sleep 0.2; done", volumeMounts=list(MOUNTS))
    yield _losing_a_node("Recreate", "Never", other)


def _with_override(job: Manifest, spec: Manifest) -> Manifest:
    """Pods of the second worker are different."""
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["overrides"] = [{"indices": [1], "template": {"spec": spec}}]
    return job


def _losing_a_node(method: str, restart: str, *others: Manifest) -> Row:
    """The only node that suits Worker-1 is lost: the others train on as ranks 0 to 3 until it is back."""
    pods = (M, *(f"worker-{index}" for index in range(4)))
    rest = tuple(pod for pod in pods if pod != "worker-1")
    there, gone = (do.kubectl("label", "nodes", "--all", "--overwrite", f"{OFFER}{how}") for how in ("=yes", "-"))
    job = PYTORCHJOB.job(restart, *others, replicas={"Master": 1, "Worker": 4}, restartScope="Job", restartMethod=method,
        elastic={"shrinkAfterSeconds": 600, "growAfterSeconds": 20}, pod={"initContainers": [script("first", "exit 0")]})
    # A pod that a busy machine sets up slowly is no loss: the job may shrink once only that of Worker-1 is missing.
    patient, hasty = (do.patch({"runPolicy": {"elastic": {"shrinkAfterSeconds": seconds}}}) for seconds in (600, 1))
    stay = (do.kept(*rest),) if method == "Auto" else ()
    return Row(f"elastic: the node of a worker in the middle is lost, and comes back, {method} under {restart}",
        (there, do.run(*pods), do.reads(5, *pods), gone, do.evict("worker-1"), do.set_up(*rest), hasty,
            do.reads(4, *rest), *stay, patient, there, do.run(*pods), do.reads(5, *pods), *stay, do.end(0, M)),
        _with_override(job, {"nodeSelector": {OFFER: "yes"}}),
        disruptions=1, events=("PyTorchJobRestarting",))


def losses() -> Iterator[Row]:
    """A refusal of the platform is waited out; operators, API servers, kubelets and nodes are lost."""
    yield Row("a quota, at a replacement",
        (BOTH, do.quota(1), do.delete(W), do.refused(), do.quota(0), do.replaced(W), *FINISH), PYTORCHJOB.job("Never"),
        pods=ends("Failed 143"), disruptions=1, events=("FailedCreatePod",))
    failing = PYTORCHJOB.job("ExitCode")
    failed: Mapping[str, Any] = {"pods": ends("Failed 137"), "restarts": 1}
    fails = (do.end(137, W), do.replaced(W), *FINISH)
    yield Row("kill -9 of the operator, a pod fails meanwhile",
        (BOTH, do.operator_dies(), do.end(137, W), do.done(W), do.operator_starts(), do.replaced(W), *FINISH), failing,
        **failed)
    yield Row("kill -9 of the operator, the job succeeds meanwhile",
        (BOTH, do.operator_dies(), *FINISH, do.operator_starts()), pods=ends())
    yield Row("kill -9 of the API server", (BOTH, do.server_dies(), *fails), failing, **failed, alone=True, killed=True)
    yield Row("kill -9 of the operator that leads", (do.operator_starts(*ELECTED), BOTH, do.operator_dies(0), *fails), failing,
        **failed, operator=ELECTED, alone=True)
    lost: Mapping[str, Any] = {"disruptions": 2, "alone": True, "killed": True}

    def each(end: str) -> Mapping[str, tuple[str, ...]]:
        return ends(end, leads=(end,))

    back = (do.node_returns(), do.replaced(M, W), *FINISH)
    yield Row("the kubelet dies and comes back after the pods' eviction", (BOTH, do.node_dies(), do.ending(M, W), *back),
        PYTORCHJOB.job("OnFailure"), pods=each("Failed 143 DeletionByTaintManager"), **lost)
    yield Row("the node is lost and out of service",
        (BOTH, do.node_dies(), do.ending(M, W), do.kubectl("taint", "node", NODE, OUT_OF_SERVICE), do.over(M, W),
            do.kubectl("taint", "node", NODE, f"{OUT_OF_SERVICE}-"), *back),
        PYTORCHJOB.job("OnFailure", nodeLossSeconds=5), pods=each("Failed DeletionByTaintManager"), **lost)
    yield Row("the node is lost and deleted", (BOTH, do.node_dies(), do.kubectl("delete", "node", NODE), do.over(M, W), *back),
        PYTORCHJOB.job("OnFailure"), pods=each("Failed DeletionByPodGC"), **lost)


def pods() -> Iterator[Row]:
    """Pods alone, without a job: what a kubelet and an API server show of them. The simulator's models rest on these."""
    started = ("Pending", "Running")
    stopped = (*started, "Running, deleting", "Failed, deleting", "Failed, over")

    def row(name: str, steps: tuple[Step, ...], shown: str, order: tuple[str, ...], *, on_term: str = "exit 143",
            alone: bool = False, killed: bool = False, **spec: Any) -> Row:
        # A finalizer keeps it, as ours do.
        body = {"metadata": {"name": f"{JOB}-p", "finalizers": [HOLD]},
            "spec": {**pod_spec(container("main", on_term)), "restartPolicy": "Never", **spec}}
        return Row(f"pod: {name}", (do.make("pods", body), *steps), None, state="", operator=None, pods={"p": (shown,)},
            order={"p": order} if order else {}, alone=alone, killed=killed)

    deleted, ended = (do.run("p"), do.delete("p"), do.over("p")), (do.end(0, "p"), do.done("p"))
    again = (do.end(3, "p"), do.restarted("p"), *ended)
    yield row("succeeds", (do.run("p"), *ended), "Succeeded 0", (*started, "Succeeded"))
    yield row("fails", (do.run("p"), do.end(3, "p"), do.done("p")), "Failed 3", (*started, "Failed"))
    yield row("deleted while it runs", deleted, "Failed 143", stopped)
    yield row("deleted while it runs, exits with 0", deleted, "Succeeded 0",
        (*started, "Running, deleting", "Succeeded, deleting", "Succeeded, over"), on_term="exit 0")
    yield row("deleted while it runs, SIGTERM ignored", deleted, "Failed 137", stopped, on_term="",
        terminationGracePeriodSeconds=2)
    yield row("deleted while it runs, is not restarted", deleted, "Failed 143", stopped, restartPolicy="Always")
    yield row("deleted after its end", (do.run("p"), *ended, do.delete("p"), do.over("p")), "Succeeded 0",
        (*started, "Succeeded", "Succeeded, over"))
    yield row("deleted before it is scheduled", (do.delete("p"), do.over("p")), "Pending", ("Pending", "Pending, over"),
        **GATED)
    yield row("evicted while it runs", (do.run("p"), do.evict("p"), do.over("p")), f"Failed 143 {EVICTED}", stopped)
    yield row("restarted in place", (do.run("p"), *again), "Succeeded 0 x2", (*started, "Succeeded"), restartPolicy="OnFailure")
    annotation, text = "jobcommon.test/value", 'echo "$VALUE, $0"; ' + SCRIPT
    value = {"name": "VALUE", "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{annotation}']"}}}
    yield row("a variable from an annotation, as each start finds it",
        (do.run("p"), do.kubectl("annotate", "pod", f"{JOB}-p", f"{annotation}=2"), *again,
            do.logs("p", "2, 2\nrun 2 of \nrun 2 ends with 0")),
        "Succeeded 0 x2", (), restartPolicy="OnFailure",
        containers=[container("main", command=["sh", "-c", text, "$(VALUE)"], env=[value])])
    yield row("an image that cannot be parsed, until another one is given",
        (do.pending("p"), do.kubectl("set", "image", f"pod/{JOB}-p", f"main={IMAGE}"), do.run("p"), *ended), "Succeeded 0",
        (*started, "Succeeded"), containers=[container("main", image=f"{IMAGE}:1{STOPPING_TAG}0")])
    yield row("activeDeadlineSeconds passes", (do.done("p"),), "Failed DeadlineExceeded 143", (*started, "Failed"),
        activeDeadlineSeconds=3)
    yield row("an init container fails", (do.done("p"),), "Failed", ("Pending", "Failed"),
        initContainers=[script("first", "exit 4")])
    secret = do.make("secrets", {"metadata": {"name": "s"}})
    yield row("waits for its Secret", (do.pending("p"), secret, do.run("p")), "Running", started,
        containers=[container("main", volumeMounts=[*MOUNTS, {"name": "s", "mountPath": "/s"}])],
        volumes=[*VOLUMES, {"name": "s", "secret": {"secretName": "s"}}])
    yield row("its log before it is scheduled", (do.logs("p", ""), do.delete("p"), do.over("p")), "Pending", (), **GATED)
    waits = 'container "main" in pod "job-p" is waiting to start: PodInitializing'
    first = script("first", "echo begun; while [ ! -s /podinfo/ends ]; do sleep 0.2; done", volumeMounts=list(MOUNTS))
    yield row("its log before it starts and after its end",
        (do.pending("p"), do.logs("p", f"400: {waits}"), *ended, do.logs("p", "main"), do.logs("p", "begun", "first")),
        "Succeeded 0", (), initContainers=[first], containers=[script("main", "echo main")])
    yield row("evicted by its kubelet, its node low on memory",
        (do.run("p"), do.node_pressure(True), do.done("p"), do.node_pressure(False)), "Failed Evicted 137 TerminationByKubelet",
        (*started, "Failed"), containers=[container("main", on_term="", resources={"requests": {"memory": "1Mi"}})],
        alone=True, killed=True)
    yield row("evicted by its kubelet, beyond its own limit", (do.done("p"),), "Failed Evicted 137", (*started, "Failed"),
        killed=True, containers=[script("main", "head -c 3000000 /dev/zero > /keep/x; while :; do sleep 1; done")],
        volumes=[{"name": "keep", "emptyDir": {"sizeLimit": "1Mi"}}])
    yield row("a container out of memory", (do.done("p"),), "Failed OOMKilled 137", (*started, "Failed"), killed=True,
        containers=[script("main", "exec tail /dev/zero", resources={"limits": {"memory": "16Mi"}})])


# fmt: on
ROWS = (
    *(row for kind in KINDS for row in lifecycles(kind)),
    *suspensions(),
    *deletions(),
    *restarts(),
    *in_place(),
    *resizes(),
    *losses(),
    *pods(),
)  # fmt: skip
