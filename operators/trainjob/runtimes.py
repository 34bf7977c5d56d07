"""The runtimes that come with the operator: for clusters, and for one whose pods are processes on this machine."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from jobcommon.operators.trainjob.kinds import data

Json = dict[str, Any]
_LOCAL = ("torch-distributed", "jax-distributed", "xgboost-distributed", "mpi-distributed", "plain", "tensorflow-distributed")
# Where the SDK writes a function that mpirun starts; any other one it writes into the current directory.
_DIRECTORY, _MPI_DIRECTORY = "/workspace", "/home/mpiuser"
# Processes of this machine run as its user, and the keys of its sshds are as new as the pods.
_AS_ROOT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null "
    "-o LogLevel=ERROR",
}


def shipped() -> Sequence[Json]:
    """Those with images, as the chart installs them."""
    found: Sequence[Json] = data("runtimes.yaml")
    return found


def local() -> Sequence[Json]:
    """Those of one machine, whose images are not pulled: each pod has a directory of its own, in which its program begins.

    The SDK writes a function into the current directory, under the name of the user's own file.
    """
    return [_local(runtime) for runtime in shipped() if runtime["metadata"]["name"] in _LOCAL]


def _local(runtime: Json) -> Json:
    found = deepcopy(runtime)
    mpi = found["spec"]["mlPolicy"].get("mpi")
    directory = _MPI_DIRECTORY if mpi is not None else _DIRECTORY
    if mpi is not None:
        mpi["sshAuthMountPath"] = "/root/.ssh"
    for job in found["spec"]["template"]["spec"]["replicatedJobs"]:
        pod = job["template"]["spec"]["template"]["spec"]
        pod.pop("securityContext", None)
        pod["volumes"] = [{"name": "workspace", "emptyDir": {}}]
        for container in pod["containers"]:
            for name in ("securityContext", "readinessProbe", "args"):
                container.pop(name, None)
            container |= {"workingDir": directory, "volumeMounts": [{"name": "workspace", "mountPath": directory}]}
            if "command" in container:
                container["command"] = ["/usr/sbin/sshd", "-De"]
            elif mpi is not None:
                container["env"] = [{"name": name, "value": value} for name, value in _AS_ROOT.items()]
    return found
