"""The manifests of Workloads and PodGroups, and the limits of the API."""

import pytest

from jobcommon import PodGroupTemplate, pod_group_manifest, with_min_count, with_scheduling_group, workload_manifest
from jobcommon.api.gang import V1BETA1

METADATA = {"name": "train", "namespace": "default"}


@pytest.mark.parametrize(
    ("template", "fields"),
    [
        (PodGroupTemplate("a"), {"schedulingPolicy": {"basic": {}}}),
        (PodGroupTemplate("a", 3), {"schedulingPolicy": {"gang": {"minCount": 3}}}),
        (
            PodGroupTemplate("a", 3, topology="rack", disrupt_all=True, priority_class="high"),
            {
                "schedulingPolicy": {"gang": {"minCount": 3}},
                "schedulingConstraints": {"topology": [{"key": "rack"}]},
                "disruptionMode": {"all": {}},
                "priorityClassName": "high",
            },
        ),
    ],
    ids=["basic", "gang", "everything"],
)
def test_the_manifests(template: PodGroupTemplate, fields: dict[str, object]) -> None:
    reference = {"workloadRef": {"workloadName": "train", "templateName": "a"}}
    assert pod_group_manifest(V1BETA1, METADATA, template, "train") == {
        "apiVersion": V1BETA1, "kind": "PodGroup", "metadata": METADATA, "spec": {**reference, **fields},
    }  # fmt: skip
    controller = {"apiGroup": "g", "kind": "K", "name": "train"}
    found = workload_manifest(V1BETA1, METADATA, [template], controller)
    assert found["spec"] == {"podGroupTemplates": [{"name": "a", **fields}], "controllerRef": controller}


def test_a_member() -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"containers": []}}
    assert with_scheduling_group(pod, "train")["spec"] == {"containers": [], "schedulingGroup": {"podGroupName": "train"}}
    assert "schedulingGroup" not in pod["spec"]


def test_another_min_count_changes_nothing_else() -> None:
    template, changed = (PodGroupTemplate("a", count, topology="rack") for count in (3, 2))
    workload = workload_manifest(V1BETA1, METADATA, [template])
    assert with_min_count(workload, 2) == workload_manifest(V1BETA1, METADATA, [changed])
    group = pod_group_manifest(V1BETA1, METADATA, template, "train")
    assert with_min_count(group, 2) == pod_group_manifest(V1BETA1, METADATA, changed, "train")


@pytest.mark.parametrize("templates", [[], [PodGroupTemplate(str(i)) for i in range(9)], [PodGroupTemplate("a")] * 2])
def test_a_workload_has_1_to_8_groups_with_different_names(templates: list[PodGroupTemplate]) -> None:
    with pytest.raises(ValueError, match="a Workload has 1 to 8 groups with different names"):
        workload_manifest(V1BETA1, METADATA, templates)
    workload_manifest(V1BETA1, METADATA, [PodGroupTemplate(str(i), 1) for i in range(8)])


def test_a_gang_has_at_least_one_pod() -> None:
    with pytest.raises(ValueError, match="min_count must be at least 1, not 0; None places each pod by itself"):
        PodGroupTemplate("a", 0)
