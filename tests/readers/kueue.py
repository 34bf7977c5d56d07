"""What Kueue reads (kubernetes-sigs/kueue, `pkg/controller/jobs/kubeflow`, `…/mpijob`, `…/tas`, `cmd/kueuectl`), as of 0.19.

Its integrations: TFJob, PyTorchJob, JAXJob, XGBoostJob and PaddleJob v1, MPIJob v2beta1; an MPIJob of another version it gets
as v2beta1 from the API server.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from jobcommon.api.timestamp import parse_time
from jobcommon.operators.mpi import MPI
from tests.readers.lives import (
    FLAVOR,
    GATE,
    INDEX_OFFSET,
    POD_SET,
    TOLERATION,
    WORKLOAD,
    Life,
    conditions,
    label,
)
from tests.readers.need import WITHOUT_MXNET, Need, text_of

# The pod sets, in the order in which it hands out and restores them; a type under another name is none of its pod sets.
POD_SETS = {
    "TFJob": ("Chief", "Master", "PS", "Worker", "Evaluator"),
    "PyTorchJob": ("Master", "Worker"),
    "MPIJob": ("Launcher", "Worker"),
    "JAXJob": ("Worker",),
    "XGBoostJob": ("Master", "Worker"),
    "PaddleJob": ("Master", "Worker"),
}
OPERATOR_NAMES = {
    "TFJob": "tfjob-controller",
    "PyTorchJob": "pytorchjob-controller",
    "MPIJob": "mpi-operator",
    "JAXJob": "jaxjob-controller",
    "XGBoostJob": "xgboostjob-controller",
    "PaddleJob": "paddlejob-controller",
}
TIME = "time"
RUN_POLICY = {
    "cleanPodPolicy": str,
    "ttlSecondsAfterFinished": int,
    "activeDeadlineSeconds": int,
    "backoffLimit": int,
    "schedulingPolicy": dict,
    "suspend": bool,
    "managedBy": str,
}
REPLICA_SPEC = {"replicas": int, "template": dict, "restartPolicy": str}
SPECS: Mapping[str, Mapping[str, Any]] = {
    "TFJob": {"runPolicy": RUN_POLICY, "successPolicy": str, "enableDynamicWorker": bool, "tfReplicaSpecs": dict},
    "PyTorchJob": {"runPolicy": RUN_POLICY, "elasticPolicy": dict, "nprocPerNode": str, "pytorchReplicaSpecs": dict},
    "MPIJob": {
        "runPolicy": RUN_POLICY,
        "slotsPerWorker": int,
        "runLauncherAsWorker": bool,
        "mpiReplicaSpecs": dict,
        "sshAuthMountPath": str,
        "launcherCreationPolicy": str,
        "mpiImplementation": str,
    },
    "JAXJob": {"runPolicy": RUN_POLICY, "jaxReplicaSpecs": dict},
    "XGBoostJob": {"runPolicy": RUN_POLICY, "xgbReplicaSpecs": dict},
    "PaddleJob": {"runPolicy": RUN_POLICY, "elasticPolicy": dict, "paddleReplicaSpecs": dict},
}
CONDITION = {"type": str, "status": str, "reason": str, "message": str, "lastUpdateTime": TIME, "lastTransitionTime": TIME}
COUNTS = {"active": int, "succeeded": int, "failed": int, "labelSelector": dict, "selector": str}
STATUS = {"conditions": list, "replicaStatuses": dict, "startTime": TIME, "completionTime": TIME, "lastReconcileTime": TIME}


def _mistyped(obj: Mapping[str, Any], types: Mapping[str, Any], path: str) -> Iterator[str]:
    for name, kind in types.items():
        value = obj.get(name)
        if value is None:
            continue
        if kind == TIME:
            fits = isinstance(value, str) and parse_time(value) is not None
        elif isinstance(kind, Mapping):
            fits = isinstance(value, dict)
            yield from _mistyped(value if fits else {}, kind, f"{path}.{name}")
        else:
            fits = type(value) is kind
        if not fits:
            yield f"{path}.{name} is {value!r}"


def typed(life: Life) -> Iterator[str]:
    """One field of another type, and its client can decode no job of that kind any more."""
    for job in life.jobs:
        yield from _mistyped(job["spec"], SPECS[life.framework.kind], "spec")
        for kind, spec in job["spec"][life.framework.replica_specs].items():
            yield from _mistyped(spec, REPLICA_SPEC, kind)
        status = job.get("status") or {}
        yield from _mistyped(status, STATUS, "status")
        for one in conditions(job):
            yield from _mistyped(one, CONDITION, "status.conditions")
        for kind, counts in (status.get("replicaStatuses") or {}).items():
            yield from _mistyped(counts, COUNTS, f"status.replicaStatuses.{kind}")


def pod_sets(life: Life) -> Iterator[str]:
    """Each type is a pod set of so many pods as it says, one when it does not say."""
    unknown = set(life.specs) - set(POD_SETS[life.framework.kind])
    if unknown:
        yield f"no pod set: {sorted(unknown)}"
    for kind, spec in life.specs.items():
        found = {pod["metadata"]["name"] for pod in life.pods if label(pod, "replica-type") == kind.lower()}
        if len(found) != spec.get("replicas", 1):
            yield f"{kind}: {len(found)} pods, not {spec.get('replicas', 1)}"


def injected(life: Life) -> Iterator[str]:
    """What it merges into the templates is in the pods: of both starts."""
    for pod in life.pods:
        metadata, spec, name = pod["metadata"], pod["spec"], pod["metadata"]["name"]
        if metadata["labels"].get(POD_SET) != label(pod, "replica-type") or text_of(metadata, "annotations", WORKLOAD) == "":
            yield f"{name} has not its workload and pod set"
        if not FLAVOR.items() <= (spec.get("nodeSelector") or {}).items() or TOLERATION not in spec.get("tolerations", ()):
            yield f"{name} has not the flavor's node selector and toleration"
        if GATE not in spec.get("schedulingGates", ()):
            yield f"{name} has no gate"
    if len(life.pods) != 2 * len({pod["metadata"]["name"] for pod in life.pods}):
        yield "the pods of the second start are not all there"


def ranks(life: Life) -> Iterator[str]:
    """replica-index minus the offset annotation is a rank: each of 0 to count - 1 once, the same after a restart."""
    found: dict[str, dict[str, set[int]]] = {}
    for pod in life.pods:
        offset = int(text_of(pod["metadata"], "annotations", INDEX_OFFSET) or 0)
        rank = int(label(pod, "replica-index")) - offset
        found.setdefault(label(pod, "replica-type"), {}).setdefault(pod["metadata"]["name"], set()).add(rank)
    for kind, by_name in found.items():
        if any(len(own) != 1 for own in by_name.values()):
            yield f"{kind}: a rank changed: {by_name}"
        given = sorted(rank for own in by_name.values() for rank in own)
        if given != list(range(len(by_name))):
            yield f"{kind}: ranks {given}"


def copied(life: Life) -> Iterator[str]:
    """MultiKueue makes the job on another cluster from its own types: what they do not know is left behind."""
    spec, known = life.jobs[0]["spec"], SPECS[life.framework.kind]
    given = life.framework.defaults_of("v2beta1" if life.framework is MPI else "v1")
    yield from (f"spec.{name} is lost" for name in spec if name not in known and spec[name] != given.get(name))
    for kind, one in life.specs.items():
        yield from (f"{kind}.{name} is lost" for name in one if name not in REPLICA_SPEC)


def found_by_kueuectl(life: Life) -> Iterator[str]:
    """`kueuectl list pods --for` selects by job name and operator name."""
    for pod in life.pods:
        wanted = (life.manifest["metadata"]["name"], OPERATOR_NAMES[life.framework.kind])
        if (label(pod, "job-name"), label(pod, "operator-name")) != wanted:
            yield f"{pod['metadata']['name']} is not found"


def _need(text: str, check: Any, *courses: str) -> Need:
    return Need("Kueue", text, check, WITHOUT_MXNET, courses or ("run", "failed", "queued"))


NEEDS = (
    _need("fields of the types that its client declares", typed),
    _need("a pod set of each replica type, with its number of pods", pod_sets, "run"),
    _need("labels, annotations, node selector, tolerations and gates of the template in each pod", injected, "queued"),
    _need("ranks for topology aware scheduling: `replica-index` minus the offset annotation", ranks, "queued"),
    _need("every field of the job in the copy that MultiKueue makes", copied, "run"),
    _need("the labels of `kueuectl list pods --for`", found_by_kueuectl, "run"),
)
