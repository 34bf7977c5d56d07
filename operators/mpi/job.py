"""The settings of an MPIJob, for the other modules of the operator."""

from collections.abc import Mapping, Sequence
from typing import Any

from jobcommon import Job, Replica, containers_of
from jobcommon.operators.mpi.options import MPIOptions
from jobcommon.operators.mpi.spec import Implementation, LauncherCreationPolicy, LauncherTransport, MPIJobSpec

LAUNCHER, WORKER = "Launcher", "Worker"
REPLICA_SPECS = "mpiReplicaSpecs"
THE_LAUNCHER = Replica(LAUNCHER, 0)
CONFIG_PATH = "/etc/mpi"
HOSTFILE, DISCOVER_HOSTS, KUBEXEC = "hostfile", "discover_hosts.sh", "kubexec.sh"
DEFAULT_SSH_PATH = "/root/.ssh"


def mpi_spec(job: Job) -> MPIJobSpec:
    """The job's spec; a default one for a job whose spec could not be read."""
    return job.spec if isinstance(job.spec, MPIJobSpec) else MPIJobSpec()


def mpi_options(job: Job) -> MPIOptions:
    """The operator's own options."""
    return job.own_options if isinstance(job.own_options, MPIOptions) else MPIOptions()


def transport(job: Job) -> LauncherTransport:
    """How mpirun reaches the workers."""
    return mpi_spec(job).transport or LauncherTransport.SSH


def implementation(job: Job) -> Implementation:
    """The MPI library."""
    return mpi_spec(job).mpi_implementation or Implementation.OPEN_MPI


def slots(job: Job) -> int:
    """Ranks per worker."""
    return mpi_spec(job).slots_per_worker or 1


def ssh_path(job: Job) -> str:
    """Where the keys are mounted."""
    return mpi_spec(job).ssh_auth_mount_path or DEFAULT_SSH_PATH


def waits_for_workers(job: Job) -> bool:
    """Whether the launcher starts only when all workers are ready. An exec into a worker that is not fails at once."""
    policy = mpi_spec(job).launcher_creation_policy
    if policy is None:
        return transport(job) == LauncherTransport.EXEC
    return policy == LauncherCreationPolicy.WAIT_FOR_WORKERS_READY


def retried_like_a_batch_job(job: Job) -> bool:
    """Whether the launcher is run again within backoffLimit whatever its restart policy: it was a batch Job in v2beta1 and
    v1alpha2. The latter is known by the place of its backoffLimit, which it alone had directly in spec.
    """
    return transport(job) == LauncherTransport.SSH or mpi_spec(job).backoff_limit is not None


def launcher_works(job: Job) -> bool:
    """Whether the launcher is a host, too. In v1 it was one by asking for a GPU."""
    asked = mpi_spec(job).run_launcher_as_worker
    return bool(asked) if asked is not None or transport(job) == LauncherTransport.SSH else launcher_has_gpu(job)


def launcher_has_gpu(job: Job) -> bool:
    """Whether a container of the launcher has a limit on a GPU resource, of whatever vendor."""
    limits = (_limits(container) for container in containers(job, LAUNCHER))
    return any("gpu" in name for names in limits for name in names)


def containers(job: Job, kind: str) -> Sequence[Mapping[str, Any]]:
    """The containers in the template of a replica type."""
    spec = job.replica_specs.get(kind)
    return list(containers_of(spec.template)) if spec else []


def workers(job: Job) -> list[Replica]:
    """The wanted workers."""
    return job.replicas_of(WORKER)


def host(job: Job, replica: Replica) -> str:
    """The name under which mpirun knows a replica: what ssh can resolve, or what kubectl exec takes."""
    return job.address(replica) if transport(job) == LauncherTransport.SSH else job.pod_name(replica)


def _limits(container: Mapping[str, Any]) -> Sequence[str]:
    resources = container.get("resources")
    limits = resources.get("limits") if isinstance(resources, Mapping) else None
    return [str(name).lower() for name in limits] if isinstance(limits, Mapping) else []
