"""Kubernetes' own gangs: what is written, and whole lives under a model of its scheduler."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from jobcommon.api.gang import COSCHEDULING, KOORDINATOR, NATIVE, VOLCANO, YUNIKORN, GangScheduler, min_count
from jobcommon.framework import Framework
from jobcommon.operators.tf import TF
from jobcommon.reconcile.gang import Gang
from jobcommon.reconcile.plan import Create
from jobcommon.reconcile.situation import Situation
from jobcommon.testutil.builders import job_manifest
from jobcommon.testutil.cluster_model import ClusterModel
from jobcommon.testutil.frameworks import TEST_JOB
from jobcommon.testutil.platform_model import GROUP, WORKLOAD

CREATED = [f"create {name}" for name in ("services/demo", "workloads/demo", "podgroups/demo")]


def world(replicas: Mapping[str, Any] | None = None, **job: Any) -> ClusterModel:
    framework: Framework = job.pop("framework", TEST_JOB)
    framework = replace(framework, options=replace(framework.options, gang=NATIVE))
    return ClusterModel(framework, job_manifest(framework, replicas or {"Worker": 4}, **job))


def waiting(replicas: Mapping[str, Any] | None = None, **job: Any) -> ClusterModel:
    """A job whose pods wait for the scheduler."""
    there = world(replicas, **job)
    there.settle()
    return there


def running(**job: Any) -> ClusterModel:
    """A job that the scheduler has placed."""
    there = waiting(**job)
    there.schedule()
    there.settle()
    return there


def settled(there: ClusterModel) -> list[str]:
    """What the passes until it is at rest have done."""
    return [str(action) for decided in there.settle() for action in decided.actions]


def message(there: ClusterModel, kind: str = "Created") -> str:
    return next(c["message"] for c in there.status["conditions"] if c["type"] == kind)


# -- what is written ------------------------------------------------------------------------------------------------------


def test_workload_and_pod_group() -> None:
    policy = {"schedulingPolicy": {"minAvailable": 2, "priorityClass": "high"}, "restartScope": "Job"}
    there = world({"Master": 1, "Worker": 2}, run_policy=policy)
    assert settled(there) == [*CREATED, *(f"create pods/demo-{n}" for n in ("master-0", "worker-0", "worker-1"))]
    created = [a for a in there.plans[0].actions if isinstance(a, Create)]
    assert [a.after for a in created if a.plural == "podgroups"] == [("workloads", "demo")]
    group = {"schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": {"all": {}}, "priorityClassName": "high"}
    assert there.others[GROUP]["spec"] == {"workloadRef": {"workloadName": "demo", "templateName": "gang"}, **group}
    assert there.others[WORKLOAD]["spec"] == {
        "controllerRef": {"apiGroup": "kubeflow.org", "kind": "TestJob", "name": "demo"},
        "podGroupTemplates": [{"name": "gang", **group}],
    }
    for key in (GROUP, WORKLOAD):
        (owner,) = there.others[key]["metadata"]["ownerReferences"]
        assert (there.others[key]["apiVersion"], owner["uid"], owner["controller"]) == (NATIVE.api_version, "uid-demo", True)
    pod = there.pods["demo-worker-0"].raw
    assert pod["spec"]["schedulingGroup"] == {"podGroupName": "demo"}
    assert "schedulerName" not in pod["spec"]


@pytest.mark.parametrize(("pod", "field"), [
    ({"schedulerName": "mine"}, "testReplicaSpecs[Worker].template.spec.schedulerName is mine, but other pods have default"),
    ({"schedulingGroup": {"podGroupName": "x"}}, "testReplicaSpecs[Worker].template.spec.schedulingGroup names another"),
], ids=["scheduler", "group"])  # fmt: skip
def test_templates_that_rule_a_gang_out(pod: dict[str, Any], field: str) -> None:
    worker = {"replicas": 2, "template": {"spec": {"containers": [{"name": "test-container", "image": "i"}], **pod}}}
    there = waiting({"Master": 1, "Worker": worker})
    assert GROUP not in there.others
    assert WORKLOAD not in there.others
    assert f"gang scheduling is off: spec.{field}" in message(there)
    assert len(there.pods) == 3


def test_the_condition_quotes_the_schedulers_reason() -> None:
    """The words of kube-scheduler 1.36.2."""
    there = waiting()
    condition = {"status": "False", "reason": "Unschedulable", "message": "pod group is unschedulable"}
    at = {"type": "PodGroupInitiallyScheduled", "lastTransitionTime": "2026-11-24T08:48:38Z"}
    status = {"conditions": [{**condition, **at}]}
    there.others[GROUP] = {**there.others[GROUP], "status": status}
    for name, text in (
        ("demo-worker-0", "0/4 nodes are available: 4 Insufficient cpu."),
        ("demo-worker-1", "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled"),
    ):
        there.put(there.pods[name].unschedulable(text))
    there.settle()
    assert message(there) == (
        "TestJob demo is created; waiting: gang of 4 pods since 2026-11-24T08:48:38Z: pod group is unschedulable; "
        "Worker-0: Unschedulable: 0/4 nodes are available: 4 Insufficient cpu."
    )
    there.schedule()
    there.settle()
    assert "waiting" not in message(there, "Running")


# -- lives ----------------------------------------------------------------------------------------------------------------


def test_a_replacement_is_placed_after_others_have_succeeded() -> None:
    """A batch Job hangs here (kubernetes#142330): its minCount still counts pods that the scheduler has forgotten."""
    there = running(policy="ExitCode")
    there.exit("demo-worker-0", 0).settle()
    there.exit("demo-worker-3", 137).settle()
    there.tick(60).settle()
    assert there.schedule() == ["demo-worker-3"]
    assert min_count(there.others[GROUP]) == 3
    assert there.others[WORKLOAD]["spec"]["podGroupTemplates"][0]["schedulingPolicy"]["gang"]["minCount"] == 3


@pytest.mark.parametrize("scheduler", [NATIVE, VOLCANO, COSCHEDULING, YUNIKORN, KOORDINATOR], ids=lambda one: one.mark)
def test_a_replica_that_has_failed_for_good_is_no_member(scheduler: GangScheduler) -> None:
    """Its peers would wait for it for ever."""
    framework = replace(TF, options=replace(TF.options, gang=scheduler))
    there = ClusterModel(
        framework, job_manifest(framework, {"PS": 1, "Worker": 3}, policy="ExitCode", enableDynamicWorker=True)
    )
    there.settle()
    there.others.get(GROUP, {})["status"] = {"phase": "Inqueue"}
    there.settle()
    there.run().settle()
    there.exit("demo-worker-1", 1).settle()
    assert there.current == "Running"
    job, observed = there.job, there.observed
    members = Gang(Situation(framework, job, observed, there.now, ())).members
    assert [str(one) for one in members] == ["PS-0", "Worker-0", "Worker-2"]
    if scheduler is NATIVE:
        assert min_count(there.others[GROUP]) == 3
    there.exit("demo-worker-2", 137).settle()
    there.tick(60).settle()
    if scheduler.native:
        assert there.schedule() == ["demo-worker-2"]


@pytest.mark.parametrize("scope", ["Pod", "Job"])
@pytest.mark.parametrize("count", [2, 6])
def test_scaled_while_it_waits(count: int, scope: str) -> None:
    there = waiting(run_policy={"restartScope": scope})
    there.scale("Worker", count).settle()
    there.tick(60).settle()
    assert min_count(there.others[GROUP]) == count
    resized = scope == "Job"
    assert (there.status.get("disruptions"), there.status.get("attempt") or 0) == (None, int(resized)), (
        "we have deleted the pods ourselves"
    )
    assert there.current == ("Restarting" if resized else "Created")
    there.room = count - 1
    assert there.schedule() == []
    there.room = count
    assert len(there.schedule()) == count


def test_a_resumed_job_waits_for_the_end_of_its_former_pod_group() -> None:
    there = running()
    old = there.others[GROUP]["metadata"]["uid"]
    there.edit(suspend=True).settle()
    there.edit(suspend=False).settle()
    assert message(there).endswith("its pods wait for the previous PodGroup demo to be deleted.")
    there.stop_terminating()
    there.protect()
    there.settle()
    assert there.others[GROUP]["metadata"]["uid"] != old
    assert len(there.schedule()) == 4


def test_a_group_that_a_user_deletes_goes_when_its_pods_have_ended() -> None:
    there = running(policy="ExitCode")
    group = there.others[GROUP]
    there.others[GROUP] = {**group, "metadata": {**group["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    there.exit("demo-worker-1", 137).settle()
    there.tick(60).settle()
    assert there.schedule() == ["demo-worker-1"], "it does not wait for a group that waits for the other pods"
