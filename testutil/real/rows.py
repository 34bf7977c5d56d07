"""The table: what is done to a job, and how it and its pods must come out of it, on every cluster alike."""

from collections.abc import Iterator
from itertools import product
from typing import Any

from jobcommon.api.pod import STOPPING_TAG
from jobcommon.testutil.real.cluster import CONTAINERS, SCHEDULER
from jobcommon.testutil.real.disturbances import (
    OFFER,
    leader_dies,
    namespace_ends,
    node_dies,
    node_is_deleted,
    node_is_out_of_service,
    node_offers,
    node_pressure,
    node_returns,
    operator_dies,
    operator_is_told_to_end,
    operator_starts,
    preemptor_comes,
    preemptor_goes,
    quota,
    refused,
    released_by_command,
    server_dies,
)
from jobcommon.testutil.real.manifests import (
    KINDS,
    MOUNTS,
    MPIJOB,
    PYTORCHJOB,
    SCRIPT,
    TFJOB,
    VOLUMES,
    Kind,
    Manifest,
    container,
    held_pod,
    script,
)
from jobcommon.testutil.real.run import IMAGE
from jobcommon.testutil.real.steps import (
    Step,
    annotated,
    attempt_runs,
    becomes,
    delete,
    delete_job,
    delete_namespace,
    done,
    end,
    ending,
    evict,
    freed,
    image_given,
    image_set,
    kept,
    logs,
    make,
    make_pod,
    namespace_is_gone,
    over,
    pending,
    reads,
    recorded,
    replaced,
    restarted,
    resume,
    run,
    scale,
    suspend,
    ungated,
    unlabelled,
)
from jobcommon.testutil.real.table import ELECTED, EVICTED, FAILED, SUSPENDED, Expected, Row


# fmt: off
def lifecycles(kind: Kind) -> Iterator[Row]:
    """What every kind goes through."""
    leads, helps = kind.leads, kind.helps
    both = run(leads, helps)

    def row(name: str, policy: str, steps: tuple[Step, ...], expected: Expected) -> Row:
        return Row(f"{kind.name}: {name}", (both, *steps), expected, kind.job(policy), kind)

    succeeded, suffix = kind.ends(), kind.framework.kind
    failed = {leads: ("Failed 143",), helps: ("Failed 143",), kind.fails: ("Failed 3",)}
    yield row("success", "Never", kind.finish, Expected(pods=succeeded, events=(f"{suffix}Succeeded", "SuccessfulCreatePod")))
    yield row("failure under Never", "Never", (end(3, kind.fails),), Expected(FAILED, failed, reason=f"{suffix}Failed"))
    yield row(
        "permanent failure under ExitCode", "ExitCode", (end(3, kind.fails),),
        Expected(FAILED, failed, reason=f"{suffix}Failed"),
    )
    yield row(
        "retryable failure under ExitCode", "ExitCode", (end(137, helps), replaced(helps), *kind.finish),
        Expected(pods=kind.ends("Failed 137"), restarts=1, events=(f"{suffix}Restarting",)),
    )
    in_place = {**succeeded, leads: ("Succeeded 0 x2",)}
    yield row(
        "failure under OnFailure", "OnFailure", (end(3, leads), restarted(leads), *kind.finish),
        Expected(pods=in_place, restarts=1),
    )
    yield row(
        "kubectl delete pod", "Never", (delete(helps), replaced(helps), *kind.finish),
        Expected(pods=kind.ends("Failed 143"), disruptions=1),
    )
    yield row(
        "eviction", "OnFailure", (evict(helps), replaced(helps), *kind.finish),
        Expected(pods=kind.ends(f"Failed 143 {EVICTED}"), disruptions=1),
    )
    yield row(
        "suspension and resume", "OnFailure",
        (suspend(), over(leads, helps), becomes(SUSPENDED), resume(), replaced(leads, helps), *kind.finish),
        Expected(pods=kind.ends("Failed 143", leads=("Failed 143",)), events=(f"{suffix}Suspended", f"{suffix}Resumed")),
    )


def suspensions() -> Iterator[Row]:
    """Pods that a suspension stops are no failures, whatever they answer SIGTERM with and whenever the operator sees it."""
    stopped = (suspend(), ending("master-0", "worker-0"))
    resumed = (becomes(SUSPENDED), resume(), replaced("master-0", "worker-0"), *PYTORCHJOB.finish)
    for (how, code), operator in product((("Never", 143), ("Never", 1), ("ExitCode", 1), ("ExitCode", 143), ("OnFailure", 143)),
            ("up", "down")):
        wait = (over("master-0", "worker-0"),)
        middle = wait if operator == "up" else (operator_dies(), *wait, operator_starts())
        ended = f"Failed {code}"
        yield Row(
            f"suspension under {how}, pods exit with {code}, operator {operator}",
            (run("master-0", "worker-0"), *stopped, *middle, *resumed),
            Expected(pods=PYTORCHJOB.ends(ended, leads=(ended,))),
            PYTORCHJOB.job(how, on_term=f"sleep 3; exit {code}", run_policy={"backoffLimit": 1}),
        )
    yield Row(
        "suspension, a second container ends later",
        (run("master-0", "worker-0"), *stopped, over("master-0", "worker-0"), *resumed[:2], replaced("master-0", "worker-0"),
            delete("master-0", "worker-0"), replaced("master-0", "worker-0", times=2), suspend(), over("master-0", "worker-0"),
            becomes(SUSPENDED)),
        Expected(SUSPENDED, dict.fromkeys(("master-0", "worker-0"), ("Failed 143",) * 3), disruptions=2),
        PYTORCHJOB.job("Never", others=(script("late", "trap 'sleep 3; exit 143' TERM; while :; do sleep 0.2; done"),)),
    )


def deletions() -> Iterator[Row]:
    """Pods that others delete are disruptions under every policy."""
    for how, operator in product(("Never", "ExitCode", "OnFailure"), ("up", "down")):
        asked = (delete("worker-0"), ending("worker-0"))
        middle = () if operator == "up" else (over("worker-0"), operator_starts())
        before = () if operator == "up" else (operator_dies(),)
        yield Row(
            f"kubectl delete pod under {how}, operator {operator}",
            (run("master-0", "worker-0"), *before, *asked, *middle, replaced("worker-0"), *PYTORCHJOB.finish),
            Expected(pods=PYTORCHJOB.ends("Failed 1"), disruptions=1),
            PYTORCHJOB.job(how, on_term="sleep 2; exit 1"),
        )
    stubborn = PYTORCHJOB.job("Never", on_term="", grace=2)
    yield Row(
        "kubectl delete pod, SIGTERM ignored",
        (run("master-0", "worker-0"), delete("worker-0"), replaced("worker-0"), *PYTORCHJOB.finish),
        Expected(pods=PYTORCHJOB.ends("Failed 137"), disruptions=1), stubborn,
    )
    yield Row(
        "an evicted MPI worker that exits with 0",
        (run("launcher", "worker-0"), evict("worker-0"), replaced("worker-0"), *MPIJOB.finish),
        Expected(pods={"launcher": ("Succeeded 0",), "worker-0": (f"Succeeded 0 {EVICTED}", "Succeeded 0")}, disruptions=1),
        MPIJOB.job(on_term="exit 0"), MPIJOB,
    )
    yield Row(
        "a pod's activeDeadlineSeconds, answered with exit 0", (),
        Expected(FAILED, {"worker-0": ("Failed DeadlineExceeded 0",)}, reason="TFJobFailed"),
        TFJOB.job("Never", on_term="exit 0", replicas={"Worker": 1}, activeDeadlineSeconds=3), TFJOB,
    )
    for propagation in ("Background", "Foreground"):
        yield Row(f"the job is deleted, {propagation}", (run("master-0", "worker-0"), delete_job(propagation)),
            Expected("", {"master-0": ("Failed 143",), "worker-0": ("Failed 143",)}), PYTORCHJOB.job())
    yield Row("the job is deleted, Orphan, operator down",
        (run("master-0", "worker-0"), operator_dies(), delete_job("Orphan"), operator_starts(), freed("master-0", "worker-0")),
        Expected("", {"master-0": ("Running",), "worker-0": ("Running",)}), PYTORCHJOB.job())
    stopped = Expected("", {"master-0": ("Failed 143",), "worker-0": ("Failed 143",)})
    yield Row("the namespace is deleted", (run("master-0", "worker-0"), delete_namespace()), stopped, PYTORCHJOB.job())
    yield Row("a pod loses its labels",
        (run("master-0", "worker-0"), unlabelled("worker-0"), freed("worker-0"), delete("worker-0"), replaced("worker-0"),
            *PYTORCHJOB.finish),
        Expected(pods=PYTORCHJOB.ends("Failed 143")), PYTORCHJOB.job())
    yield Row("a pod loses its labels, operator down",
        (run("master-0", "worker-0"), operator_dies(), unlabelled("worker-0"), operator_starts(), freed("worker-0"),
            delete_job("Foreground")), stopped, PYTORCHJOB.job())
    ended = (run("master-0", "worker-0"), namespace_ends(), unlabelled("worker-0"), over("master-0", "worker-0"))
    yield Row("the namespace is deleted together with its operator",
        (*ended, operator_is_told_to_end(), namespace_is_gone()), stopped, PYTORCHJOB.job())
    yield Row("the namespace is deleted, its operator is lost before it releases the pods",
        (*ended, operator_dies(), released_by_command(), namespace_is_gone()), stopped, PYTORCHJOB.job())


def restarts() -> Iterator[Row]:
    """What counts, and what does not."""
    both = run("master-0", "worker-0")
    sidecar = script("side", "[ -e /keep/s ] || { : > /keep/s; exit 1; }; trap 'exit 0' TERM; while :; do sleep 0.2; done",
        restartPolicy="Always")
    yield Row("a native sidecar restarts", (both, *PYTORCHJOB.finish), Expected(pods=PYTORCHJOB.ends()),
        PYTORCHJOB.job("Never", run_policy={"backoffLimit": 0}, initContainers=[sidecar]))
    yield Row("the main container failed, another one lives", (both, end(3, "master-0")),
        Expected(FAILED, reason="PyTorchJobFailed"),
        PYTORCHJOB.job("Never", others=(script("other", "trap 'exit 0' TERM; while :; do sleep 0.2; done"),)))
    grows = "[ $(hostname) = job-worker-1 ] && exec tail /dev/zero; trap 'exit 143' TERM; while :; do sleep 0.2; done"
    hog = {"command": ["sh", "-c", grows], "startupProbe": None,
        "resources": {"limits": {"memory": "16Mi"}}}
    yield Row("out of memory", (), Expected(FAILED, {"worker-0": ("Failed 143",), "worker-1": ("Failed OOMKilled 137",)},
            reason="BackoffLimitExceeded"),
        TFJOB.job("ExitCode", main=hog, run_policy={"backoffLimit": 0}), TFJOB, also_needs=frozenset({CONTAINERS}))
    yield Row("preempted by the scheduler",
        (run("worker-0"), preemptor_comes(), over("worker-0"), preemptor_goes(), replaced("worker-0"), end(0, "worker-0")),
        Expected(pods={"worker-0": ("Failed 143 PreemptionByScheduler", "Succeeded 0")}, disruptions=1),
        TFJOB.job("OnFailure", replicas={"Worker": 1}, main={"resources": {"requests": {"cpu": "1200m"}}}), TFJOB,
        also_needs=frozenset({SCHEDULER}))


def in_place() -> Iterator[Row]:
    """A failure restarts all replicas in their pods, also when the operator is killed meanwhile."""
    pair = ("master-0", "worker-0")
    both = run(*pair)
    again = (restarted("master-0"), both, kept(*pair), end(0, "master-0"))
    policy = {"restartScope": "Job", "restartMethod": "Auto"}
    for how, operator in product(("OnFailure", "ExitCode"), ("up", "down")):
        fails = (end(137, "worker-0"),)
        steps = fails if operator == "up" else (operator_dies(), *fails, restarted("worker-0"), operator_starts())
        yield Row(f"restarted in place under {how}, operator {operator}", (both, *steps, *again), Expected(restarts=1),
            PYTORCHJOB.job(how, run_policy=policy))
    moments = {2: recorded(2, "worker-0", 137), 3: image_set(f"{STOPPING_TAG}3", *pair), 4: image_set(":attempt-4@", *pair)}
    five: list[Step] = [both]
    for number in range(1, 6):
        five.append(end(137, "worker-0"))
        if moment := moments.get(number):
            five += [moment, operator_dies(), operator_starts()]
        five += [recorded(number, "worker-0", 137), attempt_runs(number, *pair), kept(*pair)]
    yield Row("restarted in place five times, the operator killed during three", (*five, end(0, "master-0")),
        Expected(restarts=5), PYTORCHJOB.job("OnFailure", run_policy=policy))
    yield Row("restarted in place, a replica ends with 0 when it is stopped",
        (both, end(137, "worker-0"), replaced("master-0"), kept("worker-0"), end(0, "master-0")), Expected(restarts=1),
        _ends_well(PYTORCHJOB.job("OnFailure", run_policy=policy), PYTORCHJOB.job("OnFailure", on_term="exit 0")))


def resizes() -> Iterator[Row]:
    """Another number of replicas: those that stay keep their pods, and read the new world when they start again."""
    pair, four = ("master-0", "worker-0"), ("master-0", "worker-0", "worker-1", "worker-2")
    policy = {"restartScope": "Job", "restartMethod": "Auto"}
    yield Row("resized in place from 2 to 4 to 3",
        (run(*pair), reads(2, *pair), scale("Worker", 3), attempt_runs(1, *pair), run(*four), reads(4, *four), kept(*four),
            scale("Worker", 2), attempt_runs(2, *pair), reads(3, *four[:3]), kept(*four[:3]), over("worker-2"),
            end(0, "master-0")),
        Expected(events=("PyTorchJobRestarting",)), PYTORCHJOB.job("OnFailure", run_policy=policy))
    job = PYTORCHJOB.job("OnFailure", run_policy={**policy, "elastic": {}})
    gate = {"spec": {"schedulingGates": [{"name": "jobcommon.test/gate"}]}}
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["overrides"] = [{"indices": [1], "template": gate}]
    yield Row("elastic: grows in place by a spare pod, once this has a node",
        (run(*pair), reads(2, *pair), scale("Worker", 2), ungated("worker-1"), attempt_runs(1, *pair), reads(3, *four[:3]),
            kept(*four[:3]), end(0, "master-0")),
        Expected(events=("PyTorchJobRestarting",)), job)
    yield _losing_a_node("Auto", "OnFailure")
    other = script("other", "while [ ! -s /told/ends ]; do sleep 0.2; done", volumeMounts=list(MOUNTS))
    yield _losing_a_node("Recreate", "Never", other)


def _losing_a_node(method: str, restart: str, *others: Manifest) -> Row:
    """The only node that suits Worker-1 is lost: the others train on as ranks 0 to 3 until it is back."""
    pods = ("master-0", *(f"worker-{index}" for index in range(4)))
    rest = tuple(pod for pod in pods if pod != "worker-1")
    policy = {"restartScope": "Job", "restartMethod": method, "elastic": {"shrinkAfterSeconds": 3, "growAfterSeconds": 5}}
    counts, first, what = {"Master": 1, "Worker": 4}, script("first", "exit 0"), method.lower()
    there, gone = node_offers(what, True), node_offers(what, False)
    job = PYTORCHJOB.job(restart, replicas=counts, run_policy=policy, others=others, initContainers=[first])
    only = {"spec": {"nodeSelector": {f"{OFFER}{what}": "yes"}}}
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["overrides"] = [{"indices": [1], "template": only}]
    stay = (kept(*rest),) if method == "Auto" else ()
    return Row(f"elastic: the node of a worker in the middle is lost, and comes back, {method} under {restart}",
        (there, run(*pods), reads(5, *pods), gone, evict("worker-1"), reads(4, *rest), *stay,
            there, run(*pods), reads(5, *pods), *stay, end(0, "master-0")),
        Expected(disruptions=1, events=("PyTorchJobRestarting",)), job)


def _ends_well(job: Manifest, other: Manifest) -> Manifest:
    specs = other["spec"]["pytorchReplicaSpecs"]
    job["spec"]["pytorchReplicaSpecs"]["Master"] = specs["Master"]
    return job


def quotas() -> Iterator[Row]:
    """A refusal of the platform is waited out."""
    yield Row("a quota, at a replacement",
        (run("master-0", "worker-0"), quota(1), delete("worker-0"), refused(), quota(0), replaced("worker-0"),
            *PYTORCHJOB.finish),
        Expected(pods=PYTORCHJOB.ends("Failed 143"), disruptions=1, events=("FailedCreatePod",)), PYTORCHJOB.job("Never"))


def losses() -> Iterator[Row]:
    """Operators, API servers, kubelets and nodes that are lost."""
    both = run("master-0", "worker-0")
    yield Row("kill -9 of the operator, a pod fails meanwhile",
        (both, operator_dies(), end(137, "worker-0"), done("worker-0"), operator_starts(), replaced("worker-0"),
            *PYTORCHJOB.finish),
        Expected(pods=PYTORCHJOB.ends("Failed 137"), restarts=1), PYTORCHJOB.job("ExitCode"))
    yield Row(
        "kill -9 of the operator, the job succeeds meanwhile",
        (both, operator_dies(), *PYTORCHJOB.finish, operator_starts()),
        Expected(pods=PYTORCHJOB.ends()),
        PYTORCHJOB.job(),
    )
    yield Row("kill -9 of the API server",
        (both, server_dies(), end(137, "worker-0"), replaced("worker-0"), *PYTORCHJOB.finish),
        Expected(pods=PYTORCHJOB.ends("Failed 137"), restarts=1), PYTORCHJOB.job("ExitCode"))
    yield Row("kill -9 of the operator that leads", (operator_starts(*ELECTED), both, leader_dies(), end(137, "worker-0"),
            replaced("worker-0"), *PYTORCHJOB.finish),
        Expected(pods=PYTORCHJOB.ends("Failed 137"), restarts=1), PYTORCHJOB.job("ExitCode"), operator=ELECTED)
    yield Row("the kubelet dies and comes back after the pods' eviction",
        (both, node_dies(), ending("master-0", "worker-0"), node_returns(), replaced("master-0", "worker-0"),
            *PYTORCHJOB.finish),
        Expected(pods=PYTORCHJOB.ends("Failed 143 DeletionByTaintManager", leads=("Failed 143 DeletionByTaintManager",)),
            disruptions=2), PYTORCHJOB.job("OnFailure"), also_needs=frozenset({CONTAINERS}))
    yield Row("the node is lost and out of service",
        (both, node_dies(), ending("master-0", "worker-0"), node_is_out_of_service(True), over("master-0", "worker-0"),
            node_is_out_of_service(False), node_returns(), replaced("master-0", "worker-0"), *PYTORCHJOB.finish),
        Expected(pods=PYTORCHJOB.ends("Failed DeletionByTaintManager", leads=("Failed DeletionByTaintManager",)),
            disruptions=2), PYTORCHJOB.job("OnFailure", run_policy={"nodeLossSeconds": 5}))
    yield Row("the node is lost and deleted",
        (both, node_dies(), node_is_deleted(), over("master-0", "worker-0"), node_returns(), replaced("master-0", "worker-0"),
            *PYTORCHJOB.finish),
        Expected(pods=PYTORCHJOB.ends("Failed DeletionByPodGC", leads=("Failed DeletionByPodGC",)), disruptions=2),
        PYTORCHJOB.job("OnFailure"))


def pods() -> Iterator[Row]:
    """Pods alone, without a job: what a kubelet and an API server show of them. The simulator's models rest on these."""
    started = ("Pending", "Running")

    def row(name: str, steps: tuple[Step, ...], shown: str, order: tuple[str, ...], needs: str = "", **spec: Any) -> Row:
        made, also = make_pod("p", held_pod(**spec)), frozenset({needs} if needs else ())
        expected = Expected("", {"p": (shown,)}, order={"p": order} if order else {})
        return Row(f"pod: {name}", (made, *steps), expected, operator=None, also_needs=also)

    deleted = (run("p"), delete("p"), over("p"))
    yield row("succeeds", (run("p"), end(0, "p"), done("p")), "Succeeded 0", (*started, "Succeeded"))
    yield row("fails", (run("p"), end(3, "p"), done("p")), "Failed 3", (*started, "Failed"))
    yield row(
        "deleted while it runs", deleted, "Failed 143", (*started, "Running, deleting", "Failed, deleting", "Failed, over")
    )
    yield row("deleted while it runs, exits with 0", deleted, "Succeeded 0",
        (*started, "Running, deleting", "Succeeded, deleting", "Succeeded, over"), on_term="exit 0")
    yield row("deleted while it runs, SIGTERM ignored", deleted, "Failed 137",
        (*started, "Running, deleting", "Failed, deleting", "Failed, over"), on_term="",
        terminationGracePeriodSeconds=2)
    yield row("deleted while it runs, is not restarted", deleted, "Failed 143",
        (*started, "Running, deleting", "Failed, deleting", "Failed, over"), restart="Always")
    yield row("deleted after its end", (run("p"), end(0, "p"), done("p"), delete("p"), over("p")), "Succeeded 0",
        (*started, "Succeeded", "Succeeded, over"))
    yield row("deleted before it is scheduled", (delete("p"), over("p")), "Pending", ("Pending", "Pending, over"),
        schedulingGates=[{"name": "jobcommon.test/gate"}])
    yield row("evicted while it runs", (run("p"), evict("p"), over("p")), f"Failed 143 {EVICTED}",
        (*started, "Running, deleting", "Failed, deleting", "Failed, over"))
    yield row("restarted in place", (run("p"), end(3, "p"), restarted("p"), end(0, "p"), done("p")), "Succeeded 0 x2",
        (*started, "Succeeded"), restart="OnFailure")
    annotation, text = "jobcommon.test/value", 'echo "$VALUE, $0"; ' + SCRIPT
    value = {"name": "VALUE", "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{annotation}']"}}}
    yield row("a variable from an annotation, as each start finds it",
        (run("p"), annotated("p", annotation, "2"), end(3, "p"), restarted("p"), end(0, "p"), done("p"),
            logs("p", "2, 2\nrun 2 of \nrun 2 ends with 0")),
        "Succeeded 0 x2", (), restart="OnFailure",
        containers=[container("main", command=["sh", "-c", text, "$(VALUE)"], env=[value])])
    yield row("an image that cannot be parsed, until another one is given",
        (pending("p"), image_given("p", "main", IMAGE), run("p"), end(0, "p"), done("p")), "Succeeded 0",
        (*started, "Succeeded"), containers=[container("main", image=f"{IMAGE}:1{STOPPING_TAG}0")])
    yield row("activeDeadlineSeconds passes", (done("p"),), "Failed DeadlineExceeded 143", (*started, "Failed"),
        activeDeadlineSeconds=3)
    yield row("an init container fails", (done("p"),), "Failed", ("Pending", "Failed"),
        initContainers=[script("first", "exit 4")])
    yield row("waits for its Secret", (pending("p"), make("secrets", {"metadata": {"name": "s"}}), run("p")), "Running",
        started,
        containers=[container("main", volumeMounts=[*MOUNTS, {"name": "s", "mountPath": "/s"}])],
        volumes=[*VOLUMES, {"name": "s", "secret": {"secretName": "s"}}])
    yield row("its log before it is scheduled", (logs("p", ""), delete("p"), over("p")), "Pending", (),
        schedulingGates=[{"name": "jobcommon.test/gate"}])
    waits = 'container "main" in pod "job-p" is waiting to start: PodInitializing'
    told = script("first", "echo begun; while [ ! -s /told/ends ]; do sleep 0.2; done", volumeMounts=list(MOUNTS))
    yield row("its log before it starts and after its end",
        (pending("p"), logs("p", f"400: {waits}"), end(0, "p"), done("p"), logs("p", "main"), logs("p", "begun", "first")),
        "Succeeded 0", (), initContainers=[told], containers=[script("main", "echo main")])
    yield row("evicted by its kubelet, its node low on memory",
        (run("p"), node_pressure(True), done("p"), node_pressure(False)), "Failed Evicted 137 TerminationByKubelet",
        (*started, "Failed"), containers=[container("main", on_term="", resources={"requests": {"memory": "1Mi"}})])
    yield row("evicted by its kubelet, beyond its own limit", (done("p"),), "Failed Evicted 137", (*started, "Failed"),
        CONTAINERS,
        containers=[script("main", "head -c 3000000 /dev/zero > /keep/x; while :; do sleep 1; done")],
        volumes=[{"name": "keep", "emptyDir": {"sizeLimit": "1Mi"}}])
    yield row("a container out of memory", (done("p"),), "Failed OOMKilled 137", (*started, "Failed"), CONTAINERS,
        containers=[script("main", "exec tail /dev/zero", resources={"limits": {"memory": "16Mi"}})])


# fmt: on
def rows() -> tuple[Row, ...]:
    """All of them."""
    of_kinds = (row for kind in KINDS for row in lifecycles(kind))
    ends = (*suspensions(), *deletions(), *restarts(), *in_place(), *resizes())
    return (*of_kinds, *ends, *quotas(), *losses(), *pods())


ROWS = rows()
