"""What a valid MPIJob sets in vain: keys that a user cannot read."""

from typing import Any

from jobcommon import Check, Framework, Job
from jobcommon.operators.mpi.job import (
    DEFAULT_SSH_PATH,
    LAUNCHER,
    WORKER,
    containers,
    ssh_path,
    transport,
)
from jobcommon.operators.mpi.spec import LauncherTransport


def _keys_out_of_reach(_framework: Framework, job: Job) -> str | None:
    path = ssh_path(job)
    if transport(job) != LauncherTransport.SSH or not f"{path}/".startswith("/root/"):
        return None
    users = {kind: user for kind in (LAUNCHER, WORKER) if (user := _user(job, kind))}
    if not users:
        return None
    who = f"{next(iter(users.values()))} of {' and '.join(users)}"
    where = "set spec.sshAuthMountPath to the .ssh of the user's home, such as /home/mpiuser/.ssh"
    return f"{who} may not enter /root, where the ssh keys are: {where}"


def _user(job: Job, kind: str) -> str:
    """The user of the main container, if the template says that it is not root."""
    spec = job.replica_specs.get(kind)
    pod: dict[str, Any] = (spec.template.get("spec") or {}) if spec is not None and job.count(kind) else {}
    contexts = [pod.get("securityContext"), *(one.get("securityContext") for one in containers(job, kind)[:1])]
    context = {key: value for one in contexts if isinstance(one, dict) for key, value in one.items()}
    if isinstance(user := context.get("runAsUser"), int):
        return f"user {user}" if user else ""
    return "the user" if context.get("runAsNonRoot") is True else ""


CHECKS = (
    Check(
        "KeysOutOfReach",
        f"launcher or workers run as another user than root, and the keys are at the default `{DEFAULT_SSH_PATH}`",
        _keys_out_of_reach,
    ),
)
