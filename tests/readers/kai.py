"""What KAI's pod grouper reads (NVIDIA/KAI-Scheduler, `pkg/podgrouper`)."""

from collections.abc import Iterator
from typing import Any

from jobcommon.api.observed import Observed
from jobcommon.reconcile import Create, plan, read_job
from jobcommon.testutil.builders import START
from tests.readers.lives import Life, label
from tests.readers.need import WITHOUT_MXNET, Need

OWNERS = {("kubeflow.org/v1", kind) for kind in ("TFJob", "PyTorchJob", "MPIJob", "JAXJob", "XGBoostJob")} | {
    ("kubeflow.org/v2beta1", "MPIJob")
}
MANDATORY = {"MPIJob": ("Launcher", "Worker"), "XGBoostJob": ("Master", "Worker")}
GROUPED = tuple(kind for kind in WITHOUT_MXNET if kind != "PaddleJob")


def owner(life: Life) -> Iterator[str]:
    """The pod's owner is looked up by group, version and kind."""
    for pod in life.pods:
        (reference,) = pod["metadata"]["ownerReferences"]
        if (reference["apiVersion"], reference["kind"]) not in OWNERS or not reference["controller"]:
            yield f"{reference['apiVersion']} {reference['kind']} is grouped pod by pod"


def _min_available(life: Life) -> int:
    job, kind = life.jobs[0], life.framework.kind
    specs = job["spec"][life.framework.replica_specs]
    for name in MANDATORY.get(kind, ()):
        if name not in specs:
            raise ValueError(f"no {name}")
    # One that says nothing has the CRD's default.
    replicas = {name: spec.get("replicas", 1) for name, spec in specs.items()}
    if 0 in replicas.values():
        raise ValueError("a replica type with 0 replicas")
    least = sum(replicas.values())
    if kind == "PyTorchJob":
        least = (job["spec"].get("elasticPolicy") or {}).get("minReplicas", least)
    least = (job["spec"]["runPolicy"].get("schedulingPolicy") or {}).get("minAvailable", least)
    waits = kind == "MPIJob" and job["spec"].get("launcherCreationPolicy") == "WaitForWorkersReady"
    # A launcher that is there is found by its role, and then it is one of them.
    return int(least) - (replicas["Launcher"] if waits else 0)


def quorum(life: Life) -> Iterator[str]:
    """So many pods it places at once: so many must come without one of them being placed."""
    try:
        least = _min_available(life)
    except ValueError as error:
        yield str(error)
        return
    decision = plan(life.framework, read_job(life.framework, life.jobs[0]), Observed(), START)
    at_once = sum(isinstance(a, Create) and a.plural == "pods" for a in decision.actions)
    if at_once < least:
        yield f"waits for {least} pods where {at_once} come"


def segments(life: Life) -> Iterator[str]:
    """The subgroups of a PyTorchJob: by the type and the number of each pod."""
    for pod in life.pods:
        if label(pod, "replica-type") not in ("master", "worker") or not label(pod, "replica-index").isdecimal():
            yield f"{pod['metadata']['name']} is in no subgroup"


def _kai(text: str, check: Any, kinds: tuple[str, ...] = GROUPED) -> Need:
    return Need("KAI", text, check, kinds, ("run",))


NEEDS = (
    _kai("an owner of a kind and version that it groups", owner),
    _kai("as many pods as its quorum, before one of them is placed", quorum),
    _kai("type and index of each pod, for subgroups and segments", segments, ("PyTorchJob",)),
)
