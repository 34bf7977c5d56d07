"""PyTorchJob: what PyTorch adds to the common job controller.

Behaviour: that of the reference's PyTorchJob v1, with its defects put right (docs/deviations.md). There is no init
container: the job's Service publishes addresses before pods are ready, and torch retries its rendezvous.
"""

from collections.abc import Iterator, Sequence

from jobcommon import (
    UNBUFFERED,
    CelRule,
    Companion,
    CompanionKind,
    EnvVar,
    FieldError,
    Framework,
    Job,
    Outcome,
    PodView,
    Replica,
    ReplicaType,
    RestartPolicy,
    ScalePaths,
    Tallies,
    lift_run_policy,
    succeed_with,
    template_for,
)
from jobcommon.operators.pytorch.checks import CHECKS, MASTER, WORKER
from jobcommon.operators.pytorch.spec import ElasticPolicy, PyTorchJobSpec

REPLICA_SPECS = "pytorchReplicaSpecs"
DEFAULT_PORT = 23456
KILLED_AFTER = 30
_AUTOSCALING = "autoscaling/v2"
_AUTOSCALER = ("HorizontalPodAutoscaler", "horizontalpodautoscalers")
# torchrun counts devices itself: those of CUDA, of Intel and, by the backend of that name, of Ascend.
SYMBOLIC_NPROC = ("auto", "cpu", "gpu", "xpu", "npu")
_NPROC = f"""{", ".join(f'"{name}"' for name in SYMBOLIC_NPROC)} or a number in quotes, from "1\""""


def env(job: Job, replica: Replica) -> Sequence[EnvVar]:
    """What torch.distributed and torchrun read, in every container of every replica."""
    variables = [UNBUFFERED]
    pod = template_for(job.replica_specs[replica.type], replica.index).get("spec")
    grace = pod.get("terminationGracePeriodSeconds") if isinstance(pod, dict) else None
    if isinstance(grace, int) and grace > KILLED_AFTER:
        # torchrun kills its processes that long after SIGTERM. It needs some time itself to end and to say what has ended.
        variables.append(EnvVar("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", str(grace - 5), default=True))
    if MASTER in job.replica_specs:
        variables += _master_env(job, replica)
    elastic, nproc = elastic_policy(job), nproc_per_node(job)
    if nproc is not None:
        variables.append(EnvVar("PET_NPROC_PER_NODE", nproc))
    variables += _elastic_env(job, elastic) if elastic else [EnvVar("PET_NNODES", str(job.total_replicas))]
    return variables


def outcome(job: Job, tallies: Tallies) -> Outcome:
    """The master decides; without one all workers do, or with elasticPolicy the first that succeeds."""
    elastic = elastic_policy(job) is not None and MASTER not in job.replica_specs
    return succeed_with(MASTER, WORKER, any_of_last=elastic)(job, tallies)


def is_master(job: Job, replica: Replica) -> bool:
    """The master, or worker 0 of a job without one."""
    return replica.type == MASTER if MASTER in job.replica_specs else replica == job.first(WORKER)


def joins(job: Job, kind: str) -> bool:
    """Workers that torchrun takes into its group, or misses there."""
    return kind == WORKER and elastic_policy(job) is not None


def validate(job: Job) -> Iterator[FieldError]:
    """The errors of elasticPolicy and nprocPerNode."""
    spec, elastic = pytorch_spec(job), elastic_policy(job)
    nproc = spec.nproc_per_node
    if nproc is not None and nproc not in SYMBOLIC_NPROC and not (nproc.isdecimal() and 0 < int(nproc) <= 1024):
        yield FieldError("spec.nprocPerNode", f'Invalid value: "{nproc[:40]}": use {_NPROC}')
    if MASTER not in job.replica_specs and not job.count(WORKER):
        yield FieldError(f"spec.{REPLICA_SPECS}[{WORKER}].replicas", "Forbidden: must be at least 1 without a Master")
        return
    if elastic is None:
        return
    if not job.count(WORKER):
        yield FieldError(
            f"spec.{REPLICA_SPECS}[{WORKER}]", "Required value: elasticPolicy applies to workers, so the job needs a Worker"
        )
        return
    if job.restarts_together:
        yield FieldError(
            "spec.runPolicy.restartScope",
            "Forbidden: with elasticPolicy torchrun restarts its workers itself; set Pod, or remove elasticPolicy",
        )
    if nproc is not None and elastic.n_proc_per_node is not None:
        yield FieldError("spec.elasticPolicy.nProcPerNode", "Forbidden: spec.nprocPerNode is set; remove this field")
    fewest, most = elastic_bounds(job, elastic)
    if fewest > most:
        yield FieldError(
            "spec.elasticPolicy.minReplicas", f"Invalid value: {fewest}: must not exceed maxReplicas, which is {most}"
        )


def companions(job: Job, _pods: Sequence[PodView]) -> Sequence[Companion]:
    """The autoscaler of an elastic job that has metrics, while the job is active."""
    kind, plural = _AUTOSCALER
    elastic = elastic_policy(job)
    if elastic is None or elastic.metrics is None or job.suspended or job.status.finished:
        return (Companion(_AUTOSCALING, kind, plural, job.name, manifest=None),)
    fewest, most = elastic_bounds(job, elastic)
    spec = {
        "scaleTargetRef": {"apiVersion": job.api_version, "kind": job.kind, "name": job.name},
        "minReplicas": fewest,
        "maxReplicas": most,
        "metrics": elastic.metrics,
    }
    return (Companion(_AUTOSCALING, kind, plural, job.name, manifest={"spec": spec}, required=False),)


def pytorch_spec(job: Job) -> PyTorchJobSpec:
    """The job's spec; a default one for a job whose spec could not be read."""
    return job.spec if isinstance(job.spec, PyTorchJobSpec) else PyTorchJobSpec()


def elastic_policy(job: Job) -> ElasticPolicy | None:
    """The job's elasticPolicy."""
    return pytorch_spec(job).elastic_policy


def elastic_bounds(job: Job, elastic: ElasticPolicy) -> tuple[int, int]:
    """minReplicas and maxReplicas: each defaults to the other, both to the number of workers."""
    workers = job.count(WORKER)
    fewest = elastic.min_replicas or elastic.max_replicas or workers
    return fewest, elastic.max_replicas or fewest


def nproc_per_node(job: Job) -> str | None:
    """Processes per node; None when the deprecated field of elasticPolicy says it."""
    spec, elastic = pytorch_spec(job), elastic_policy(job)
    if spec.nproc_per_node is not None:
        return spec.nproc_per_node
    return None if elastic is not None and elastic.n_proc_per_node is not None else "auto"


def _master_env(job: Job, replica: Replica) -> list[EnvVar]:
    """The env:// rendezvous. RANK counts nodes: torchrun, or a script with one process per node, makes it a process's rank."""
    address = job.address(job.first(MASTER))
    port = str(PYTORCH.port_of(job.replica_specs[MASTER]))
    nproc = pytorch_spec(job).nproc_per_node or ""
    rank = str(job.rank_of(replica) + (replica.type != MASTER))
    world = job.total_replicas * (int(nproc) if nproc.isdecimal() else 1)
    return [
        EnvVar("MASTER_PORT", port),
        EnvVar("PET_MASTER_PORT", port),
        EnvVar("MASTER_ADDR", address),
        EnvVar("PET_MASTER_ADDR", address),
        EnvVar("WORLD_SIZE", str(world)),
        EnvVar("RANK", rank),
        EnvVar("PET_NODE_RANK", rank),
    ]


def _elastic_env(job: Job, elastic: ElasticPolicy) -> list[EnvVar]:
    host = elastic.rdzv_host or job.address(job.first(WORKER))
    port = elastic.rdzv_port or PYTORCH.port_of(job.replica_specs.get(WORKER))
    fewest, most = elastic_bounds(job, elastic)
    settings = ",".join(f"{setting.key}={setting.value}" for setting in elastic.rdzv_conf or ())
    optional = {
        "PET_MAX_RESTARTS": elastic.max_restarts,
        "PET_NPROC_PER_NODE": elastic.n_proc_per_node,
        "PET_RDZV_ID": elastic.rdzv_id,
        "PET_RDZV_CONF": settings or None,
        "PET_STANDALONE": "1" if elastic.standalone else None,
    }
    return [
        EnvVar("PET_RDZV_ENDPOINT", f"{host}:{port}"),
        EnvVar("PET_RDZV_BACKEND", elastic.rdzv_backend or "c10d"),
        EnvVar("PET_NNODES", f"{fewest}:{most}"),
        *(EnvVar(name, str(value)) for name, value in optional.items() if value is not None),
    ]


PYTORCH = Framework(
    kind="PyTorchJob",
    plural="pytorchjobs",
    name="pytorch",
    replica_specs=REPLICA_SPECS,
    replica_types=(
        ReplicaType(MASTER, RestartPolicy.ON_FAILURE, min_replicas=1, max_replicas=1),
        ReplicaType(WORKER, RestartPolicy.ON_FAILURE),
    ),
    container="pytorch",
    port_name="pytorchjob-port",
    port=DEFAULT_PORT,
    spec=PyTorchJobSpec,
    env=env,
    outcome=outcome,
    is_master=is_master,
    upgrade=lift_run_policy,
    validate=validate,
    joins=joins,
    companions=companions,
    companion_kinds=(CompanionKind(_AUTOSCALING, *_AUTOSCALER, required=False),),
    scale=ScalePaths.of_type(REPLICA_SPECS),
    checks=CHECKS,
    rules=(
        CelRule(
            f"self.matches('^({'|'.join(SYMBOLIC_NPROC)}|[1-9][0-9]{{0,3}})$')",
            f"nprocPerNode must be {_NPROC}",
            path=("spec", "nprocPerNode"),
        ),
        CelRule(
            f"!has(self.elasticPolicy) || !has(self.elasticPolicy.maxReplicas) || self.{REPLICA_SPECS}.all(k,"
            " k.lowerAscii() != 'worker' || self.pytorchReplicaSpecs[k].?replicas.orValue(1) <= self.elasticPolicy.maxReplicas"
            f" || k in oldSelf.{REPLICA_SPECS} && self.{REPLICA_SPECS}[k].?replicas.orValue(1)"
            f" <= oldSelf.{REPLICA_SPECS}[k].?replicas.orValue(1))",
            "Worker cannot be scaled beyond maxReplicas of elasticPolicy, because torchrun accepts no more nodes",
            path=("spec",),
            field_path=f".{REPLICA_SPECS}",
        ),
        CelRule(
            f"self.{REPLICA_SPECS}.exists(k, k.lowerAscii() == 'master' || self.{REPLICA_SPECS}[k].?replicas.orValue(1) > 0)",
            "Worker must have at least 1 replica where there is no Master",
            path=("spec",),
            field_path=f".{REPLICA_SPECS}",
        ),
        CelRule(
            f"!has(self.elasticPolicy) || self.{REPLICA_SPECS}.exists(k,"
            f" k.lowerAscii() == 'worker' && self.{REPLICA_SPECS}[k].?replicas.orValue(1) > 0)",
            "elasticPolicy applies to workers, so pytorchReplicaSpecs must have a Worker",
            path=("spec",),
            field_path=".pytorchReplicaSpecs",
        ),
        CelRule(
            "!has(self.elasticPolicy) || !has(self.runPolicy) || !has(self.runPolicy.restartScope)"
            " || self.runPolicy.restartScope != 'Job'",
            "with elasticPolicy torchrun restarts its workers itself: set restartScope to Pod, or remove elasticPolicy",
            path=("spec",),
            field_path=".runPolicy.restartScope",
        ),
        CelRule(
            "!has(self.elasticPolicy) || !has(self.elasticPolicy.nProcPerNode) || !has(self.nprocPerNode)",
            "nProcPerNode and spec.nprocPerNode are the same setting: remove elasticPolicy.nProcPerNode",
            path=("spec",),
            field_path=".elasticPolicy.nProcPerNode",
        ),
        CelRule(
            "!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
            "minReplicas must not exceed maxReplicas",
            path=("spec", "elasticPolicy"),
            field_path=".minReplicas",
        ),
    ),
)
