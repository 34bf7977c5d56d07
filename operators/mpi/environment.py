"""The variables of an MPIJob's main containers. mpirun reads its settings from those of the launcher.

Tried over ssh and over kubectl exec with Open MPI 4.1.4 and 5.0.11, MPICH 5.0.2 and Intel MPI 2021.19.
"""

from collections.abc import Sequence

from jobcommon import SSH_ARGS, EnvVar, Job, Replica, open_mpi_variables
from jobcommon.operators.mpi.job import (
    CONFIG_PATH,
    HOSTFILE,
    KUBEXEC,
    LAUNCHER,
    implementation,
    launcher_has_gpu,
    launcher_works,
    mpi_spec,
    slots,
    transport,
)
from jobcommon.operators.mpi.spec import Implementation, LauncherTransport

HOSTFILE_PATH = f"{CONFIG_PATH}/{HOSTFILE}"
KUBEXEC_PATH = f"{CONFIG_PATH}/{KUBEXEC}"


def env(job: Job, replica: Replica) -> Sequence[EnvVar]:
    """The role, and for the launcher what mpirun reads."""
    role = EnvVar("K_MPI_JOB_ROLE", replica.type.lower())
    if replica.type != LAUNCHER:
        return (role,)
    variables = [role, *(_ssh_env(job) if transport(job) == LauncherTransport.SSH else _exec_env(job))]
    if not launcher_works(job) and not launcher_has_gpu(job):
        # Without this a launcher on a GPU node sees all of its GPUs.
        variables += [EnvVar("NVIDIA_VISIBLE_DEVICES", ""), EnvVar("NVIDIA_DRIVER_CAPABILITIES", "")]
    return variables


def _ssh_env(job: Job) -> list[EnvVar]:
    count = str(slots(job))
    match implementation(job):
        case Implementation.OPEN_MPI:
            return open_mpi_variables(HOSTFILE_PATH, slots(job))
        case Implementation.INTEL:
            return [
                EnvVar("I_MPI_HYDRA_HOST_FILE", HOSTFILE_PATH),
                EnvVar("I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", SSH_ARGS, default=True),
                EnvVar("I_MPI_PERHOST", count),
            ]
        case Implementation.MPICH:
            return [
                EnvVar("HYDRA_HOST_FILE", HOSTFILE_PATH),
                EnvVar("HYDRA_LAUNCHER_EXTRA_ARGS", SSH_ARGS, default=True),
                # mpi-operator's name for it, which MPICH does not read; an image may.
                EnvVar("HYDRA_LAUNCH_EXTRA_ARGS", SSH_ARGS, default=True),
            ]


def _exec_env(job: Job) -> list[EnvVar]:
    """kubexec.sh as the remote shell. v1 did not ask for the implementation and set Open MPI's and Intel's variables."""
    open_mpi = [
        EnvVar("OMPI_MCA_plm_rsh_agent", KUBEXEC_PATH),
        EnvVar("OMPI_MCA_orte_default_hostfile", HOSTFILE_PATH),
        EnvVar("PRTE_MCA_plm_ssh_agent", KUBEXEC_PATH),
        EnvVar("PRTE_MCA_prte_default_hostfile", HOSTFILE_PATH),
    ]
    intel = [
        EnvVar("I_MPI_HYDRA_BOOTSTRAP", "rsh", default=True),
        EnvVar("I_MPI_HYDRA_BOOTSTRAP_EXEC", KUBEXEC_PATH, default=True),
    ]
    match mpi_spec(job).mpi_implementation:
        case Implementation.OPEN_MPI:
            return open_mpi
        case Implementation.INTEL:
            return [*intel, EnvVar("I_MPI_HYDRA_HOST_FILE", HOSTFILE_PATH)]
        case Implementation.MPICH:
            return [EnvVar("HYDRA_LAUNCHER_EXEC", KUBEXEC_PATH), EnvVar("HYDRA_HOST_FILE", HOSTFILE_PATH)]
        case None:
            return [*open_mpi, *intel]
