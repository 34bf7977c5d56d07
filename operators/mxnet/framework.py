"""MXJob: what MXNet (and BytePS, and TVM's auto-tuner) adds to the common job controller.

Behaviour: mxnet-operator and training-operator, with their defects put right (docs/deviations.md).
"""

import json
from collections.abc import Iterator, Sequence

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
from jobcommon.operators.mxnet.spec import JobMode, MXJobSpec, MXReplicaSpec, SuccessPolicy

SCHEDULER, SERVER, WORKER = "Scheduler", "Server", "Worker"
TUNER_TRACKER, TUNER_SERVER, TUNER = "TunerTracker", "TunerServer", "Tuner"
TRAIN_TYPES, TUNE_TYPES = (SCHEDULER, SERVER, WORKER), (TUNER_TRACKER, TUNER_SERVER, TUNER)
REPLICA_SPECS = "mxReplicaSpecs"
TUNER_SERVER_KEY = "tuner-server-key"


def env(job: Job, replica: Replica) -> Sequence[EnvVar]:
    """MX_CONFIG and the DMLC variables of ps-lite and BytePS, in every container of every replica; its log can be followed."""
    kind = replica.type.lower()
    variables = [
        UNBUFFERED,
        EnvVar("MX_CONFIG", f'{{{_shared_config(job)},"task":{_compact({"type": kind, "index": job.rank_of(replica)})}}}'),
        EnvVar("DMLC_PS_ROOT_PORT", str(_port(job, SCHEDULER) if job.count(SCHEDULER) else 0)),
        EnvVar("DMLC_PS_ROOT_URI", job.address(job.first(SCHEDULER)) if job.count(SCHEDULER) else ""),
        EnvVar("DMLC_NUM_SERVER", str(job.count(SERVER))),
        EnvVar("DMLC_NUM_WORKER", str(job.count(WORKER))),
        EnvVar("DMLC_ROLE", kind),
        EnvVar("DMLC_USE_KUBERNETES", "1"),
    ]
    if replica.type == WORKER:
        variables += [EnvVar("DMLC_WORKER_ID", str(job.rank_of(replica))), EnvVar("DMLC_SERVER_ID", "0")]
    elif replica.type == SERVER:
        variables.append(EnvVar("DMLC_SERVER_ID", str(job.rank_of(replica))))
    return variables


def outcome(job: Job, tallies: Tallies) -> Outcome:
    """Tuning: the tuners decide. Training: the scheduler, or without one, or with AllWorkers, all workers."""
    spec = mx_spec(job)
    if spec.job_mode == JobMode.TUNE:
        return succeed_with(TUNER, TUNER_SERVER, TUNER_TRACKER)(job, tallies)
    if spec.success_policy == SuccessPolicy.ALL_WORKERS and (workers := tallies.get(WORKER)) is not None:
        scheduler = tallies.get(SCHEDULER, Tally())
        return Outcome(running=scheduler.active + workers.active > 0, succeeded=workers.complete)
    return succeed_with(SCHEDULER, WORKER, SERVER)(job, tallies)


def is_master(job: Job, replica: Replica) -> bool:
    """The replica that coordinates the others."""
    leader = next((kind for kind in (SCHEDULER, TUNER_TRACKER, WORKER, TUNER) if job.count(kind)), None)
    return replica.type == leader and job.rank_of(replica) == 0


def validate(job: Job) -> Iterator[FieldError]:
    """An error for each replica type that the job's mode lacks or does not have."""
    mode = mx_spec(job).job_mode
    wanted = TUNE_TYPES if mode == JobMode.TUNE else TRAIN_TYPES
    for kind in job.replica_specs:
        if kind not in wanted:
            yield FieldError(
                f"spec.{REPLICA_SPECS}[{kind}]", f"Forbidden: a job of mode {mode} may only have {', '.join(wanted)}"
            )
    if mode == JobMode.TUNE and TUNER not in job.replica_specs:
        yield FieldError(f"spec.{REPLICA_SPECS}[{TUNER}]", "Required value: a job of mode MXTune needs a Tuner")
    if mode == JobMode.TRAIN and WORKER not in job.replica_specs:
        yield FieldError(f"spec.{REPLICA_SPECS}[{WORKER}]", "Required value: a job of mode MXTrain needs a Worker")


def mx_spec(job: Job) -> MXJobSpec:
    """The job's spec; a default one for a job whose spec could not be read."""
    return job.spec if isinstance(job.spec, MXJobSpec) else MXJobSpec()


_compact = json.JSONEncoder(separators=(",", ":")).encode


@last_result_cached
def _shared_config(job: Job) -> str:
    """The fields of MX_CONFIG that are the same for every replica, as JSON without its braces."""
    kinds = sorted(job.types, key=str.lower)
    cluster = {
        kind.lower(): [{"url": job.address(one), "port": _port(job, kind)} for one in job.replicas_of(kind)] for kind in kinds
    }
    labels = {kind.lower(): _tuner_server_key(job, kind) for kind in kinds}
    return _compact({"cluster": cluster, "labels": labels})[1:-1]


def _tuner_server_key(job: Job, kind: str) -> str:
    """The annotation by which TVM's tuners name their devices; v1beta1 had it as `label` on the replica spec."""
    spec = job.replica_specs[kind]
    metadata = spec.template.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    label = spec.label if isinstance(spec, MXReplicaSpec) else None
    return str((annotations.get(TUNER_SERVER_KEY) if isinstance(annotations, dict) else None) or label or "")


def _port(job: Job, kind: str) -> int:
    return MXNET.port_of(job.replica_specs[kind])


def _mode_rule(mode: JobMode, types: Sequence[str], needed: str) -> CelRule:
    """What `validate` says of a mode, for the CRD."""
    specs, listed = f"self.{REPLICA_SPECS}", ", ".join(f"'{kind.lower()}'" for kind in types)
    return CelRule(
        f"self.?jobMode.orValue('{JobMode.TRAIN}') != '{mode}' || ({specs}.all(k, k.lowerAscii() in [{listed}])"
        f" && {specs}.exists(k, k.lowerAscii() == '{needed.lower()}'))",
        f"a job of mode {mode} may only have {', '.join(types)}, and needs a {needed}",
        path=("spec",),
        field_path=f".{REPLICA_SPECS}",
    )


MXNET = Framework(
    kind="MXJob",
    plural="mxjobs",
    name="mxnet",
    replica_specs=REPLICA_SPECS,
    replica_types=(
        ReplicaType(SCHEDULER, RestartPolicy.NEVER, max_replicas=1, serves=True),
        ReplicaType(SERVER, RestartPolicy.NEVER, serves=True),
        ReplicaType(WORKER, RestartPolicy.NEVER, min_replicas=1),
        ReplicaType(TUNER_TRACKER, RestartPolicy.NEVER, max_replicas=1, serves=True),
        ReplicaType(TUNER_SERVER, RestartPolicy.NEVER, serves=True),
        ReplicaType(TUNER, RestartPolicy.NEVER, min_replicas=1, max_replicas=1),
    ),
    container="mxnet",
    port_name="mxjob-port",
    port=9091,
    spec=MXJobSpec,
    replica_spec=MXReplicaSpec,
    versions=(Version("v1", storage=True), Version("v1beta1")),
    env=env,
    outcome=outcome,
    is_master=is_master,
    upgrade=lift_run_policy,
    validate=validate,
    scale=ScalePaths.of_type(REPLICA_SPECS),
    rules=(
        _mode_rule(JobMode.TRAIN, TRAIN_TYPES, WORKER),
        _mode_rule(JobMode.TUNE, TUNE_TYPES, TUNER),
    ),
)
