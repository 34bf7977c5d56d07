"""What a valid PyTorchJob sets in vain: about torchrun."""

import re

from jobcommon import Check, Framework, Job, ReplicaSpec, RestartPolicy, command_line, containers_of, last_result_cached

MASTER, WORKER = "Master", "Worker"
_TORCHRUN = re.compile(r"(?<![\w.-])(?:torchrun|torch\.distributed\.(?:run|launch))(?![\w./-])")
_ALONE = re.compile(r"--standalone\b|--nnodes[= ]1(?![\d:])")
_RENDEZVOUS = re.compile(r"--(?:rdzv|master)[-_](?:endpoint|addr)\b")
_RENDEZVOUS_VARIABLES = {"PET_RDZV_ENDPOINT", "PET_MASTER_ADDR", "PET_STANDALONE"}


def _torchrun(spec: ReplicaSpec) -> bool:
    return _TORCHRUN.search(command_line(spec.template)) is not None


@last_result_cached
def _command(job: Job) -> str:
    return " ".join(command_line(spec.template) for spec in job.replica_specs.values())


def _in_a_group(job: Job) -> bool:
    """Whether agents of torchrun in several pods form one group by options of a fixed size."""
    elastic = getattr(job.spec, "elastic_policy", None) is not None
    command = "" if elastic or job.total_replicas < 2 else _command(job)
    return bool(_TORCHRUN.search(command)) and not _ALONE.search(command)


def _restarted_alone(_framework: Framework, job: Job) -> str | None:
    if job.restarts_together or not _in_a_group(job):
        return None
    return (
        "the command is torchrun, whose agents do not survive the restart of another (pytorch#111646, pytorch#67742): "
        "set spec.runPolicy.restartScope to Job"
    )


def _without_rendezvous(_framework: Framework, job: Job) -> str | None:
    if MASTER in job.replica_specs or not _in_a_group(job) or _RENDEZVOUS.search(_command(job)):
        return None
    if not _RENDEZVOUS_VARIABLES.isdisjoint(name for spec in job.replica_specs.values() for name in _variables(spec)):
        return None
    return (
        "torchrun has no rendezvous, so the Workers do not find each other: add a Master or elasticPolicy, or give "
        f"--rdzv-endpoint {job.name}-worker-0:29500 --rdzv-backend c10d"
    )


def _variables(spec: ReplicaSpec) -> set[str]:
    """The names in env; with envFrom nothing is known, and all that may be there is."""
    containers = list(containers_of(spec.template))
    entries = [entry for one in containers for entry in one.get("env") or ()]
    return {str(entry.get("name")) for entry in entries} | (
        _RENDEZVOUS_VARIABLES if any(one.get("envFrom") for one in containers) else set()
    )


def _exit_code(_framework: Framework, job: Job) -> str | None:
    kinds = [k for k, spec in job.replica_specs.items() if spec.restart_policy == RestartPolicy.EXIT_CODE and _torchrun(spec)]
    if not kinds:
        return None
    return (
        "torchrun exits with code 1 whatever has ended its processes, which ExitCode does not restart: set restartPolicy "
        f"OnFailure for {' and '.join(kinds)}"
    )


CHECKS = (
    Check(
        "TorchrunRestartedAlone",
        "torchrun in several pods with `restartScope: Pod` and no `elasticPolicy`: an agent that is restarted finds no group",
        _restarted_alone,
    ),
    Check(
        "TorchrunWithoutRendezvous",
        "torchrun in workers without a Master, without `elasticPolicy`, and without an address in its options or variables",
        _without_rendezvous,
    ),
    Check(
        "TorchrunExitCode",
        "torchrun with `restartPolicy: ExitCode`: its exit code is 1 even if a process was killed",
        _exit_code,
    ),
)
