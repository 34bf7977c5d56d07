"""Native gangs of Kubernetes: the manifests of a Workload and its PodGroups, and a pod's membership, for any controller.

Create the Workload first, then the PodGroups, then the pods. `minCount` of a PodGroup counts pods that have not ended: lower it
as pods succeed, or the replacement of another is never scheduled (kubernetes#142330). v1alpha2 does not let it be changed.

Facts: scheduling.k8s.io/v1beta1 (Kubernetes 1.37, KEP-4671) and v1alpha2 (1.36).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

V1BETA1, V1ALPHA2 = "scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha2"
VERSIONS = (V1BETA1, V1ALPHA2)
"""The versions that can be written, the newest first."""
WORKLOAD, WORKLOADS = "Workload", "workloads"
MAX_TEMPLATES = 8


@dataclass(frozen=True, slots=True)
class PodGroupTemplate:
    """One group of pods of a Workload. `name` is a DNS label.

    `min_count` pods are placed at once or not at all; None places each by itself. `topology`: the key of a node label, of which
    all nodes of the group have the same value. `disrupt_all`: who preempts one of its pods preempts all.
    """

    name: str
    min_count: int | None = None
    topology: str = ""
    disrupt_all: bool = False
    priority_class: str = ""

    def __post_init__(self) -> None:
        if self.min_count is not None and self.min_count < 1:
            raise ValueError(f"min_count must be at least 1, not {self.min_count}; None places each pod by itself")


def workload_manifest(
    api_version: str,
    metadata: Mapping[str, Any],
    templates: Sequence[PodGroupTemplate],
    controller: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A Workload of 1 to 8 groups. `controller` has the apiGroup, kind and name of the object that it stands for."""
    if not 1 <= len(templates) <= MAX_TEMPLATES or len({one.name for one in templates}) < len(templates):
        raise ValueError(f"a Workload has 1 to {MAX_TEMPLATES} groups with different names, not {[t.name for t in templates]}")
    spec: dict[str, Any] = {"podGroupTemplates": [{"name": t.name, **_policy(api_version, t)} for t in templates]}
    if controller is not None:
        spec["controllerRef"] = dict(controller)
    return {"apiVersion": api_version, "kind": WORKLOAD, "metadata": dict(metadata), "spec": spec}


def pod_group_manifest(
    api_version: str, metadata: Mapping[str, Any], template: PodGroupTemplate, workload: str
) -> dict[str, Any]:
    """The PodGroup of a template of the Workload named `workload`."""
    if api_version == V1ALPHA2:
        names = {"workloadName": workload, "podGroupTemplateName": template.name}
        reference: dict[str, Any] = {"podGroupTemplateRef": {"workload": names}}
    else:
        reference = {"workloadRef": {"workloadName": workload, "templateName": template.name}}
    spec = {**reference, **_policy(api_version, template)}
    return {"apiVersion": api_version, "kind": "PodGroup", "metadata": dict(metadata), "spec": spec}


def with_scheduling_group(pod: Mapping[str, Any], pod_group: str) -> dict[str, Any]:
    """The pod as a member of that PodGroup. All pods of a group need the same schedulerName."""
    return {**pod, "spec": {**pod["spec"], "schedulingGroup": {"podGroupName": pod_group}}}


def min_count(pod_group: Mapping[str, Any]) -> int:
    """The `minCount` of a PodGroup that was read; 0 for one that is no gang."""
    policy = (pod_group.get("spec") or {}).get("schedulingPolicy") or {}
    return int((policy.get("gang") or {}).get("minCount") or 0)


def with_min_count(found: Mapping[str, Any], count: int) -> dict[str, Any]:
    """A PodGroup that was read, or a Workload of one group, with another `minCount`."""

    def changed(group: Mapping[str, Any]) -> dict[str, Any]:
        return {**group, "schedulingPolicy": {"gang": {"minCount": count}}}

    spec = found["spec"]
    if templates := spec.get("podGroupTemplates"):
        return {**found, "spec": {**spec, "podGroupTemplates": [changed(template) for template in templates]}}
    return {**found, "spec": changed(spec)}


def _policy(api_version: str, template: PodGroupTemplate) -> dict[str, Any]:
    gang = {"basic": {}} if template.min_count is None else {"gang": {"minCount": template.min_count}}
    fields: dict[str, Any] = {"schedulingPolicy": gang}
    if template.topology:
        fields["schedulingConstraints"] = {"topology": [{"key": template.topology}]}
    if template.disrupt_all:
        fields["disruptionMode"] = "PodGroup" if api_version == V1ALPHA2 else {"all": {}}
    if template.priority_class:
        fields["priorityClassName"] = template.priority_class
    return fields
