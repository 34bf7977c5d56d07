"""The schedulers that place the pods of a job all at once or not at all, and what marks and makes up their PodGroups."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from jobcommon.api import labels
from jobcommon.api.template import mapping_of, mappings_in
from jobcommon.api.view import ObjectView

V1BETA1 = "scheduling.k8s.io/v1beta1"
WORKLOAD, WORKLOADS = "Workload", "workloads"


def min_count(pod_group: Mapping[str, Any]) -> int:
    """The `minCount` of a PodGroup that was read; 0 for one that is no gang."""
    policy = (pod_group.get("spec") or {}).get("schedulingPolicy") or {}
    return int((policy.get("gang") or {}).get("minCount") or 0)


POD_GROUP = "PodGroup"
POD_GROUPS = "podgroups"
PRIORITY_CLASS_API = "scheduling.k8s.io/v1"
PRIORITY_CLASSES = "priorityclasses"

VOLCANO_API = "scheduling.volcano.sh/v1beta1"
# Its scheduler reads the first name, parts of it the second when the first is missing; its own controllers know both.
VOLCANO_GROUP, VOLCANO_OWN_GROUP = "scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name"
VOLCANO_TASK = "volcano.sh/task-spec"
VOLCANO_QUEUE = "scheduling.volcano.sh/queue-name"

COSCHEDULING_API = "scheduling.x-k8s.io/v1alpha1"
COSCHEDULING_GROUP = "scheduling.x-k8s.io/pod-group"
# The name under which its Helm chart installs the second scheduler.
COSCHEDULING_NAME = "scheduler-plugins-scheduler"

# Our own mark on a pod that was created as a member of a gang: the API of the PodGroup it belongs to.
MEMBER = labels.GANG
# Follows it in the mark of a pod that the scheduler may place by itself, although the job is a gang.
ALONE = "/alone"

# The conditions of a PodGroup that say what it waits for: Kubernetes, Volcano.
_WAITS = {("PodGroupInitiallyScheduled", "False"), ("Unschedulable", "True")}
# What a scheduler says of each pod of a group that it cannot place, and of the group itself.
OF_THE_GROUP = "pod group is "

ANY_SCHEDULER = "auto"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class GangScheduler:
    """A gang scheduler: its name in a pod's schedulerName, and the API of its PodGroups."""

    name: str
    api_version: str

    @property
    def resources(self) -> tuple[str, ...]:
        """The plurals of the objects that the operator makes for it."""
        return (POD_GROUPS, WORKLOADS) if self.native else (POD_GROUPS,)

    @property
    def native(self) -> bool:
        """Whether it is Kubernetes' own: any scheduler places the pods, and the PodGroup belongs to a Workload."""
        return self.api_version == V1BETA1

    @property
    def holds_pods(self) -> bool:
        """Whether pods are created only once the scheduler has taken up their PodGroup (Volcano's "enqueue")."""
        return self.api_version == VOLCANO_API


VOLCANO = GangScheduler("volcano", VOLCANO_API)
COSCHEDULING = GangScheduler(COSCHEDULING_NAME, COSCHEDULING_API)
NATIVE = GangScheduler("kubernetes", V1BETA1)
KNOWN = {"kubernetes": NATIVE, "volcano": VOLCANO}
"""By what a flag says; each other name is that of a scheduler with the coscheduling plugin."""


def default_priority_class(cluster: Mapping[tuple[str, str], ObjectView]) -> ObjectView | None:
    """The priority class of pods that name none: of several defaults that with the lowest value, as in the API server."""
    classes = (view for (plural, _), view in cluster.items() if plural == PRIORITY_CLASSES)
    defaults = (view for view in classes if view.raw.get("globalDefault") is True)
    return min(defaults, key=lambda view: view.raw.get("value") or 0, default=None)


class GroupWaits(NamedTuple):
    """What a PodGroup waits for, in its scheduler's words, and since when (as the API writes times, "" if it does not tell)."""

    message: str
    reason: str
    since: str


def waits_of(pod_group: Mapping[str, Any]) -> GroupWaits | None:
    """What the PodGroup's conditions say it waits for; None if they do not say so."""
    for condition in mappings_in(mapping_of(pod_group.get("status")).get("conditions")):
        if (condition.get("type"), condition.get("status")) in _WAITS:
            reason, message, since = (str(condition.get(key) or "") for key in ("reason", "message", "lastTransitionTime"))
            return GroupWaits(" ".join(message.split()) or reason, reason, since)
    return None


def size_of(pod_group: Mapping[str, Any]) -> int:
    """How many pods of the PodGroup are placed at once; 0 if it does not say so."""
    many = mapping_of(pod_group.get("spec")).get("minMember")
    return many if isinstance(many, int) else min_count(pod_group)


def candidates(name: str) -> tuple[GangScheduler, ...]:
    """The schedulers of which the cluster says which it is, the first choice first; none where `name` says it."""
    return (NATIVE, VOLCANO, COSCHEDULING) if name == ANY_SCHEDULER else ()


def gang_scheduler(name: str) -> GangScheduler | None:
    """The scheduler meant by a flag's value: one of `KNOWN` in any case, or the schedulerName under which the coscheduling
    plugin runs. None for "" (off) and for `auto`, which only the cluster can answer. Raises ValueError for an invalid name.
    """
    if name in ("", ANY_SCHEDULER):
        return None
    if (known := KNOWN.get(name.lower())) is not None:
        return known
    if not _NAME.fullmatch(name):
        raise ValueError(
            f'gang_scheduler_name "{name[:80]}" is not the name of a scheduler; use {", ".join(KNOWN)}, auto, or '
            "the schedulerName of the scheduler that runs the coscheduling plugin"
        )
    return GangScheduler(name, COSCHEDULING_API)
