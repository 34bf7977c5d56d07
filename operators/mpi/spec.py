"""The spec of an MPIJob beyond what every job has: one superset of the v1alpha2, v1 and v2beta1 forms."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from jobcommon import BY_VALUE, FlatRunPolicySpec, Int32


class LauncherTransport(StrEnum):
    """How mpirun reaches the workers."""

    SSH = "SSH"
    EXEC = "Exec"


class Implementation(StrEnum):
    """The MPI library, which decides on the form of the hostfile and on the variables."""

    OPEN_MPI = "OpenMPI"
    INTEL = "Intel"
    MPICH = "MPICH"


class Distribution(StrEnum):
    """The MPI library by v1alpha2's names."""

    OPEN_MPI = "OpenMPI"
    INTEL = "IntelMPI"
    MPICH = "MPICH"


class LauncherCreationPolicy(StrEnum):
    """When the launcher is started."""

    AT_STARTUP = "AtStartup"
    WAIT_FOR_WORKERS_READY = "WaitForWorkersReady"


class MPIJobSpec(FlatRunPolicySpec):
    """An MPIJob."""

    slots_per_worker: Int32 | None = Field(None, ge=1, description="MPI ranks per worker. Defaults to 1.")
    mpi_implementation: Annotated[Implementation, BY_VALUE] | None = Field(
        None, description="OpenMPI (the default; 4 and 5), Intel or MPICH."
    )
    mpi_distribution: Annotated[Distribution, BY_VALUE] | None = Field(
        None, description="v1alpha2's name of mpiImplementation: OpenMPI, IntelMPI or MPICH."
    )
    transport: Annotated[LauncherTransport, BY_VALUE] | None = Field(
        None,
        description="How mpirun reaches the workers: SSH, with a key of the job's own (v2beta1), or Exec, by kubectl exec "
        "with a Role of the job's own (v1, v1alpha2). Defaults to that of the version in which the job was created.",
    )
    ssh_auth_mount_path: str | None = Field(
        None, description="Where the job's SSH keys are mounted: the .ssh directory of the user. Defaults to /root/.ssh."
    )
    launcher_creation_policy: Annotated[LauncherCreationPolicy, BY_VALUE] | None = Field(
        None,
        description="AtStartup: the launcher starts when the pods of all workers are created; WaitForWorkersReady: when all "
        "workers are ready. Both hold for each start by the operator. Defaults to AtStartup with transport SSH, which retries "
        "until the workers answer, and to WaitForWorkersReady with transport Exec.",
    )
    run_launcher_as_worker: bool | None = Field(None, description="The launcher takes part as the first host.")
    main_container: str | None = Field(
        None, description="With transport Exec: the workers' container in which the ranks run. Defaults to the first."
    )
