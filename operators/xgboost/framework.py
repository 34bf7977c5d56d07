"""XGBoostJob: what XGBoost and LightGBM add to the common job controller.

Behaviour: that of training-operator's XGBoostJob v1. The master runs XGBoost's tracker; a LightGBM job reads the workers' list.
"""

from collections.abc import Sequence

from jobcommon import UNBUFFERED, EnvVar, Framework, Job, Replica, ReplicaType, last_result_cached, succeed_with

MASTER, WORKER = "Master", "Worker"
REPLICA_SPECS = "xgbReplicaSpecs"


def env(job: Job, replica: Replica) -> Sequence[EnvVar]:
    """The tracker's address, and for LightGBM the workers', in every container."""
    specs = job.replica_specs
    rank = job.rank_of(replica) + (job.count(MASTER) if replica.type == WORKER else 0)
    variables = [
        EnvVar("MASTER_PORT", str(XGBOOST.port_of(specs.get(MASTER)))),
        EnvVar("MASTER_ADDR", job.address(job.first(MASTER))),
        EnvVar("WORLD_SIZE", str(job.total_replicas)),
        EnvVar("RANK", str(rank)),
        UNBUFFERED,
    ]
    if job.count(WORKER):
        variables.append(EnvVar("WORKER_PORT", str(XGBOOST.port_of(specs.get(WORKER)))))
        variables.append(EnvVar("WORKER_ADDRS", _worker_addresses(job)))
    return variables


@last_result_cached
def _worker_addresses(job: Job) -> str:
    return ",".join(map(job.address, job.replicas_of(WORKER)))


XGBOOST = Framework(
    kind="XGBoostJob",
    plural="xgboostjobs",
    name="xgboost",
    replica_specs=REPLICA_SPECS,
    replica_types=(ReplicaType(MASTER, min_replicas=1, max_replicas=1, required=True), ReplicaType(WORKER)),
    container="xgboost",
    port_name="xgboostjob-port",
    port=9999,
    env=env,
    outcome=succeed_with(MASTER),
)
