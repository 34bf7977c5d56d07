"""JAXJob, a fifth framework: what a third party writes to have its own kind of job. Nothing else in the project knows it."""

from collections.abc import Sequence

from jobcommon import EnvVar, Framework, Job, Replica, ReplicaType, ScalePaths


def env(job: Job, replica: Replica) -> Sequence[EnvVar]:
    """What jax.distributed.initialize needs to know."""
    return (
        EnvVar("PYTHONUNBUFFERED", "1", default=True),
        EnvVar("COORDINATOR_PORT", str(JAX.port_of(job.replica_specs.get("Worker")))),
        EnvVar("COORDINATOR_ADDRESS", job.address(Replica("Worker", 0))),
        EnvVar("NUM_PROCESSES", str(job.total_replicas)),
        EnvVar("PROCESS_ID", str(replica.index)),
    )


JAX = Framework(
    kind="JAXJob",
    plural="jaxjobs",
    name="jax",
    replica_specs="jaxReplicaSpecs",
    replica_types=(ReplicaType("Worker", min_replicas=1, required=True),),
    container="jax",
    port_name="jaxjob-port",
    port=6666,
    env=env,
    scale=ScalePaths(
        spec=".spec.jaxReplicaSpecs.Worker.replicas",
        status=".status.replicaStatuses.Worker.active",
        selector=".status.replicaStatuses.Worker.selector",
    ),
)
