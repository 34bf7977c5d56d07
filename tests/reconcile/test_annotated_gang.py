"""Gangs without a PodGroup of ours: what YuniKorn and Koordinator read from pods."""

import json
from dataclasses import replace
from typing import Any

import pytest

from jobcommon.api.gang import KOORDINATOR, YUNIKORN, GangScheduler
from jobcommon.testutil.builders import job_manifest
from jobcommon.testutil.cluster_model import ClusterModel
from jobcommon.testutil.frameworks import TEST_JOB

PARAMETERS = "yunikorn.apache.org/schedulingPolicyParameters"


def template(cpu: int, **spec: Any) -> dict[str, Any]:
    container = {"name": "test-container", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {"spec": {"containers": [container], **spec}}


def world(scheduler: GangScheduler, replicas: dict[str, Any], **job: Any) -> ClusterModel:
    framework = replace(TEST_JOB, options=replace(TEST_JOB.options, gang=scheduler))
    return ClusterModel(framework, job_manifest(framework, replicas, **job))


def pod_of(there: ClusterModel, name: str) -> tuple[dict[str, str], dict[str, str], str]:
    raw = there.pods[name].raw
    return raw["metadata"]["labels"], raw["metadata"]["annotations"], raw["spec"]["schedulerName"]


def test_task_groups_of_yunikorn() -> None:
    """One for each template; a placeholder goes where its pod may go."""
    worker = {
        "replicas": 3,
        "template": template(2, nodeSelector={"gpu": "a100"}),
        "overrides": [{"indices": [2], "template": template(8)}],
    }
    policy = {"queue": "root.research", "scheduleTimeoutSeconds": 60}
    there = world(YUNIKORN, {"Master": {"template": template(1)}, "Worker": worker}, run_policy={"schedulingPolicy": policy})
    (first, *_) = there.settle()
    assert {action.plural for action in first.actions} == {"services", "pods"}, "no object of its own"
    selector = {"nodeSelector": {"gpu": "a100"}}
    groups = [
        {"name": "master", "minMember": 1, "minResource": {"cpu": "1"}},
        {"name": "worker", "minMember": 2, "minResource": {"cpu": "2"}, **selector},
        {"name": "worker-1", "minMember": 1, "minResource": {"cpu": "8"}, **selector},
    ]
    members = {"master-0": "master", "worker-0": "worker", "worker-1": "worker", "worker-2": "worker-1"}
    for name, group in members.items():
        labels, annotations, scheduler = pod_of(there, f"demo-{name}")
        assert labels["yunikorn.apache.org/app-id"] == labels["applicationId"] == "uid-demo"
        assert labels["yunikorn.apache.org/queue"] == labels["queue"] == "root.research"
        assert annotations["yunikorn.apache.org/task-group-name"] == group
        assert json.loads(annotations["yunikorn.apache.org/task-groups"]) == groups
        assert annotations[PARAMETERS] == "gangSchedulingStyle=Hard placeholderTimeoutInSeconds=60"
        assert scheduler == "yunikorn"


def override(index: int, **spec: Any) -> dict[str, Any]:
    variable = {"name": "test-container", "env": [{"name": "SHARD", "value": str(index)}]}
    return {"indices": [index], "template": {"spec": {"containers": [variable], **spec}}}


def test_templates_that_count_alike_share_a_task_group() -> None:
    """Three hundred replicas with a variable each had as many groups on every pod."""
    overrides = [override(index, **({"nodeSelector": {"zone": "b"}} if index >= 200 else {})) for index in range(300)]
    there = world(YUNIKORN, {"Worker": {"replicas": 300, "template": template(1), "overrides": overrides}})
    there.settle()
    _, annotations, _ = pod_of(there, "demo-worker-0")
    groups = json.loads(annotations["yunikorn.apache.org/task-groups"])
    assert [(group["name"], group["minMember"]) for group in groups] == [("worker-1", 200), ("worker-201", 100)]
    assert annotations["yunikorn.apache.org/task-group-name"] == "worker-1"
    assert pod_of(there, "demo-worker-299")[1]["yunikorn.apache.org/task-group-name"] == "worker-201"


LONG = "x" * 900


@pytest.mark.parametrize(("scheduler", "worker", "text"), [
    (
        YUNIKORN, {"overrides": [override(index, nodeSelector={"name": f"{index}{LONG}"}) for index in range(270)]},
        "spec.testReplicaSpecs: Too long: its templates make 2",
    ),
    (
        KOORDINATOR, {"template": {**template(1), "metadata": {"annotations": {"notes": "x" * 250_000}}}},
        "[Worker].template.metadata.annotations: Too long: 250,005 bytes: ",
    ),
], ids=["task groups", "the template's own"])  # fmt: skip
def test_more_annotations_than_a_pod_may_have_are_refused_by_name(
    scheduler: GangScheduler, worker: dict[str, Any], text: str
) -> None:
    there = world(scheduler, {"Worker": {"replicas": 300, "template": template(1), **worker}})
    there.settle()
    assert (there.current, there.pods) == ("Failed", {})
    message = there.status["conditions"][-1]["message"]
    assert text in message
    assert "a pod may have 262,144, of which the operator needs 16,384" in message


def test_fewer_than_all_are_needed_and_the_template_may_say_more() -> None:
    worker = {"replicas": 3, "template": {**template(2), "metadata": {"labels": {"queue": "mine"}}}}
    policy = {"schedulingPolicy": {"minAvailable": 1}}
    there = world(YUNIKORN, {"Master": {"template": template(1)}, "Worker": worker}, run_policy=policy)
    there.settle()
    labels, annotations, _ = pod_of(there, "demo-worker-0")
    assert labels["queue"] == "mine"
    assert [group["name"] for group in json.loads(annotations["yunikorn.apache.org/task-groups"])] == ["master"]
    assert "yunikorn.apache.org/task-group-name" not in annotations, "it has no place to be held"
    assert annotations[PARAMETERS] == "gangSchedulingStyle=Hard"


@pytest.mark.parametrize(("policy", "expected"), [
    ({}, {"name": "demo", "min-available": "4", "total-number": "4"}),
    (
        {"minAvailable": 2, "scheduleTimeoutSeconds": 60},
        {"name": "demo", "min-available": "2", "total-number": "4", "waiting-time": "60s"},
    ),
    ({"minAvailable": 9}, {"name": "demo", "min-available": "9", "total-number": "9"}),
], ids=["default", "policy", "more than there are"])  # fmt: skip
def test_annotations_of_koordinator(policy: dict[str, Any], expected: dict[str, str]) -> None:
    there = world(KOORDINATOR, {"Worker": 4}, run_policy={"schedulingPolicy": policy})
    there.settle()
    _, annotations, scheduler = pod_of(there, "demo-worker-3")
    prefix = "gang.scheduling.koordinator.sh/"
    assert {key.removeprefix(prefix): value for key, value in annotations.items() if key.startswith(prefix)} == expected
    assert scheduler == "koord-scheduler"
