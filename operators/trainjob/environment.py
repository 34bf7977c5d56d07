"""What the pods of a TrainJob know of each other: variables, and for MPI the files.

`addresses` are by role those of its pods, in order of rank: of an elastic job those of the present attempt.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from jobcommon import (
    Companion,
    CompanionKind,
    EnvVar,
    mappings_in,
    mount,
    new_ssh_keys,
    open_mpi_hosts,
    open_mpi_variables,
    ssh_volume,
)
from jobcommon.operators.trainjob.labels import COMPLETION_INDEX
from jobcommon.operators.trainjob.resolve import LAUNCHER, NODE
from jobcommon.operators.trainjob.resolved import Json, MLFramework, Resolved, Role, Step

Addresses = Mapping[str, Sequence[str]]
PORT = 29500
HOSTFILE_DIR, HOSTFILE = "/etc/mpi", "hostfile"
SSH_VOLUME, HOSTFILE_VOLUME = "mpi-ssh-auth", "mpi-hostfile"
KINDS = (
    CompanionKind("v1", "ConfigMap", "configmaps", watched=False),
    CompanionKind("v1", "Secret", "secrets", watched=False),
)
# As each pod of an indexed Job has it.
_PATH = f"metadata.annotations['{COMPLETION_INDEX}']"
_INDEX = {"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"fieldPath": _PATH}}}
_TASKS = ("chief", "master", "ps", "worker", "evaluator")


def environment(resolved: Resolved, role: Role, rank: int, addresses: Addresses) -> Sequence[EnvVar]:
    """The variables of the main container of the pod of that rank in its role."""
    framework = resolved.policy.framework
    if framework is MLFramework.TENSORFLOW:
        return _tensorflow(resolved, role, rank, addresses)
    if framework is MLFramework.MPI:
        slots = resolved.policy.processes or 1
        return open_mpi_variables(f"{HOSTFILE_DIR}/{HOSTFILE}", slots) if role.name == LAUNCHER else ()
    if role.step is not Step.TRAINER:
        return ()
    members = addresses[role.name]
    match framework:
        case MLFramework.TORCH:
            return _torch(resolved, rank, members)
        case MLFramework.JAX:
            # The user's own win, as in Trainer.
            return (
                EnvVar("JAX_NUM_PROCESSES", str(len(members)), default=True),
                EnvVar("JAX_PROCESS_ID", str(rank), default=True),
                EnvVar("JAX_COORDINATOR_ADDRESS", f"{members[0]}:{PORT}", default=True),
            )
        case MLFramework.XGBOOST:
            return (
                EnvVar("DMLC_TRACKER_URI", members[0]),
                EnvVar("DMLC_TRACKER_PORT", str(PORT)),
                EnvVar("DMLC_TASK_ID", str(rank)),
                EnvVar("DMLC_NUM_WORKER", str(len(members) * (resolved.policy.processes or 1))),
            )
    return ()


def shape_pod(resolved: Resolved, role: Role, rank: int, addresses: Addresses, pod: dict[str, Any]) -> dict[str, Any]:
    """The pod with the port of its main container, its index and the variables of further containers, and MPI's mounts."""
    policy, spec = resolved.policy, pod["spec"]
    if policy.framework is MLFramework.MPI and role.name in (LAUNCHER, NODE):
        mount(spec, ssh_volume(SSH_VOLUME, ssh_secret(resolved), policy.ssh_path, spec), policy.ssh_path)
        if role.name == LAUNCHER:
            files = [{"key": HOSTFILE, "path": HOSTFILE, "mode": 0o444}]
            mount(
                spec, {"name": HOSTFILE_VOLUME, "configMap": {"name": hostfile_config(resolved), "items": files}}, HOSTFILE_DIR
            )
    elif role.step is Step.TRAINER and policy.framework in (MLFramework.TORCH, MLFramework.JAX, MLFramework.XGBOOST):
        main = spec["containers"][0]
        if all(port.get("containerPort") != PORT for port in mappings_in(main.get("ports"))):
            main["ports"] = [*(main.get("ports") or ()), {"containerPort": PORT}]
    trainer, wanted = resolved.trainer, policy.targets.get(role.name, frozenset())
    for part in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(part) or ()):
            found = {}
            if container.get("name") in wanted and trainer is not None:
                variables = _torch(resolved, rank, addresses[trainer.name])
                found = {one.name: {"name": one.name, "value": one.value} for one in variables}
            kept = [one for one in mappings_in(container.get("env")) if one.get("name") not in found]
            index = [] if any(one.get("name") == _INDEX["name"] for one in kept) else [_INDEX]
            spec[part][number] = {**container, "env": [*kept, *found.values(), *index]}
    return pod


def companions(resolved: Resolved, addresses: Addresses, *, running: bool) -> Sequence[Companion]:
    """The hostfile of an MPI job and its keys, which it has while it is `running`: a resumed job has new ones."""
    if resolved.policy.framework is not MLFramework.MPI:
        return ()
    keys = {"type": "kubernetes.io/ssh-auth", "immutable": True} if running else None
    secret = Companion("v1", "Secret", "secrets", ssh_secret(resolved), keys, owned_fields=(), generate=new_ssh_keys)
    if not running:
        return (secret,)
    files: Json = {"data": {HOSTFILE: hostfile(resolved, addresses)}}
    return (secret, Companion("v1", "ConfigMap", "configmaps", hostfile_config(resolved), files, owned_fields=("data",)))


def hostfile(resolved: Resolved, addresses: Addresses) -> str:
    """A line for each node, in the runtime's order of roles.

    The launcher is named as it calls itself, or mpirun takes it for another host, on which it waits for its daemon.
    """
    hosts = {NODE: addresses[NODE]}
    if resolved.policy.launcher_is_node:
        hosts[LAUNCHER] = [address.partition(".")[0] for address in addresses[LAUNCHER]]
    listed = (host for role in resolved.roles for host in hosts.get(role.name, ()))
    return open_mpi_hosts(listed, resolved.policy.processes or 1)


def ssh_secret(resolved: Resolved) -> str:
    """The name of the Secret with the keys."""
    return f"{resolved.name}-mpi-ssh-auth"


def hostfile_config(resolved: Resolved) -> str:
    """The name of the ConfigMap with the hostfile."""
    return f"{resolved.name}-mpi-hostfile"


def _torch(resolved: Resolved, rank: int, members: Sequence[str]) -> Sequence[EnvVar]:
    processes = resolved.policy.processes
    return (
        EnvVar("PET_NNODES", str(len(members))),
        EnvVar("PET_NPROC_PER_NODE", "auto" if processes is None else str(processes)),
        EnvVar("PET_NODE_RANK", str(rank)),
        EnvVar("PET_MASTER_ADDR", members[0]),
        EnvVar("PET_MASTER_PORT", str(PORT)),
    )


def task(role: Role) -> str:
    """What the pods of a role are to TensorFlow; "" for nothing."""
    return role.name if role.name in _TASKS else "worker" if role.step is Step.TRAINER else ""


def _tensorflow(resolved: Resolved, role: Role, rank: int, addresses: Addresses) -> Sequence[EnvVar]:
    """TF_CONFIG of a job with several pods. Roles of the same task follow each other."""
    cluster: dict[str, list[str]] = {}
    index = rank
    for one in resolved.roles:
        if not (kind := task(one)):
            continue
        if one is role:
            index += len(cluster.get(kind, ()))
        cluster.setdefault(kind, []).extend(f"{address}:{PORT}" for address in addresses[one.name])
    if not (own := task(role)) or sum(map(len, cluster.values())) < 2:
        return ()
    config = {"cluster": cluster, "task": {"type": own, "index": index}, "environment": "cloud"}
    return (EnvVar("TF_CONFIG", msgspec.json.encode(config).decode()),)
