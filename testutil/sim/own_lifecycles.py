"""The lifecycles that only one framework has."""

from collections.abc import Iterator
from itertools import chain

from jobcommon.client.request import MERGE_PATCH
from jobcommon.testutil.sim import user
from jobcommon.testutil.sim.scenario import Exit, Scenario, UserStep
from jobcommon.testutil.sim.shapes import JOB, MPI_V1, MPI_V2, MX, TENSORFLOW, TORCH


def own_lifecycles() -> Iterator[Scenario]:
    """All of them."""
    return chain(_mpi(), _tensorflow(), _pytorch(), _mxnet())


def _mpi() -> Iterator[Scenario]:
    shape, launcher, workers = MPI_V2, MPI_V2.leader_pod, MPI_V2.workers()
    done = Exit(10, cue=user.peers(*shape.pods))
    failing = Exit(5, 1, cue=user.peers(*shape.pods))
    never = shape.job("Never")
    yield shape.scenario("launcher-retry", never, {launcher: [failing, failing, done]})
    yield shape.scenario("launcher-retries-used-up", shape.job("Never", run={"backoffLimit": 1}), {launcher: [failing]})
    yield shape.scenario("launcher-only-derived", shape.manifest({"Worker": shape.replicas(2)}), {launcher: [done]})
    again = {launcher: [Exit(10, cue=lambda s, runs: runs.get(workers[0], 0) > 1 and user.running(*shape.pods)(s))]}
    for name, plural, lost in (("ssh-secret-lost", "secrets", "ssh"), ("hostfile-lost", "configmaps", "config")):
        # The pod that takes the lost one's place needs what is gone.
        yield shape.scenario(name, shape.job("ExitCode"), again, user=(
            UserStep("delete", user.delete(plural, f"{JOB}-{lost}"), when=user.running(*shape.pods), after=1),
            UserStep("lose", user.delete("pods", workers[0])),
        ))  # fmt: skip
    specs = {"Launcher": shape.replicas(1), "Worker": shape.replicas(2)}
    works = shape.manifest(specs, spec={"runLauncherAsWorker": True})
    yield shape.scenario("launcher-as-worker", works, {launcher: [Exit(5, cue=user.told("scaled"))]}, user=(
        UserStep("down", user.scale(shape.framework, JOB, "Worker", 1), when=user.running(*shape.pods), after=1),
        UserStep("tell", user.tell("scaled"), when=user.gone("pods", workers[1])),
    ))  # fmt: skip
    waits = {"launcherCreationPolicy": "WaitForWorkersReady"}
    yield shape.scenario("waits-for-workers", shape.manifest(specs, spec=waits), {launcher: [done]})
    retried = {launcher: [Exit(5, 137, cue=user.peers(*shape.pods)), done]}
    yield shape.scenario("waits-for-workers-and-retries", shape.manifest(specs, spec=waits), retried)
    yield MPI_V1.scenario(
        "launcher-fails", MPI_V1.job("Never"), {MPI_V1.leader_pod: [Exit(5, 1, cue=user.peers(*MPI_V1.pods))]}
    )
    slow = {f"{MPI_V1.leader_pod}/kubectl-delivery": [Exit(1, 1)], MPI_V1.leader_pod: [done]}
    yield MPI_V1.scenario("kubectl-delivery-fails", MPI_V1.job("Never"), slow)


def _tensorflow() -> Iterator[Scenario]:
    shape = TENSORFLOW
    kinds = {"Chief": 1, "PS": 1, "Worker": 1, "Evaluator": 1}
    pods = [shape.pod(kind, 0) for kind in kinds]
    specs = {kind: shape.replicas(count) for kind, count in kinds.items()}
    yield shape.scenario("chief-ps-evaluator", shape.manifest(specs), {pods[0]: [Exit(10, cue=user.peers(*pods))]})
    first, second = shape.workers()
    second_ended = user.phase(second, "Succeeded")
    pair = {"Worker": shape.replicas(2), "PS": shape.replicas(1)}
    there = user.peers(first, second, shape.pod("PS", 0))
    both = {first: [Exit(5, cue=there)], second: [Exit(15, cue=lambda s, _: user.phase(first, "Succeeded")(s))]}
    yield shape.scenario("all-workers", shape.manifest(pair, spec={"successPolicy": "AllWorkers"}), both)
    yield shape.scenario("worker-0-decides", shape.manifest(pair), {first: [Exit(10, cue=there)]})
    late = {second: [Exit(5, cue=there)], first: [Exit(10, cue=lambda s, _: second_ended(s))]}
    yield shape.scenario("worker-1-first", shape.manifest(pair), late)
    dynamic = shape.manifest(
        {"Chief": shape.replicas(1), "Worker": shape.replicas(2, "ExitCode")}, spec={"enableDynamicWorker": True}
    )
    failed = user.phase(first, "Failed")
    runs_again = user.condition(shape.framework, JOB, "Running")
    yield shape.scenario("dynamic-worker-given-up", dynamic, {
        first: [Exit(5, 3, cue=user.peers(*shape.pods))],
        second: [Exit(5, 137, cue=lambda s, _: failed(s)), Exit()],
        shape.leader_pod: [Exit(10, cue=lambda s, runs: runs.get(second, 0) > 1 and runs_again(s))],
    })  # fmt: skip
    yield shape.scenario("dynamic-worker-fails", dynamic, {
        first: [Exit(5, 3, cue=user.peers(*shape.pods))], shape.leader_pod: [Exit(10, cue=lambda s, _: failed(s))],
    })  # fmt: skip


def _pytorch() -> Iterator[Scenario]:
    shape = TORCH
    first, second = shape.workers()
    there = user.peers(first, second)
    workers = {"Worker": shape.replicas(2, "ExitCode")}
    first_ended = user.phase(first, "Succeeded")
    both = {first: [Exit(5, cue=there)], second: [Exit(10, cue=lambda s, _: first_ended(s))]}
    yield shape.scenario("workers-only", shape.manifest(workers), both)
    metrics = [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}]
    elastic = {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 3, "metrics": metrics}}
    scaled = f"{user.path_of(shape.framework, JOB)}/scale"
    yield shape.scenario("elastic", shape.manifest(workers, spec=elastic), {first: [Exit(5, cue=user.told("scaled"))]}, user=(
        UserStep("up", user.request("PATCH", scaled, {"spec": {"replicas": 3}}, MERGE_PATCH), when=user.running(first, second)),
        UserStep("tell", user.tell("scaled"), when=user.running(*shape.workers(3)), after=1),
    ))  # fmt: skip
    yield shape.scenario("elastic-worker-lost", shape.manifest(workers, spec=elastic), {
        second: [Exit(5, 137, cue=there), Exit()],
        first: [Exit(10, cue=lambda s, runs: runs.get(second, 0) > 1 and there(s, runs))],
    })  # fmt: skip


def _mxnet() -> Iterator[Scenario]:
    shape = MX
    specs = {"Scheduler": shape.replicas(1), "Server": shape.replicas(1), "Worker": shape.replicas(2)}
    pods = [shape.pod("Scheduler", 0), shape.pod("Server", 0), *shape.workers()]
    yield shape.scenario("scheduler-server-worker", shape.manifest(specs), {pods[0]: [Exit(10, cue=user.peers(*pods))]})
    first, second = shape.workers()
    first_ended = user.phase(first, "Succeeded")
    both = {first: [Exit(5, cue=user.peers(*pods))], second: [Exit(10, cue=lambda s, _: first_ended(s))]}
    yield shape.scenario("all-workers", shape.manifest(specs, spec={"successPolicy": "AllWorkers"}), both)
    tune = {"TunerTracker": shape.replicas(1), "TunerServer": shape.replicas(1), "Tuner": shape.replicas(1)}
    tuners = [shape.pod(kind, 0) for kind in tune]
    yield shape.scenario(
        "tune", shape.manifest(tune, spec={"jobMode": "MXTune"}), {tuners[2]: [Exit(10, cue=user.peers(*tuners))]}
    )
