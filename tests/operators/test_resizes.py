"""The contract of a resize, for each kind: in each attempt all main programs read the same and real world.

What they read are the variables with which the model's kubelet starts them, after the annotations were changed, and the files
that were mounted when their pod started.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import pytest

from jobcommon.framework import Framework
from jobcommon.operators.jax import JAX
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.paddle import PADDLE
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.operators.xgboost import XGBOOST
from jobcommon.testutil.builders import replica_spec
from jobcommon.testutil.cluster_model import ClusterModel
from tests.kinds import KINDS

pytestmark = pytest.mark.no_cover
SIZES = (4, 3, 1, 2)


@dataclass(frozen=True)
class Seen:
    """What a program knows of the others: how many there are, their addresses, and its own rank (None if it is not told)."""

    size: int
    addresses: Sequence[str]
    rank: int | None = None


Env = Mapping[str, str]


def env_rendezvous(env: Env, _files: Env) -> Seen:
    """PyTorch's and XGBoost's."""
    assert env.get("PET_NNODES", env["WORLD_SIZE"]) == env["WORLD_SIZE"]
    workers = [host for host in env.get("WORKER_ADDRS", "").split(",") if host]
    assert not workers or len(workers) + 1 == int(env["WORLD_SIZE"])
    return Seen(int(env["WORLD_SIZE"]), [env["MASTER_ADDR"], *workers], int(env["RANK"]))


def torchrun(env: Env, _files: Env) -> Seen:
    return Seen(int(env["PET_NNODES"]), ())


def jax(env: Env, _files: Env) -> Seen:
    return Seen(int(env["NUM_PROCESSES"]), [env["COORDINATOR_ADDRESS"]], int(env["PROCESS_ID"]))


def paddle(env: Env, _files: Env) -> Seen:
    """The first one finds its own IP there."""
    host = env["PADDLE_MASTER"].partition(":")[0]
    return Seen(int(env["PADDLE_NNODES"]), [] if host.startswith("$(") else [host])


def tensorflow(env: Env, _files: Env) -> Seen:
    return _cluster(json.loads(env["TF_CONFIG"]), str) if "TF_CONFIG" in env else Seen(1, (), 0)


def mxnet(env: Env, _files: Env) -> Seen:
    config = json.loads(env["MX_CONFIG"])
    counted = {kind: str(len(hosts)) for kind, hosts in config["cluster"].items()}
    assert (env["DMLC_NUM_WORKER"], env["DMLC_NUM_SERVER"]) == (counted["worker"], counted["server"])
    assert env["DMLC_PS_ROOT_URI"] == config["cluster"]["scheduler"][0]["url"]
    return _cluster(config, lambda entry: entry["url"])


def _cluster(config: Mapping[str, Any], host: Callable[[Any], str]) -> Seen:
    places = [(kind, index) for kind, hosts in sorted(config["cluster"].items()) for index in range(len(hosts))]
    hosts = [host(entry).partition(":")[0] for _, entries in sorted(config["cluster"].items()) for entry in entries]
    return Seen(len(places), hosts, places.index((config["task"]["type"], config["task"]["index"])))


def mpi(env: Env, files: Env) -> Seen | None:
    """The launcher knows the hosts; the ranks that it starts are told by mpirun."""
    if env["K_MPI_JOB_ROLE"] != "launcher":
        return None
    hosts = [line.split()[0] for line in files["hostfile"].splitlines()]
    return Seen(len(hosts), hosts)


@dataclass(frozen=True)
class Case:
    """A kind's job beside its workers, what its programs read, and which pods a resize makes anew although it is in place."""

    framework: Framework
    others: Mapping[str, int]
    seen: Callable[[Env, Env], Seen | None]
    anew: Sequence[str] = ()
    spec: Mapping[str, Any] = field(default_factory=dict)


CASES = {
    "jax": Case(JAX, {}, jax), "pytorch": Case(PYTORCH, {"Master": 1}, env_rendezvous),
    "pytorch, torchrun": Case(PYTORCH, {}, torchrun), "xgboost": Case(XGBOOST, {"Master": 1}, env_rendezvous),
    "paddle": Case(PADDLE, {}, paddle), "paddle, with servers": Case(PADDLE, {"Master": 2}, paddle),
    "tensorflow": Case(TF, {}, tensorflow),
    "tensorflow, with servers": Case(TF, {"Chief": 1, "PS": 2}, tensorflow),
    "mxnet": Case(MXNET, {"Scheduler": 1, "Server": 2}, mxnet),
    "mpi, ssh": Case(MPI, {"Launcher": 1}, mpi, anew=("demo-launcher",)),
    "mpi, kubectl exec": Case(MPI, {"Launcher": 1}, mpi, anew=("demo-launcher",), spec={"transport": "Exec"}),
}  # fmt: skip


def test_every_kind_is_tried() -> None:
    assert {case.framework.kind for case in CASES.values()} == {framework.kind for framework in KINDS}


@pytest.mark.parametrize("method", ["Auto", "Recreate"])
@pytest.mark.parametrize("name", CASES)
def test_all_programs_of_an_attempt_read_the_world_that_is_there(name: str, method: str) -> None:
    case = CASES[name]
    policy = {"restartScope": "Job", "restartMethod": method}
    world = ClusterModel.of(case.framework, {**case.others, "Worker": 2}, policy="ExitCode", run_policy=policy, **case.spec)
    assert isinstance(world, ClusterModel)
    world.react()
    read(case, world, 2)
    for attempt, size in enumerate(SIZES, start=1):
        before = {pod.name: pod.view.uid for pod in world.pods.values()}
        world.scale("Worker", size).react()
        world.wait(60)
        assert (world.status["attempt"], world.current, world.mixed) == (attempt, "Running", [])
        read(case, world, size)
        kept = {pod.name for pod in world.pods.values() if before.get(pod.name) == pod.view.uid}
        stay = {name for name in world.pods if name in before and not name.startswith(tuple(case.anew))}
        # Without peers TensorFlow has no variable at all.
        alone = case.framework is TF and not case.others and 1 in SIZES[max(attempt - 2, 0) : attempt]
        assert kept == (stay if method == "Auto" and not alone else set())


@pytest.mark.parametrize(("method", "lost"), [("Auto", 1), ("Auto", 0), ("Recreate", 1)])
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.framework.scale])
def test_ranks_have_no_gaps_where_indexes_have(name: str, method: str, lost: int) -> None:
    """Of four workers one finds no node any more, and one later."""
    case, policy = CASES[name], {"restartScope": "Job", "restartMethod": method, "elastic": {"growAfterSeconds": 90}}
    world = ClusterModel.of(case.framework, {**case.others, "Worker": 4}, policy="ExitCode", run_policy=policy, **case.spec)
    assert isinstance(world, ClusterModel)
    world.thorough = False
    world.react()
    read(case, world, 4)
    before, world.room = {pod.name: pod.view.uid for pod in world.pods.values()}, len(world.pods) - 1
    world.lose_node_of(f"demo-worker-{lost}").react()
    world.wait(80)
    read(case, world, 3)
    # A launcher that begins when its workers run gets the node of one of them.
    losses = 2 if (name, method) == ("mpi, kubectl exec", "Recreate") else 1
    assert (world.status["attempt"], world.mixed) == (losses, [])
    if method == "Auto":
        # Who serves the rendezvous finds its own address in its spec.
        anew = [f"demo-worker-{lost}", *case.anew, *(["demo-worker-1"] if name == "paddle" and lost == 0 else [])]
        assert {n for n, uid in before.items() if n in world.pods and world.pods[n].view.uid == uid} == before.keys() - {*anew}
    world.room = 100
    world.wait(300)
    read(case, world, 4)
    assert (world.status["attempt"], world.mixed) == (losses + 1, [])


def read(case: Case, world: ClusterModel, workers: int) -> None:
    """Compare what the programs read with what there is."""
    total = workers + sum(case.others.values())
    seen = [found for pod in world.pods.values() if (found := case.seen(*world.programs[pod.view.uid])) is not None]
    assert len(world.pods) == total
    assert len(seen) == (1 if case.framework is MPI else total)
    assert {found.size for found in seen} == {workers if case.framework is MPI else total}
    ranks = [found.rank for found in seen if found.rank is not None]
    assert not ranks or sorted(ranks) == list(range(total))
    for host in (host for found in seen for host in found.addresses):
        pod, *service = host.split(".")
        assert pod in world.pods
        assert not service or ("Service", service[0]) in world.others
    if case.framework is MPI:
        script = world.others["ConfigMap", "demo-config"]["data"]["discover_hosts.sh"]
        assert [line.split()[1].rpartition(":")[0] for line in script.splitlines()[1:]] == list(seen[0].addresses)


def with_port(spec: Any) -> None:
    port = {"name": PYTORCH.port_name, "containerPort": 29500}
    spec[PYTORCH.replica_specs]["Master"] = deepcopy(spec[PYTORCH.replica_specs]["Master"])
    spec[PYTORCH.replica_specs]["Master"]["template"]["spec"]["containers"][0]["ports"] = [port]


#: an edit of what shapes pods, outside the template of the workers, and which pods are kept
EDITS: dict[str, tuple[str, Callable[[Any], None], set[str]]] = {
    "nprocPerNode": ("pytorch", lambda spec: spec.update(nprocPerNode="4"), {"demo-master-0", "demo-worker-0"}),
    "a port in another template": ("pytorch", with_port, {"demo-worker-0"}),
    # The launcher alone reads the slots.
    "slotsPerWorker": ("mpi, ssh", lambda spec: spec.update(slotsPerWorker=4), {"demo-worker-0"}),
}


@pytest.mark.parametrize(("name", "edit", "kept"), EDITS.values(), ids=EDITS)
def test_programs_of_an_attempt_have_the_same_configuration(name: str, edit: Callable[[Any], None], kept: set[str]) -> None:
    case, policy = CASES[name], {"restartScope": "Job", "restartMethod": "Auto"}
    world = ClusterModel.of(case.framework, {**case.others, "Worker": 2}, policy="ExitCode", run_policy=policy)
    assert isinstance(world, ClusterModel)
    world.react()
    before = {pod.view.uid for pod in world.pods.values()}
    edit(world.manifest["spec"])
    world.edit().react()
    assert {pod.view.uid for pod in world.pods.values()} == before, "a running attempt keeps its own"
    world.evict("demo-worker-1")
    world.react()
    world.wait(60)
    assert (world.status["attempt"], world.current) == (1, "Running")
    assert {pod.name for pod in world.pods.values() if pod.view.uid in before} == kept
    programs = [world.programs[pod.view.uid][0] for pod in world.pods.values()]
    shared = [(one.get("MASTER_PORT"), one.get("PET_NPROC_PER_NODE")) for one in programs]
    assert shared == shared[:1] * 3


#: types and scope of a job that runs, and what one edit makes of them
OTHERS: dict[str, tuple[Framework, dict[str, int], str, dict[str, int]]] = {
    "a type is added": (PYTORCH, {"Master": 1}, "Job", {"Master": 1, "Worker": 2}),
    "servers are added": (TF, {"Worker": 2}, "Job", {"PS": 1, "Worker": 2}),
    "a type is taken out": (TF, {"PS": 1, "Worker": 2}, "Job", {"Worker": 2}),
    "scope and more": (PYTORCH, {"Master": 1, "Worker": 2}, "Pod", {"Master": 1, "Worker": 4}),
    "scope and fewer": (PYTORCH, {"Master": 1, "Worker": 2}, "Pod", {"Master": 1, "Worker": 1}),
}


@pytest.mark.parametrize("method", ["Auto", "Recreate"])
@pytest.mark.parametrize(("framework", "before", "scope", "after"), OTHERS.values(), ids=OTHERS)
def test_other_replicas_are_an_attempt(
    framework: Framework, before: dict[str, int], scope: str, after: dict[str, int], method: str
) -> None:
    policy = {"restartMethod": method} if scope == "Job" else {}
    world = ClusterModel.of(framework, before, policy="OnFailure", run_policy={"restartScope": scope, **policy})
    assert isinstance(world, ClusterModel)
    world.react()
    world.manifest["spec"]["runPolicy"] |= {"restartScope": "Job", "restartMethod": method}
    world.manifest["spec"][framework.replica_specs] = {
        kind: replica_spec(framework, count, "OnFailure") for kind, count in after.items()
    }
    world.edit().react()
    world.wait(60)
    assert (world.status["attempt"], world.current, world.mixed) == (1, "Running", [])
    assert (dict(world.status["attemptReplicas"]), len(world.pods)) == (after, sum(after.values()))
    assert {world.worlds[pod.view.uid][0] for pod in world.pods.values()} == {"1"}
