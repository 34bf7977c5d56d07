"""From an experiment to a job: which kind, and which replica type each of Polyaxon's tasks becomes."""

from collections.abc import Mapping, Sequence
from typing import Any

from jobcommon.cli.convert.command import SHELL, mpirun
from jobcommon.cli.convert.draft import BATCH_JOB, MPIJOB_EXEC, MPIJOB_SSH, MXJOB, PYTORCHJOB, TFJOB, Draft, Kind, Replicas
from jobcommon.cli.convert.environment import Tasks, hosts, polyaxon_env
from jobcommon.cli.convert.experiment import Experiment
from jobcommon.cli.convert.finding import Notes
from jobcommon.cli.convert.overrides import split
from jobcommon.cli.convert.pod import Program, pod_template
from jobcommon.cli.convert.resources import gpu_count, without_gpus
from jobcommon.cli.convert.task import Group, Properties
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF

_SSH_PORT = 22
# framework -> kind, port, and the replica types of master, worker and ps; "" where the framework has no such task.
_KINDS: Mapping[str, tuple[Kind, int, tuple[str, str, str]]] = {
    "tensorflow": (TFJOB, TF.port, ("Chief", "Worker", "PS")),
    "pytorch": (PYTORCHJOB, PYTORCH.port, ("Master", "Worker", "")),
    "mxnet": (MXJOB, MXNET.port, ("Scheduler", "Worker", "Server")),
}
_NO_SERVERS = "has no parameter servers: remove n_ps"


def draft(experiment: Experiment, notes: Notes) -> Draft:
    """The job for the experiment. What is wrong is in `notes`."""
    if experiment.mpi:
        return _mpi_operator(experiment, notes)
    if experiment.framework == "horovod" and experiment.distributed:
        return _horovod(experiment, notes)
    if experiment.framework in _KINDS:
        return _by_framework(experiment, notes)
    if experiment.framework not in ("", "horovod", "none"):
        notes.warn("framework", f"{experiment.framework[:40]} has no job kind here; it becomes a batch Job")
    master = Tasks("master", "main", 1, 0, indexed=False)
    template = _template(experiment, BATCH_JOB, experiment.master, master, ())
    return _draft(experiment, BATCH_JOB, {"main": Replicas(template, 1, _restart(experiment.master, experiment))}, notes)


def _by_framework(experiment: Experiment, notes: Notes) -> Draft:
    kind, port, (master, worker, server) = _KINDS[experiment.framework]
    if experiment.servers.count and not server:
        notes.error("environment", f"{experiment.framework} {_NO_SERVERS}")
    if kind is MXJOB and experiment.servers.count and not experiment.workers.count:
        notes.error("environment", "mxnet servers without workers do nothing: set n_workers")
    if kind is MXJOB and not experiment.distributed:
        # A scheduler without workers has no use; a single task is a worker.
        master = worker
    cluster = [
        Tasks(kind_of, replica_type, count, port)
        for kind_of, replica_type, count in (
            ("master", master, 1),
            ("server" if kind is MXJOB else "ps", server, experiment.servers.count),
            ("worker", worker, experiment.workers.count),
        )
        if count and replica_type
    ]
    groups = {"master": Group(1, experiment.master), "worker": experiment.workers}
    replicas = {
        tasks.replica_type: _replicas(experiment, kind, groups.get(tasks.type, experiment.servers), tasks, cluster)
        for tasks in cluster
    }
    return _draft(experiment, kind, replicas, notes)


def _horovod(experiment: Experiment, notes: Notes) -> Draft:
    """The launcher is rank 0 and a host, as Polyaxon's master was; the workers only listen for it."""
    if experiment.servers.count:
        notes.error("environment", f"horovod {_NO_SERVERS}")
    gpus = gpu_count(experiment.master.get("resources", {}))
    slots = max(1, gpus)
    cluster = _mpi_cluster(experiment)
    workers = hosts(experiment.name, cluster[1])
    line = mpirun(experiment.command, workers, slots, gpu=gpus > 0)
    launcher = _template(experiment, MPIJOB_SSH, experiment.master, cluster[0], cluster, line)
    spec = {"slotsPerWorker": slots, "runLauncherAsWorker": True}
    return _mpi_draft(experiment, MPIJOB_SSH, launcher, cluster, spec, notes)


def _mpi_operator(experiment: Experiment, notes: Notes) -> Draft:
    """mpi-operator's own way: the command contains mpirun, and the launcher that runs it is a small pod and not a host."""
    if experiment.servers.count:
        notes.error("environment", f"an MPI job {_NO_SERVERS}")
    if not experiment.workers.count:
        notes.error("environment.replicas.n_workers", "is required for an MPI job, and at least 1")
    light = without_gpus(experiment.master.get("resources", {}))
    if light != experiment.master.get("resources", {}):
        notes.warn("environment.resources", "the GPUs are omitted: the launcher of an MPI job does not compute")
    cluster = _mpi_cluster(experiment)
    properties = {**experiment.master, "resources": light}
    launcher = _template(experiment, MPIJOB_EXEC, properties, cluster[0], cluster[1:], experiment.command)
    spec = {"slotsPerWorker": max(1, gpu_count(experiment.workers.default.get("resources", {})))}
    return _mpi_draft(experiment, MPIJOB_EXEC, launcher, cluster, spec, notes)


def _mpi_cluster(experiment: Experiment) -> list[Tasks]:
    workers = Tasks("worker", "Worker", experiment.workers.count, _SSH_PORT)
    return [Tasks("master", "Launcher", 1, _SSH_PORT, indexed=False), workers]


def _mpi_draft(
    experiment: Experiment,
    kind: Kind,
    launcher: dict[str, Any],
    cluster: Sequence[Tasks],
    spec: Mapping[str, Any],
    notes: Notes,
) -> Draft:
    told = cluster if kind is MPIJOB_SSH else cluster[1:]
    workers = _replicas(experiment, kind, experiment.workers, cluster[1], told, command="")
    replicas = {"Launcher": Replicas(launcher, 1, _restart(experiment.master, experiment)), "Worker": workers}
    return _draft(experiment, kind, replicas, notes, spec)


def _replicas(
    experiment: Experiment,
    kind: Kind,
    group: Group,
    tasks: Tasks,
    cluster: Sequence[Tasks],
    command: str | None = None,
) -> Replicas:
    line = experiment.command if command is None else command

    def template(properties: Properties) -> dict[str, Any]:
        return _template(experiment, kind, properties, tasks, cluster, line)

    own = {index: template(group.properties(index)) for index in group.by_index}
    common, overrides = split(template(group.default), own, group.count)
    return Replicas(common, group.count, _restart(group.default, experiment), overrides)


def _template(
    experiment: Experiment,
    kind: Kind,
    properties: Properties,
    tasks: Tasks,
    cluster: Sequence[Tasks],
    command: str | None = None,
) -> dict[str, Any]:
    line = experiment.command if command is None else command
    env = polyaxon_env(experiment, tasks, cluster)
    shell, args = (SHELL, [line]) if line else ([], [])
    return pod_template(Program(kind.container, experiment.image, shell, args, env), properties)


def _restart(properties: Properties, experiment: Experiment) -> str:
    """The tasks' own max_restarts, else the experiment's, else none, as on Polyaxon's platform by default."""
    own = properties.get("max_restarts", experiment.master.get("max_restarts"))
    return "OnFailure" if own or experiment.run_policy.get("backoffLimit") else "Never"


def _draft(
    experiment: Experiment, kind: Kind, replicas: Mapping[str, Replicas], notes: Notes, spec: Mapping[str, Any] | None = None
) -> Draft:
    limits = [
        properties["max_restarts"]
        for properties in (experiment.master, experiment.workers.default, experiment.servers.default)
        if "max_restarts" in properties
    ]
    if len(set(limits)) > 1:
        notes.warn("environment.max_restarts", f"is counted over the whole job here, not for each task: at most {max(limits)}")
    policy = dict(experiment.run_policy)
    if limits:
        if "backoffLimit" in policy:
            notes.error("termination.max_retries", "environment.max_restarts says the same: remove one")
        policy["backoffLimit"] = max(limits)
    elif kind.name == "MPIJob":
        # An MPIJob's launcher is tried six times more unless told not to; Polyaxon's was not.
        policy.setdefault("backoffLimit", 0)
    mode = {"jobMode": "MXTrain"} if kind is MXJOB else {}
    return Draft(
        kind=kind,
        name=experiment.name,
        replicas=replicas,
        annotations=experiment.annotations,
        run_policy=policy,
        spec={**(spec or {}), **mode},
    )
