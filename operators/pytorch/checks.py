"""What a valid PyTorchJob sets in vain: about torchrun, and about processes and devices."""

import re
from collections.abc import Mapping
from typing import Any

from jobcommon import Check, Framework, Job, ReplicaSpec, RestartPolicy, command_line, containers_of, last_result_cached

MASTER, WORKER = "Master", "Worker"
_TORCHRUN = re.compile(r"(?<![\w.-])(?:torchrun|torch\.distributed\.(?:run|launch))(?![\w./-])")
_ALONE = re.compile(r"--standalone\b|--nnodes[= ]1(?![\d:])")
_RENDEZVOUS = re.compile(r"--(?:rdzv|master)[-_](?:endpoint|addr)\b")
_RENDEZVOUS_VARIABLES = {"PET_RDZV_ENDPOINT", "PET_MASTER_ADDR", "PET_STANDALONE"}
_COUNT = re.compile(r"\d{1,6}")
_PYTHON = re.compile(r"(?<![\w.-])python[\d.]*(?:\s|$)")
# What starts several processes itself, by its name or by that of a script.
_LAUNCHERS = re.compile(
    r"torchrun|torch\.distributed|launch|accelerate|deepspeed|mpirun|mpiexec|horovod|composer|lightning|spawn|\bray\b"
)
_BY_SSH = re.compile(r"(?<![\w.-])deepspeed\b(?![^;&|]*--no_ssh\b)[^;&|]*--?(?:hostfile|H)\b")
_MACHINES = re.compile(r"(?<![\w.-])accelerate[\s-]+launch\b[^;&|]*?(--num[_-]machines[= ](?!1\b)\d+)")
_MAIN_PROCESS = re.compile(r"--(?:main_process_ip|main-process-ip|config_file|config-file)\b")
_DEVICES = re.compile(
    r"(?:[\w.-]+/gpu|gpu\.intel\.com/(?:i915|xe)|habana\.ai/gaudi|huawei\.com/(?:npu|ascend\w*))", re.IGNORECASE
)


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


def _one_process(_framework: Framework, job: Job) -> str | None:
    if job.total_replicas < 2 or _LAUNCHERS.search(_command(job)):
        return None
    processes = str(getattr(job.spec, "nproc_per_node", None) or "")
    for kind, spec in job.replica_specs.items():
        if not job.count(kind) or not _PYTHON.search(command_line(spec.template)):
            continue
        start = f"python starts one process in each {kind}"
        if MASTER in job.replica_specs and processes.isdecimal() and int(processes) > 1:
            return f"{start}, while WORLD_SIZE counts nprocPerNode, {processes}: start the program with torchrun"
        name, amount = max(_devices(spec).items(), key=lambda entry: entry[1], default=("", 0))
        if amount > 1:
            return f"{start} with {amount} {name}, unless the program starts more: start it with torchrun, or request 1"
        if claims := [claim.get("name") for one in _resources(spec) for claim in one.get("claims") or ()]:
            return f"{start} with the devices of claim {claims[0]}: if it has several, start the program with torchrun"
    return None


def _by_ssh(_framework: Framework, job: Job) -> str | None:
    pods = [kind for kind, spec in job.replica_specs.items() if _BY_SSH.search(command_line(spec.template))]
    if sum(map(job.count, pods)) < 2:
        return None
    return (
        f"deepspeed --hostfile in each {' and '.join(pods)} starts the program in all pods by ssh: start it with torchrun, or "
        "use an MPIJob, whose launcher alone starts it"
    )


def _accelerate(_framework: Framework, job: Job) -> str | None:
    if job.total_replicas < 2 or not (found := _MACHINES.search(_command(job))) or _MAIN_PROCESS.search(_command(job)):
        return None
    options = "--main_process_ip $(MASTER_ADDR) --main_process_port $(MASTER_PORT) --machine_rank $(RANK)"
    give = f"{'' if MASTER in job.replica_specs else 'add a Master, and '}give {options}"
    return f"accelerate launch {found[1]} has no address, which it does not read from variables: {give}"


def _resources(spec: ReplicaSpec) -> list[Mapping[str, Any]]:
    found = (one.get("resources") for one in containers_of(spec.template))
    return [one for one in found if isinstance(one, Mapping)]


def _devices(spec: ReplicaSpec) -> Mapping[str, int]:
    limits = (one.get("limits") for one in _resources(spec))
    pairs = [(str(name), str(amount)) for one in limits if isinstance(one, Mapping) for name, amount in one.items()]
    return {name: int(amount) for name, amount in pairs if _DEVICES.fullmatch(name) and _COUNT.fullmatch(amount)}


CHECKS = (
    Check(
        "DeepSpeedBySsh",
        "`deepspeed --hostfile` in several pods: each starts the program in all of them by ssh, which their images lack",
        _by_ssh,
    ),
    Check(
        "AccelerateWithoutAddress",
        "`accelerate launch` for several machines without `--main_process_ip` or `--config_file`",
        _accelerate,
    ),
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
    Check(
        "OneProcess",
        "`python` starts the program in a job of several pods, each with several devices, those of a ResourceClaim, or "
        "a number as `nprocPerNode`; a program that starts processes itself, as with Lightning, needs no change",
        _one_process,
    ),
)
