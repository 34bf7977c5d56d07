"""The lifecycles that only one framework has."""

from collections.abc import Iterator
from itertools import chain

from jobcommon.api.workload import V1ALPHA2, V1BETA1
from jobcommon.client.request import MERGE_PATCH
from jobcommon.testutil.sim import user
from jobcommon.testutil.sim.gang_lifecycles import gang_lifecycles
from jobcommon.testutil.sim.job_templates import JOB, MPI_V1, MPI_V2, MX, TENSORFLOW, TORCH, JobTemplate
from jobcommon.testutil.sim.queued_lifecycles import queued_lifecycles
from jobcommon.testutil.sim.scenario import Exit, Scenario, UserStep


def own_lifecycles() -> Iterator[Scenario]:
    """All of them."""
    queued = map(queued_lifecycles, (TORCH, MX))
    gangs = [gang_lifecycles(*chosen) for chosen in ((TORCH, V1BETA1), (TORCH, V1ALPHA2), (MPI_V1, V1BETA1))]
    return chain(_mpi(), _tensorflow(), _pytorch(), _mxnet(), *map(_late, (TENSORFLOW, TORCH)), *queued, *gangs)


def _mpi() -> Iterator[Scenario]:
    template, launcher, workers = MPI_V2, MPI_V2.leader_pod, MPI_V2.workers()
    done = Exit(10, cue=user.peers(*template.pods))
    failing = Exit(5, 1, cue=user.peers(*template.pods))
    never = template.job("Never")
    yield template.scenario("launcher-retry", never, {launcher: [failing, failing, done]})
    yield template.scenario("launcher-retries-used-up", template.job("Never", run={"backoffLimit": 1}), {launcher: [failing]})
    yield template.scenario("launcher-only-derived", template.manifest({"Worker": template.replicas(2)}), {launcher: [done]})
    again = {launcher: [Exit(10, cue=lambda s, runs: runs.get(workers[0], 0) > 1 and user.running(*template.pods)(s))]}
    for name, plural, lost in (("ssh-secret-lost", "secrets", "ssh"), ("hostfile-lost", "configmaps", "config")):
        # The pod that takes the lost one's place needs what is gone.
        yield template.scenario(name, template.job("ExitCode"), again, user=(
            UserStep("delete", user.delete(plural, f"{JOB}-{lost}"), when=user.running(*template.pods), after=1),
            UserStep("lose", user.delete("pods", workers[0])),
        ))  # fmt: skip
    specs = {"Launcher": template.replicas(1), "Worker": template.replicas(2)}
    works = template.manifest(specs, spec={"runLauncherAsWorker": True})
    yield template.scenario("launcher-as-worker", works, {launcher: [Exit(5, cue=user.told("scaled"))]}, user=(
        UserStep("down", user.scale(template.framework, JOB, "Worker", 1), when=user.running(*template.pods), after=1),
        UserStep("tell", user.tell("scaled"), when=user.gone("pods", workers[1])),
    ))  # fmt: skip
    waits = {"launcherCreationPolicy": "WaitForWorkersReady"}
    yield template.scenario("waits-for-workers", template.manifest(specs, spec=waits), {launcher: [done]})
    retried = {launcher: [Exit(5, 137, cue=user.peers(*template.pods)), done]}
    yield template.scenario("waits-for-workers-and-retries", template.manifest(specs, spec=waits), retried)
    yield MPI_V1.scenario(
        "launcher-fails", MPI_V1.job("Never"), {MPI_V1.leader_pod: [Exit(5, 1, cue=user.peers(*MPI_V1.pods))]}
    )
    slow = {f"{MPI_V1.leader_pod}/kubectl-delivery": [Exit(1, 1)], MPI_V1.leader_pod: [done]}
    yield MPI_V1.scenario("kubectl-delivery-fails", MPI_V1.job("Never"), slow)


def _tensorflow() -> Iterator[Scenario]:
    template = TENSORFLOW
    kinds = {"Chief": 1, "PS": 1, "Worker": 1, "Evaluator": 1}
    pods = [template.pod(kind, 0) for kind in kinds]
    specs = {kind: template.replicas(count) for kind, count in kinds.items()}
    yield template.scenario("chief-ps-evaluator", template.manifest(specs), {pods[0]: [Exit(10, cue=user.peers(*pods))]})
    first, second = template.workers()
    second_ended = user.phase(second, "Succeeded")
    pair = {"Worker": template.replicas(2), "PS": template.replicas(1)}
    there = user.peers(first, second, template.pod("PS", 0))
    both = {first: [Exit(5, cue=there)], second: [Exit(15, cue=lambda s, _: user.phase(first, "Succeeded")(s))]}
    yield template.scenario("all-workers", template.manifest(pair, spec={"successPolicy": "AllWorkers"}), both)
    yield template.scenario("worker-0-decides", template.manifest(pair), {first: [Exit(10, cue=there)]})
    late = {second: [Exit(5, cue=there)], first: [Exit(10, cue=lambda s, _: second_ended(s))]}
    yield template.scenario("worker-1-first", template.manifest(pair), late)
    dynamic = template.manifest(
        {"Chief": template.replicas(1), "Worker": template.replicas(2, "ExitCode")}, spec={"enableDynamicWorker": True}
    )
    failed = user.phase(first, "Failed")
    runs_again = user.condition(template.framework, JOB, "Running")
    yield template.scenario("dynamic-worker-given-up", dynamic, {
        first: [Exit(5, 3, cue=user.peers(*template.pods))],
        second: [Exit(5, 137, cue=lambda s, _: failed(s)), Exit()],
        template.leader_pod: [Exit(10, cue=lambda s, runs: runs.get(second, 0) > 1 and runs_again(s))],
    })  # fmt: skip
    yield template.scenario("dynamic-worker-fails", dynamic, {
        first: [Exit(5, 3, cue=user.peers(*template.pods))], template.leader_pod: [Exit(10, cue=lambda s, _: failed(s))],
    })  # fmt: skip


def _pytorch() -> Iterator[Scenario]:
    template = TORCH
    first, second = template.workers()
    there = user.peers(first, second)
    workers = {"Worker": template.replicas(2, "ExitCode")}
    first_ended = user.phase(first, "Succeeded")
    both = {first: [Exit(5, cue=there)], second: [Exit(10, cue=lambda s, _: first_ended(s))]}
    yield template.scenario("workers-only", template.manifest(workers), both)
    metrics = [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}]
    elastic = {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 3, "metrics": metrics}}
    scaled = f"{user.path_of(template.framework, JOB)}/scale"
    behaviour = {first: [Exit(5, cue=user.told("scaled"))]}
    yield template.scenario("elastic", template.manifest(workers, spec=elastic), behaviour, user=(
        UserStep("up", user.request("PATCH", scaled, {"spec": {"replicas": 3}}, MERGE_PATCH), when=user.running(first, second)),
        UserStep("tell", user.tell("scaled"), when=user.running(*template.workers(3)), after=1),
    ))  # fmt: skip
    yield template.scenario("elastic-worker-lost", template.manifest(workers, spec=elastic), {
        second: [Exit(5, 137, cue=there), Exit()],
        first: [Exit(10, cue=lambda s, runs: runs.get(second, 0) > 1 and there(s, runs))],
    })  # fmt: skip


def _mxnet() -> Iterator[Scenario]:
    template = MX
    specs = {"Scheduler": template.replicas(1), "Server": template.replicas(1), "Worker": template.replicas(2)}
    pods = [template.pod("Scheduler", 0), template.pod("Server", 0), *template.workers()]
    yield template.scenario("scheduler-server-worker", template.manifest(specs), {pods[0]: [Exit(10, cue=user.peers(*pods))]})
    first, second = template.workers()
    first_ended = user.phase(first, "Succeeded")
    both = {first: [Exit(5, cue=user.peers(*pods))], second: [Exit(10, cue=lambda s, _: first_ended(s))]}
    yield template.scenario("all-workers", template.manifest(specs, spec={"successPolicy": "AllWorkers"}), both)
    tune = {"TunerTracker": template.replicas(1), "TunerServer": template.replicas(1), "Tuner": template.replicas(1)}
    tuners = [template.pod(kind, 0) for kind in tune]
    yield template.scenario(
        "tune", template.manifest(tune, spec={"jobMode": "MXTune"}), {tuners[2]: [Exit(10, cue=user.peers(*tuners))]}
    )


def _late(template: JobTemplate) -> Iterator[Scenario]:
    """When the job has succeeded, one worker ends well a little later, one fails, and the last is stopped in the end."""
    pods = (template.leader_pod, *template.workers(3))
    succeeded = user.condition(template.framework, JOB, "Succeeded")
    leader, well, badly, _ = pods
    yield template.scenario("X-ends-after-the-success", template.job("Never", workers=3), {
        leader: [Exit(5, cue=user.peers(*pods))],
        well: [Exit(10, cue=lambda s, _: succeeded(s))],
        badly: [Exit(20, 1, cue=lambda s, _: succeeded(s))],
    })  # fmt: skip
