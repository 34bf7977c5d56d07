"""The older and looser forms of an MPIJob's spec, brought to the current one. Total over any JSON."""

from collections.abc import Mapping
from typing import Any

from jobcommon import lift_run_policy
from jobcommon.operators.mpi.job import LAUNCHER, REPLICA_SPECS, WORKER
from jobcommon.operators.mpi.spec import Distribution, Implementation, LauncherCreationPolicy, LauncherTransport

Spec = Mapping[str, Any]

# What a version means where its manifest is silent. The API server writes these into each object that is created in that
# version, so that they are still known when the object is read in another one.
V2BETA1_DEFAULTS: Spec = {"transport": LauncherTransport.SSH.value}
# That the launcher waits is said in the object: schedulers that count its pods read it there (KAI's pod grouper), and would
# hold the workers back until a launcher comes that waits for them.
_EXEC: Spec = {
    "transport": LauncherTransport.EXEC.value,
    "launcherCreationPolicy": LauncherCreationPolicy.WAIT_FOR_WORKERS_READY.value,
}
V1_DEFAULTS: Spec = {**_EXEC}
V1ALPHA2_DEFAULTS: Spec = {**_EXEC, "backoffLimit": 6}
# That of the batch Job which v2beta1's launcher was.
BATCH_BACKOFF_LIMIT = 6
_DISTRIBUTIONS = {one.value: Implementation[one.name].value for one in Distribution}
_MPI_OPERATOR = "kubeflow.org/mpi-operator"
_OURS = "kubeflow.org/training-operator"


def upgrade(spec: Spec, version: str) -> Spec:
    """The raw spec in the current form, its launcher's defaults filled in."""
    batch = spec.get("transport") != LauncherTransport.EXEC or spec.get("backoffLimit") is not None
    current = {**lift_run_policy(spec, version), **{k: spec[k] for k in ("backoffLimit",) if k in spec}}
    # Another value stays, and is refused by its own name.
    if (distribution := str(current.get("mpiDistribution"))) in _DISTRIBUTIONS:
        del current["mpiDistribution"]
        if current.get("mpiImplementation") is None:
            current["mpiImplementation"] = _DISTRIBUTIONS[distribution]
    current["runPolicy"] = _run_policy(current.get("runPolicy"), batch)
    current[REPLICA_SPECS] = _with_launcher(current.get(REPLICA_SPECS), batch)
    return current


def _run_policy(policy: object, batch: bool) -> object:
    if not isinstance(policy, Mapping | None):
        return policy
    found = dict(policy or {})
    if found.get("managedBy") == _MPI_OPERATOR:
        found["managedBy"] = _OURS
    if batch and found.get("backoffLimit") is None:
        found["backoffLimit"] = BATCH_BACKOFF_LIMIT
    return found


def _with_launcher(specs: object, batch: bool) -> object:
    """The replica specs with a Launcher: the given one, or one that runs the workers' command."""
    if not isinstance(specs, Mapping):
        return specs
    names = {str(key).lower(): key for key in specs}
    launcher, worker = names.get(LAUNCHER.lower()), names.get(WORKER.lower())
    found = dict(specs)
    if launcher is None and isinstance(specs.get(worker), Mapping):
        launcher = LAUNCHER
        found[LAUNCHER], found[worker] = _derive(specs[worker])
    given = found.get(launcher)
    if isinstance(given, Mapping) and not batch and given.get("restartPolicy") is None:
        # v1's launcher was a bare pod that was never run again.
        found[launcher] = {**given, "restartPolicy": "Never"}
    return found


def _derive(worker: Spec) -> tuple[Spec, Spec]:
    """A launcher with the workers' template but not their devices, and workers without the command that is now its."""
    template = worker.get("template")
    launcher = {"template": _with_main(template, _without_devices)}
    return launcher, {**worker, "template": _with_main(template, _without_command)}


def _with_main(template: object, change: Any) -> object:
    """The template with its first container changed; itself if it has none."""
    if not isinstance(template, Mapping) or not isinstance(spec := template.get("spec"), Mapping):
        return template
    containers = spec.get("containers")
    if not isinstance(containers, list) or not containers or not isinstance(containers[0], Mapping):
        return template
    return {**template, "spec": {**spec, "containers": [change(containers[0]), *containers[1:]]}}


def _without_command(container: Spec) -> Spec:
    return {key: value for key, value in container.items() if key not in ("command", "args")}


def _without_devices(container: Spec) -> Spec:
    """Extended resources are the ones with a domain in their names: nvidia.com/gpu, rdma/hca."""
    resources = container.get("resources")
    if not isinstance(resources, Mapping):
        return container
    kept = {
        section: {name: amount for name, amount in amounts.items() if "/" not in str(name)}
        for section, amounts in resources.items()
        if section in ("limits", "requests") and isinstance(amounts, Mapping)
    }
    return {**container, "resources": {**resources, **kept}}
