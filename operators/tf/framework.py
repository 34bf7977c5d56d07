"""TFJob: what TensorFlow adds to the common job controller.

Behaviour: that of the reference's TFJob v1, with its defects put right (docs/deviations.md).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from jobcommon import (
    UNBUFFERED,
    CelRule,
    EnvVar,
    FieldError,
    Framework,
    Job,
    Outcome,
    Replica,
    ReplicaType,
    RestartPolicy,
    ScalePaths,
    Tallies,
    Tally,
    Version,
    last_result_cached,
    lift_run_policy,
    succeed_with,
)
from jobcommon.operators.tf.spec import SuccessPolicy, TFJobSpec

CHIEF, MASTER, PS, WORKER, EVALUATOR = "Chief", "Master", "PS", "Worker", "Evaluator"
LEADERS = (CHIEF, MASTER)
REPLICA_SPECS = "tfReplicaSpecs"


def env(job: Job, replica: Replica) -> Sequence[EnvVar]:
    """For the main container: that its log can be followed and, in a job with more than one replica, TF_CONFIG."""
    if job.total_replicas == 1:
        return (UNBUFFERED,)
    task = _compact({"type": replica.type.lower(), "index": job.rank_of(replica)})
    if tf_spec(job).enable_dynamic_worker:
        config = f'{{"cluster":{_compact(_sparse_cluster(job, replica))},"task":{task}}}'
    else:
        config = f'{{"cluster":{_cluster(job)},"task":{task},"environment":"cloud"}}'
    return (UNBUFFERED, EnvVar("TF_CONFIG", config))


def outcome(job: Job, tallies: Tallies) -> Outcome:
    """Chief or Master decide. Without them the workers do: worker 0, or with AllWorkers all of them."""
    if any(kind in tallies for kind in LEADERS):
        return succeed_with(*LEADERS)(job, tallies)
    workers = tallies.get(WORKER)
    if workers is None:
        return succeed_with(PS, EVALUATOR)(job, tallies)
    return Outcome(running=workers.active > 0, succeeded=workers.complete or _first_is_enough(job, workers))


def is_master(job: Job, replica: Replica) -> bool:
    """The chief or master, or worker 0 of a job without one."""
    if any(map(job.count, LEADERS)):
        return replica.type in LEADERS
    return replica == job.first(WORKER)


def tolerates_failure(job: Job, replica: Replica) -> bool:
    """Dynamic workers: the job continues without one that has failed."""
    return bool(tf_spec(job).enable_dynamic_worker) and replica.type == WORKER


def joins(job: Job, kind: str) -> bool:
    """Dynamic workers: none of the others knows how many there are."""
    return bool(tf_spec(job).enable_dynamic_worker) and kind == WORKER


def validate(job: Job) -> Iterator[FieldError]:
    """An error if the job has both a Chief and a Master."""
    if all(kind in job.replica_specs for kind in LEADERS):
        yield FieldError(f"spec.{REPLICA_SPECS}", "Forbidden: Chief and Master are the same role; remove one of them")


def tf_spec(job: Job) -> TFJobSpec:
    """The job's spec; a default one for a job whose spec could not be read."""
    return job.spec if isinstance(job.spec, TFJobSpec) else TFJobSpec()


def _first_is_enough(job: Job, workers: Tally) -> bool:
    return job.first(WORKER).index in workers.succeeded_indexes and tf_spec(job).success_policy != SuccessPolicy.ALL_WORKERS


def _address(job: Job, replica: Replica) -> str:
    return f"{job.address(replica)}:{TF.port_of(job.replica_specs[replica.type])}"


def _addresses(job: Job, kind: str) -> list[str]:
    return [_address(job, replica) for replica in job.replicas_of(kind)]


def _compact(value: object) -> str:
    return msgspec.json.encode(value).decode()


@last_result_cached
def _cluster(job: Job) -> str:
    """The addresses of all replicas, as JSON; the same for each of them."""
    return _compact({kind.lower(): _addresses(job, kind) for kind in sorted(job.types, key=str.lower)})


def _sparse_cluster(job: Job, replica: Replica) -> Mapping[str, Any]:
    """What one replica of a dynamic job needs to know: itself and, unless it serves, the parameter servers.

    A map from index to address is TensorFlow's sparse form. The reference put every parameter server into a list of one
    and so gave those after the first an index beyond its list.
    """
    own = _address(job, replica)
    if replica.type == PS:
        return {"worker": {}, "ps": [own] if job.rank_of(replica) == 0 else {str(job.rank_of(replica)): own}}
    if replica.type == WORKER:
        return {"worker": {str(job.rank_of(replica)): own}, "ps": _addresses(job, PS)}
    return {replica.type.lower(): [own], "worker": {}, "ps": _addresses(job, PS)}


TF = Framework(
    kind="TFJob",
    plural="tfjobs",
    name="tensorflow",
    replica_specs=REPLICA_SPECS,
    replica_types=(
        ReplicaType(CHIEF, RestartPolicy.NEVER, max_replicas=1),
        ReplicaType(MASTER, RestartPolicy.NEVER, max_replicas=1),
        ReplicaType(PS, RestartPolicy.NEVER, serves=True),
        ReplicaType(WORKER, RestartPolicy.NEVER),
        ReplicaType(EVALUATOR, RestartPolicy.NEVER),
    ),
    container="tensorflow",
    port_name="tfjob-port",
    port=2222,
    spec=TFJobSpec,
    versions=(Version("v1", storage=True), Version("v1beta1")),
    env=env,
    env_in_main_only=True,
    outcome=outcome,
    is_master=is_master,
    upgrade=lift_run_policy,
    validate=validate,
    tolerates_failure=tolerates_failure,
    joins=joins,
    scale=ScalePaths.of_type(REPLICA_SPECS),
    rules=(
        CelRule(
            "!(self.exists(k, k.lowerAscii() == 'chief') && self.exists(k, k.lowerAscii() == 'master'))",
            "Chief and Master are the same role: remove one of them",
            path=("spec", REPLICA_SPECS),
        ),
    ),
)
