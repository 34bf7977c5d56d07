"""Which fields of a job have a counterpart in a TrainJob, and what becomes of the others. None is dropped without a word."""

from collections.abc import Iterator, Mapping
from typing import Any

from jobcommon.cli.convert.finding import Notes
from jobcommon.framework import Framework

_GANG = (
    "the runtime says which gang scheduler is used: set podGroupPolicy of the TrainingRuntime to coscheduling or volcano, "
    "whichever the cluster has"
)
_MEANINGLESS = "has no counterpart in a TrainJob"
# By path in the manifest, "*" for a replica type. "": carried as it is.
_FIELDS: dict[str, str] = {
    **dict.fromkeys(
        (
            "apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.labels", "metadata.annotations",
            "spec.runPolicy.activeDeadlineSeconds", "spec.runPolicy.suspend", "spec.runPolicy.managedBy",
            "spec.runPolicy.backoffLimit", "spec.replicas.*.replicas", "spec.replicas.*.template",
            "spec.replicas.*.restartPolicy", "spec.replicas.*.overrides", "spec.nprocPerNode", "spec.successPolicy",
            "spec.slotsPerWorker", "spec.mpiImplementation", "spec.mpiDistribution", "spec.sshAuthMountPath", "spec.transport",
            "spec.runLauncherAsWorker", "spec.launcherCreationPolicy", "spec.jobMode",
        ),
        "",
    ),
    "metadata.generateName": "the pods' addresses contain the name, so it is fixed: replace it throughout for each TrainJob",
    "metadata.creationTimestamp": "", "metadata.generation": "", "metadata.managedFields": "", "metadata.resourceVersion": "",
    "metadata.selfLink": "", "metadata.uid": "",
    "status": "belongs to the old job: the TrainJob starts from the beginning",
    "spec.runPolicy.cleanPodPolicy":
        "a JobSet always deletes the pods that still run when it ends and keeps the others until ttlSecondsAfterFinished",
    "spec.runPolicy.ttlSecondsAfterFinished": "deletes the JobSet with its pods; the TrainJob itself stays",
    "spec.runPolicy.schedulingPolicy.minAvailable": f"a gang is always all pods; {_GANG}",
    "spec.runPolicy.schedulingPolicy.queue": f"has no counterpart; {_GANG}",
    "spec.runPolicy.schedulingPolicy.minResources": f"is computed by Trainer; {_GANG}",
    "spec.runPolicy.schedulingPolicy.priorityClass": "set priorityClassName in the pods' template",
    "spec.runPolicy.schedulingPolicy.scheduleTimeoutSeconds": f"is podGroupPolicy.coscheduling.scheduleTimeoutSeconds; {_GANG}",
    "spec.elasticPolicy.minReplicas": "Trainer does not change the number of pods while they run; torchrun gets the number",
    "spec.elasticPolicy.maxReplicas": "Trainer does not change the number of pods while they run; torchrun gets the number",
    "spec.elasticPolicy.metrics": "Trainer creates no HorizontalPodAutoscaler",
    **dict.fromkeys(
        (f"spec.elasticPolicy.{name}" for name in (
            "nProcPerNode", "maxRestarts", "rdzvBackend", "rdzvHost", "rdzvPort", "rdzvId", "rdzvConf", "standalone")),
        "",
    ),
}  # fmt: skip
# Earlier versions have these fields of the run policy in the spec itself.
_RUN_POLICY = tuple(path.rpartition(".")[2] for path in _FIELDS if path.startswith("spec.runPolicy.") and path.count(".") == 2)
_FIELDS = {**{f"spec.{name}": _FIELDS[f"spec.runPolicy.{name}"] for name in _RUN_POLICY}, **_FIELDS}
_PARENTS = frozenset(".".join(path.split(".")[:depth]) for path in _FIELDS for depth in range(1, path.count(".") + 1))


def note_fields(framework: Framework, manifest: Mapping[str, Any], notes: Notes) -> None:
    """Warn of every field of the manifest that the TrainJob does not honour, or honours differently."""
    for path, real in _paths(manifest, framework.replica_specs):
        if message := _FIELDS.get(path, _MEANINGLESS):
            notes.warn(real, message)


def _paths(manifest: Mapping[str, Any], replicas: str) -> Iterator[tuple[str, str]]:
    """The paths in `_FIELDS` of what is there, and its path as written."""

    def walk(value: Any, path: str, real: str) -> Iterator[tuple[str, str]]:
        if value is None or value == {}:
            return
        if path and (path not in _PARENTS or not isinstance(value, Mapping)):
            yield path, real
            return
        for key, child in value.items():
            name = "replicas" if path == "spec" and key == replicas else "*" if path == "spec.replicas" else key
            yield from walk(child, f"{path}.{name}" if path else name, f"{real}.{key}" if real else key)

    yield from walk(manifest, "", "")
