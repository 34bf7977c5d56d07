"""JAXJob: what JAX adds to the common job controller.

Behaviour: that of training-operator's JAXJob v1. The job runs while a worker runs, and has succeeded when all have.
"""

from collections.abc import Sequence

from jobcommon import UNBUFFERED, EnvVar, Framework, Job, Replica, ReplicaType, ScalePaths

WORKER = "Worker"
REPLICA_SPECS = "jaxReplicaSpecs"


def env(job: Job, replica: Replica) -> Sequence[EnvVar]:
    """What jax.distributed.initialize needs to know, in every container: the first worker coordinates."""
    return (
        UNBUFFERED,
        EnvVar("COORDINATOR_PORT", str(JAX.port_of(job.replica_specs.get(WORKER)))),
        EnvVar("COORDINATOR_ADDRESS", job.address(job.first(WORKER))),
        EnvVar("NUM_PROCESSES", str(job.total_replicas)),
        EnvVar("PROCESS_ID", str(job.rank_of(replica))),
    )


JAX = Framework(
    kind="JAXJob",
    plural="jaxjobs",
    name="jax",
    replica_specs=REPLICA_SPECS,
    replica_types=(ReplicaType(WORKER, min_replicas=1, required=True),),
    container="jax",
    port_name="jaxjob-port",
    port=6666,
    env=env,
    scale=ScalePaths.of_type(REPLICA_SPECS),
)
