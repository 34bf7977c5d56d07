"""What gang schedulers read: KAI's pod grouper (NVIDIA/KAI-Scheduler, `pkg/podgrouper`), Volcano (`pkg/scheduler`,
`pkg/controllers/podgroup`), the coscheduling plugin (kubernetes-sigs/scheduler-plugins, `pkg/coscheduling`), Kubernetes 1.36
(`pkg/scheduler/framework/plugins/gangscheduling`), YuniKorn (apache/yunikorn-k8shim, `pkg/cache`) and Koordinator
(`pkg/scheduler/plugins/coscheduling`).
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from jobcommon.api.gang import COSCHEDULING, KOORDINATOR, NATIVE, VOLCANO, YUNIKORN, GangScheduler
from jobcommon.api.observed import Observed
from jobcommon.reconcile import Create, plan, read_job
from jobcommon.testutil.builders import START, view_of
from tests.readers.lives import Life, Obj, label
from tests.readers.need import WITHOUT_MXNET, Need, text_of

# -- KAI -------------------------------------------------------------------------------------------------------------------

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


# -- with a PodGroup of ours -------------------------------------------------------------------------------------------------


@cache
def _gang(life_key: tuple[str, str], scheduler: GangScheduler) -> tuple[Obj, list[Obj]]:
    life = _LIVES[life_key]
    framework = replace(life.framework, options=replace(life.framework.options, gang=scheduler))
    job = read_job(framework, life.jobs[0])
    first = plan(framework, job, Observed(), START)
    groups = [a.manifest for a in first.actions if isinstance(a, Create) and a.plural == "podgroups"]
    if not groups:
        return {}, [dict(a.manifest) for a in first.actions if isinstance(a, Create) and a.plural == "pods"]
    (group,) = groups
    view = view_of({**group, "status": {"phase": "Inqueue"}}, uid="uid-group")
    then = plan(framework, job, Observed(companions={("PodGroup", job.name): view}), START)
    return dict(group), [dict(a.manifest) for a in then.actions if isinstance(a, Create) and a.plural == "pods"]


_LIVES: dict[tuple[str, str], Life] = {}


def gang_of(life: Life, scheduler: GangScheduler) -> tuple[Obj, list[Obj]]:
    """The job's PodGroup, and the pods that are created when the scheduler has taken it up."""
    key = (life.name, life.course)
    _LIVES[key] = life
    return _gang(key, scheduler)


def _enough(group: Obj, pods: list[Obj]) -> Iterator[str]:
    if not 1 <= group["spec"]["minMember"] <= len(pods):
        yield f"minMember {group['spec']['minMember']} of {len(pods)} pods"


def volcano_member(life: Life) -> Iterator[str]:
    """The scheduler reads one annotation, parts of it fall back to the other; a pod with neither gets a PodGroup of its own."""
    group, pods = gang_of(life, VOLCANO)
    for pod in pods:
        annotations = pod["metadata"]["annotations"]
        names = {annotations.get("scheduling.k8s.io/group-name"), annotations.get("scheduling.volcano.sh/group-name")}
        if names != {group["metadata"]["name"]} or pod["metadata"]["namespace"] != group["metadata"]["namespace"]:
            yield f"{pod['metadata']['name']} is in {names}"
        if annotations.get("volcano.sh/task-spec") != label(pod, "replica-type"):
            yield f"{pod['metadata']['name']} has no task"
        if pod["spec"].get("schedulerName") != "volcano":
            yield f"{pod['metadata']['name']} is for {pod['spec'].get('schedulerName')}"


def volcano_group(life: Life) -> Iterator[str]:
    """A group is placed when minMember pods and minResources can be."""
    group, pods = gang_of(life, VOLCANO)
    if group["apiVersion"] != "scheduling.volcano.sh/v1beta1":
        yield group["apiVersion"]
    yield from _enough(group, pods)


def coscheduling_member(life: Life) -> Iterator[str]:
    """Siblings are found by label; a pod whose group is not there is refused."""
    group, pods = gang_of(life, COSCHEDULING)
    for pod in pods:
        if text_of(pod["metadata"], "labels", "scheduling.x-k8s.io/pod-group") != group["metadata"]["name"]:
            yield f"{pod['metadata']['name']} is in no group"
        if pod["spec"].get("schedulerName") != COSCHEDULING.name:
            yield f"{pod['metadata']['name']} is for {pod['spec'].get('schedulerName')}"


def coscheduling_group(life: Life) -> Iterator[str]:
    """With fewer siblings than minMember no pod is considered."""
    group, pods = gang_of(life, COSCHEDULING)
    unknown = set(group["spec"]) - {"minMember", "minResources", "scheduleTimeoutSeconds"}
    if group["apiVersion"] != "scheduling.x-k8s.io/v1alpha1" or unknown:
        yield f"{group['apiVersion']} {sorted(unknown)}"
    yield from _enough(group, pods)


def native_gang(life: Life) -> Iterator[str]:
    """So many pods that name the group are considered together, and they must have one scheduler."""
    for scheduler in NATIVE:
        group, pods = gang_of(life, scheduler)
        named = [
            pod for pod in pods if (pod["spec"].get("schedulingGroup") or {}).get("podGroupName") == group["metadata"]["name"]
        ]
        least = group["spec"]["schedulingPolicy"]["gang"]["minCount"]
        if len(named) < least or len({pod["spec"].get("schedulerName") for pod in named}) != 1:
            yield f"minCount {least} of {len(named)} pods"


def yunikorn_gang(life: Life) -> Iterator[str]:
    """Each placeholder must be replaced: so many pods of each task group as it has members, none asking for more."""
    _, pods = gang_of(life, YUNIKORN)
    texts = {pod["metadata"]["annotations"]["yunikorn.apache.org/task-groups"] for pod in pods}
    if len(texts) != 1:
        yield "pods differ in their task groups"
    there = Counter(pod["metadata"]["annotations"].get("yunikorn.apache.org/task-group-name") for pod in pods)
    for group in json.loads(texts.pop()):
        if there[group["name"]] < group["minMember"]:
            yield f"{group['name']}: minMember {group['minMember']} of {there[group['name']]} pods"
    for pod in pods:
        if not pod["metadata"]["labels"].get("yunikorn.apache.org/app-id") or pod["spec"].get("schedulerName") != "yunikorn":
            yield f"{pod['metadata']['name']} is in no application"


def koordinator_gang(life: Life) -> Iterator[str]:
    """A gang is known by its name, and its size by any of its pods."""
    _, pods = gang_of(life, KOORDINATOR)
    prefix = "gang.scheduling.koordinator.sh/"
    gangs = {tuple(pod["metadata"]["annotations"].get(prefix + key) for key in ("name", "min-available")) for pod in pods}
    if len(gangs) != 1 or not 1 <= int(min(gangs)[1] or 0) <= len(pods):
        yield f"{gangs} of {len(pods)} pods"


def _kai(text: str, check: Any, kinds: tuple[str, ...] = GROUPED) -> Need:
    return Need("KAI", text, check, kinds, ("run",))


NEEDS = (
    _kai("an owner of a kind and version that it groups", owner),
    _kai("as many pods as its quorum, before one of them is placed", quorum),
    _kai("type and index of each pod, for subgroups and segments", segments, ("PyTorchJob",)),
    Need("Volcano", "group, task and scheduler on each pod", volcano_member, courses=("run",)),
    Need("Volcano", "a PodGroup whose quorum comes", volcano_group, courses=("run",)),
    Need("scheduler-plugins", "group and scheduler on each pod", coscheduling_member, courses=("run",)),
    Need("scheduler-plugins", "a PodGroup whose quorum comes", coscheduling_group, courses=("run",)),
    Need("Kubernetes 1.36, 1.37", "a gang of N pods", native_gang, courses=("run",)),
    Need("YuniKorn", "a gang of N pods", yunikorn_gang, courses=("run",)),
    Need("Koordinator", "a gang of N pods", koordinator_gang, courses=("run",)),
)
