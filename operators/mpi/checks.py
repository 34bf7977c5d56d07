"""What a valid MPIJob sets in vain: more ranks than slots, and keys that a user cannot read."""

import math
import re
from typing import Any

from jobcommon import Check, Framework, Job, command_line
from jobcommon.operators.mpi.job import (
    DEFAULT_SSH_PATH,
    LAUNCHER,
    WORKER,
    containers,
    implementation,
    launcher_works,
    slots,
    ssh_path,
    transport,
)
from jobcommon.operators.mpi.spec import Implementation, LauncherTransport

# -n may be an option of the program, if it does not follow at once.
_RANKS = re.compile(
    r"(?<![\w.-])(?:mpirun|mpiexec)(?:\s+--[\w-]+)*(?:(?:\s+-n|\s+-c)|\s(?:[^;&|]*\s)?--?np)[\s=]+(\d{1,6})(?!\S)"
)
_NO_HOST = "add a Worker, or set spec.runLauncherAsWorker"
# The ranks are placed by other means than the job's host file.
_OTHERWISE = re.compile(r"oversubscribe|--?(?:host|hostfile|machinefile|H|rankfile)\b", re.IGNORECASE)


def _too_many_ranks(_framework: Framework, job: Job) -> str | None:
    launcher = job.replica_specs.get(LAUNCHER)
    if launcher is None or implementation(job) != Implementation.OPEN_MPI:
        return None
    command = command_line(launcher.template)
    variables = (str(entry.get("name")) for one in containers(job, LAUNCHER) for entry in one.get("env") or ())
    asked = _RANKS.search(command)
    if asked is None or _OTHERWISE.search(" ".join((command, *variables))):
        return None
    ranks, hosts, each = int(asked[1]), job.count(WORKER) + launcher_works(job), slots(job)
    if ranks <= hosts * each:
        return None
    more = f"set spec.slotsPerWorker to {math.ceil(ranks / hosts)}, or add --oversubscribe" if hosts else _NO_HOST
    found = f"{hosts * each} slots ({hosts} {'host' if hosts == 1 else 'hosts'} with slotsPerWorker {each})"
    return f"mpirun -np {ranks} finds {found} and starts nothing: {more}"


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
        "MoreRanksThanSlots",
        "`mpirun -np N` of Open MPI has a larger N than the hosts have slots (`slotsPerWorker`), and names no hosts itself",
        _too_many_ranks,
    ),
    Check(
        "KeysOutOfReach",
        f"launcher or workers run as another user than root, and the keys are at the default `{DEFAULT_SSH_PATH}`",
        _keys_out_of_reach,
    ),
)
