"""The flat MPIJob, kubeflow.org/v1alpha1: one pod template and an amount of devices, as a current MPIJob.

Facts: mpi-operator v0.1 (allocation of processing units, launcher without resources, six tries).
"""

from collections.abc import Mapping
from typing import Any

from jobcommon.cli.convert.draft import MPIJOB_EXEC, Draft, Replicas
from jobcommon.cli.convert.finding import Notes
from jobcommon.cli.convert.resources import GPU
from jobcommon.cli.convert.section import Section
from jobcommon.cli.convert.task import without_nulls

API_VERSION = "kubeflow.org/v1alpha1"
_BACKOFF_LIMIT = 6
_DEVICES = {GPU: GPU, "cpu": "cpu"}


def is_flat_mpijob(body: Mapping[str, Any]) -> bool:
    """Whether the document is such a manifest."""
    return body.get("apiVersion") == API_VERSION and body.get("kind") == "MPIJob"


def read_flat_mpijob(body: Mapping[str, Any], notes: Notes, *, name: str | None, image: str | None) -> Draft:
    """The job in the document. What is wrong with it is in `notes`, and may have left the job incomplete."""
    top = Section(body, "", notes)
    top.take("api_version")
    top.take("kind")
    top.take("status")
    metadata = top.section("metadata")
    prefix, own = metadata.text("generate_name"), metadata.text("name")
    if prefix and not own:
        own = prefix.rstrip("-")
        notes.warn("metadata.generateName", f"a manifest has a name: {own}")
    labels, annotations = metadata.texts("labels"), metadata.texts("annotations")
    namespace = metadata.take("namespace")
    if namespace is not None:
        notes.warn("metadata.namespace", "is omitted: pass it to the command that applies the manifest")
    for generated in ("creation_timestamp", "uid", "resource_version", "generation", "self_link", "managed_fields"):
        metadata.take(generated)
    metadata.close()
    if not (name or own):
        notes.error("metadata.name", "is required")
    annotations.pop("kubectl.kubernetes.io/last-applied-configuration", None)
    spec = top.section("spec")
    template = without_nulls(spec.section("template").rest())
    pod = template.get("spec")
    containers = pod.get("containers") if isinstance(pod, Mapping) else None
    usable = isinstance(containers, list) and bool(containers) and all(isinstance(c, Mapping) for c in containers)
    main = dict(containers[0]) if usable and containers else {}
    if not usable:
        notes.error("spec.template.spec.containers", "is required: at least one container")
    if image:
        main["image"] = image
    count, units, device = _allocation(spec, main, notes)
    slots = spec.integer("slots_per_worker", least=1) or max(1, units)
    policy = {
        "backoffLimit": spec.integer("backoff_limit"),
        "activeDeadlineSeconds": spec.integer("active_deadline_seconds", least=1),
    }
    policy["backoffLimit"] = _BACKOFF_LIMIT if policy["backoffLimit"] is None else policy["backoffLimit"]
    spec.close()
    top.close()
    rest = containers[1:] if usable and containers else []
    launcher = {key: value for key, value in main.items() if key != "resources"}
    worker = {key: value for key, value in main.items() if key not in ("command", "args")}
    if device and units:
        worker["resources"] = _with_limit(worker.get("resources"), device, units)
    base = dict(pod) if isinstance(pod, Mapping) else {}
    restart = str(base.pop("restartPolicy", "OnFailure"))
    replicas = {
        "Launcher": Replicas(
            {**template, "spec": {**base, "containers": [launcher, *rest]}}, 1, "Never" if restart == "Never" else "OnFailure"
        ),
        # Its workers were a StatefulSet, which brings back a pod whatever it ended with.
        "Worker": Replicas({**template, "spec": {**base, "containers": [worker, *rest]}}, count, "Always"),
    }
    run_policy = {key: value for key, value in policy.items() if value is not None}
    return Draft(MPIJOB_EXEC, name or own or "", replicas, labels, annotations, run_policy, {"slotsPerWorker": slots})


def _allocation(spec: Section, main: Mapping[str, Any], notes: Notes) -> tuple[int, int, str | None]:
    """How many workers, the devices of each, and the device's name if it comes from the spec and not from the template."""
    kind = spec.text("processing_resource_type") or GPU
    device = next((name for short, name in _DEVICES.items() if kind in (short, short.rpartition("/")[2])), None)
    if device is None:
        notes.error("spec.processingResourceType", f"{kind[:40]} is not supported: use {' or '.join(_DEVICES)}")
    gpus, units = spec.integer("gpus", least=1), spec.integer("processing_units", least=1)
    per_gpus, per_units = spec.integer("gpus_per_node", least=1), spec.integer("processing_units_per_node", least=1)
    replicas = spec.integer("replicas", least=1, most=10_000)
    sizes = [key for key, value in (("gpus", gpus), ("processingUnits", units), ("replicas", replicas)) if value]
    if len(sizes) != 1:
        found = f"there are {', '.join(sizes)}" if sizes else "there is none"
        notes.error("spec", f"needs exactly one of gpus, processingUnits and replicas; {found}")
        return 1, 0, None
    if replicas:
        return replicas, _limit(main, device or GPU), None
    total, each = gpus or units or 1, per_gpus or per_units or 1
    if total < each:
        return 1, total, device
    if total % each:
        notes.error(f"spec.{sizes[0]}", f"{total} must be a multiple of those of a node, which has {each}")
    if total // each > 10_000:
        notes.error(f"spec.{sizes[0]}", "would make more than 10000 workers")
        return 1, each, device
    return total // each, each, device


def _limit(main: Mapping[str, Any], device: str) -> int:
    resources = main.get("resources")
    limits = resources.get("limits") if isinstance(resources, Mapping) else None
    amount = str(limits.get(device, "")) if isinstance(limits, Mapping) else ""
    return int(amount) if amount.isascii() and amount.isdecimal() and len(amount) < 7 else 0


def _with_limit(resources: object, device: str, amount: int) -> dict[str, Any]:
    given = dict(resources) if isinstance(resources, Mapping) else {}
    limits = given.get("limits")
    return {**given, "limits": {**(limits if isinstance(limits, Mapping) else {}), device: str(amount)}}
