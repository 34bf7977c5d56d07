"""Gang scheduling: the cases of the reference's tests, what is written into PodGroups and pods, and whole lives of jobs."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import msgspec
import pytest
import yaml

from jobcommon.api.gang import NATIVE, VOLCANO, GangScheduler, gang_scheduler, min_count
from jobcommon.api.observed import Observed
from jobcommon.api.replica import Replica
from jobcommon.api.view import ObjectView
from jobcommon.framework import Framework, Job, Tallies
from jobcommon.operators.mpi import MPI
from jobcommon.operators.tf import TF
from jobcommon.reconcile import plan
from jobcommon.reconcile.gang import Gang
from jobcommon.reconcile.plan import Create
from jobcommon.reconcile.view import look
from jobcommon.spec import read_job
from jobcommon.testutil.builders import START, Manifest, job_manifest, view_of
from jobcommon.testutil.cluster_model import ClusterModel
from jobcommon.testutil.frameworks import TEST_JOB

COSCHEDULING = gang_scheduler("my-scheduler")
assert COSCHEDULING is not None
SCHEDULERS = pytest.mark.parametrize("scheduler", [VOLCANO, COSCHEDULING], ids=["volcano", "scheduler-plugins"])
KEY = ("PodGroup", "demo")


def priority_classes(values: Mapping[str, int]) -> dict[tuple[str, str], ObjectView]:
    """Those with such a name are defaults."""
    found = {
        name: {"metadata": {"name": name}, "value": value, "globalDefault": "default" in name} for name, value in values.items()
    }
    return {("priorityclasses", name): view_of(manifest, uid=name) for name, manifest in found.items()}


def under(framework: Framework, scheduler: GangScheduler | None) -> Framework:
    return replace(framework, options=replace(framework.options, gang=scheduler))


@dataclass
class GangWorld(ClusterModel):
    """A world with priority classes, and PodGroups whose phase is in the test's hand."""

    priorities: Mapping[str, int] | None = None

    @property
    def observed(self) -> Observed:
        return replace(super().observed, cluster=priority_classes(self.priorities or {}))

    @property
    def group(self) -> Manifest:
        return self.others[KEY]

    def phase(self, phase: str) -> Self:
        self.others[KEY] = {**self.group, "status": {"phase": phase}}
        return self

    def writes(self) -> list[str]:
        """What the passes until it is at rest have done."""
        return [str(action) for decided in self.settle() for action in decided.actions]

    def message(self, kind: str = "Created") -> str:
        return next(c["message"] for c in self.status["conditions"] if c["type"] == kind)


def world(scheduler: GangScheduler | None, replicas: Mapping[str, Any] | None = None, **job: Any) -> GangWorld:
    framework = under(job.pop("framework", TEST_JOB), scheduler)
    return GangWorld(framework, job_manifest(framework, replicas or {"Master": 1, "Worker": 2}, **job))


def settled(scheduler: GangScheduler | None, replicas: Mapping[str, Any] | None = None, **job: Any) -> GangWorld:
    """The same, with all made that is made before the scheduler has answered."""
    there = world(scheduler, replicas, **job)
    there.settle()
    return there


def spec(
    replicas: int = 1, requests: Mapping[str, Any] | None = None, *, container: str = "main", **pod: Any
) -> dict[str, Any]:
    """A replica spec whose pods request so much."""
    containers = [{"name": container, "image": "i", "resources": {"requests": dict(requests or {})}}]
    return {"replicas": replicas, "template": {"spec": {"containers": containers, **pod}}}


def of_test_job(replicas: int = 1, requests: Mapping[str, Any] | None = None, **pod: Any) -> dict[str, Any]:
    return spec(replicas, requests, container="test-container", **pod)


def group_of(framework: Framework, manifest: Manifest, **observed: Any) -> Manifest:
    """The PodGroup that the first pass creates."""
    decided = plan(framework, read_job(framework, manifest), Observed(**observed), START)
    (found,) = [a.manifest for a in decided.actions if isinstance(a, Create) and a.plural == "podgroups"]
    return dict(found)


# -- what a scheduler reads -----------------------------------------------------------------------------------------------

GOLDEN = Path(__file__).parent.parent / "golden/gangs.yaml"
RACK = {"key": "topology.kubernetes.io/rack"}
ALL_SET = {
    "minAvailable": 2, "queue": "project-y", "priorityClass": "high", "scheduleTimeoutSeconds": 100,
    "minResources": {"cpu": "100", "memory": "512Gi", "nvidia.com/gpu": "40"},
}  # fmt: skip
PAIR = {
    "Master": of_test_job(1, {"cpu": 1}),
    "Worker": of_test_job(2, {"cpu": 10, "memory": "20Gi"}, nodeSelector={"gpu": "a100"}),
}
BIG = {"spec": {"containers": [{"name": "test-container", "resources": {"requests": {"cpu": 8}}}]}}
#: the replicas and the schedulingPolicy
JOBS: dict[str, tuple[dict[str, Any], Manifest]] = {
    "no policy": ({**PAIR, "Master": of_test_job(1, {"cpu": 1}, priorityClassName="high")}, {}),
    "all set": (PAIR, ALL_SET),
    "fewer than all": (PAIR, {"minAvailable": 1}),
    "more than there are": ({"Worker": of_test_job(4)}, {"minAvailable": 9}),
    "overrides": ({"Worker": of_test_job(4, {"cpu": 1}) | {"overrides": [{"indices": [1, 3], "template": BIG}]}}, {}),
    "another scheduler": ({"Master": of_test_job(schedulerName="mine"), "Worker": of_test_job()}, {}),
    "topology": ({"Worker": of_test_job()}, {"topology": RACK}),
    "topology, preferred": ({"Worker": of_test_job()}, {"topology": {**RACK, "mode": "Preferred"}}),
}  # fmt: skip
ALL = (None, VOLCANO, COSCHEDULING, NATIVE)


def read_by(scheduler: GangScheduler | None, replicas: Mapping[str, Any], policy: Manifest) -> Manifest:
    notes = {"scheduling.volcano.sh/queue-name": "project-x", "kubectl.kubernetes.io/last-applied-configuration": "{}"}
    there = settled(scheduler, replicas, run_policy={"schedulingPolicy": policy}, annotations=notes)
    if scheduler is VOLCANO:
        there.phase("Inqueue").settle()
    found: Manifest = {
        f"{one['apiVersion']} {kind}": {"annotations": one["metadata"].get("annotations"), "spec": one["spec"]}
        for (kind, _), one in there.others.items()
        if kind != "Service"
    }
    for name, pod in there.pods.items():
        own = {**pod.raw["metadata"]["labels"], **pod.raw["metadata"].get("annotations", {})}
        marks = {key: text for key, text in own.items() if not key.startswith("training.")}
        spec = {key: pod.raw["spec"][key] for key in ("schedulerName", "schedulingGroup") if key in pod.raw["spec"]}
        if {**marks, **spec} not in found.values():
            found[name] = {**marks, **spec}
    return {**found, "events": sorted({event.reason for event in there.events}), "condition": there.message()}


def test_what_each_scheduler_reads_of_a_gang() -> None:
    found = {
        getattr(one, "name", "none") or "kubernetes": {name: read_by(one, *job) for name, job in JOBS.items()} for one in ALL
    }
    text = yaml.safe_dump(msgspec.json.decode(msgspec.json.encode(found)), sort_keys=False, default_flow_style=None, width=200)
    if os.environ.get("GOLDEN") == "write":
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text(), "if this is meant: make golden"


CLASSES = {"high": 100_010, "low": 10_010, "default-two": 200_010, "default": 50_010}
Asks = tuple[int, str, str]
#: what launcher and worker ask for (cpu, memory, priority class), how many workers, minAvailable; cpu and memory of the gang
MIN_RESOURCES: dict[str, tuple[Asks, Asks, int, int, tuple[str, str]]] = {
    "min 3": ((2, "1Gi", ""), (10, "32Gi", ""), 2, 3, ("22", "65Gi")),
    "launcher only": ((2, "1Gi", ""), (0, "0", ""), 0, 1, ("2", "1Gi")),
    "unknown classes": ((2, "2Gi", "unknown"), (5, "16Gi", "nowhere"), 2, 2, ("7", "18Gi")),
    "important launcher": ((2, "4Gi", "high"), (20, "64Gi", "low"), 100, 2, ("22", "68Gi")),
    "workers of the default class": ((2, "4Gi", "low"), (20, "64Gi", ""), 2, 1, ("20", "64Gi")),
    "workers of the lower of two defaults": ((2, "4Gi", "high"), (20, "64Gi", ""), 2, 1, ("2", "4Gi")),
    "unimportant launcher; mpi-operator asked for two of it": ((2, "0", "low"), (10, "1Gi", "high"), 4, 3, ("30", "3Gi")),
}


@pytest.mark.parametrize(("launcher", "worker", "workers", "least", "total"), MIN_RESOURCES.values(), ids=MIN_RESOURCES)
@SCHEDULERS
def test_a_gang_asks_for_its_most_important_members(
    scheduler: GangScheduler, launcher: Asks, worker: Asks, workers: int, least: int, total: tuple[str, str]
) -> None:
    replicas = {
        kind: spec(number, {"cpu": cpu, "memory": memory}, priorityClassName=name)
        for kind, number, (cpu, memory, name) in (("Launcher", 1, launcher), ("Worker", workers, worker))
        if number
    }
    manifest = job_manifest(MPI, replicas, run_policy={"schedulingPolicy": {"minAvailable": least}})
    found = group_of(under(MPI, scheduler), manifest, cluster=priority_classes(CLASSES))["spec"]["minResources"]
    assert (found["cpu"], found["memory"]) == total


# -- other rules of PodGroups ---------------------------------------------------------------------------------------------


@SCHEDULERS
@pytest.mark.parametrize(("amounts", "advice"), [
    ({"cpu": "many"}, "minResources[cpu]"), ({"memory": None}, "minResources[memory]"), ({"a": 1, "b": []}, "minResources[b]"),
])  # fmt: skip
def test_bad_min_resources_fail_the_job_with_advice(scheduler: GangScheduler, amounts: Manifest, advice: str) -> None:
    there = settled(scheduler, run_policy={"schedulingPolicy": {"minResources": amounts}})
    assert there.current == "Failed"
    assert advice in there.message("Failed")
    assert "write a number" in there.message("Failed")


# -- what is updated ------------------------------------------------------------------------------------------------------


@SCHEDULERS
def test_a_pod_group_without_changes_of_ours_is_not_rewritten(scheduler: GangScheduler) -> None:
    """Defaults of the server, other controllers' fields and other spellings of an amount are no differences."""
    there = settled(scheduler, {"Worker": of_test_job(2, {"cpu": "1500m", "memory": "1Gi"})})
    group = there.group
    changed = {
        "minResources": {"memory": "2048Mi", "cpu": "3000m"},
        "minTaskMember": {"worker": 1},
        "networkTopology": {"mode": "soft"},
    }
    queue = {"queue": "default"} if scheduler is VOLCANO else {}
    there.others[KEY] = {**group, "spec": {**group["spec"], **changed, **queue}, "status": {"phase": "Inqueue"}}
    assert not [line for line in there.writes() if "podgroups" in line]


@SCHEDULERS
def test_only_our_fields_are_put_right(scheduler: GangScheduler) -> None:
    there = settled(scheduler)
    foreign = {"minTaskMember": {"worker": 1}, "minMember": 7}
    there.others[KEY] = {**there.group, "spec": {**there.group["spec"], **foreign}, "status": {"phase": "Running"}}
    assert "update podgroups/demo" in there.writes()
    assert there.group["spec"] == {"minMember": 3, "minTaskMember": {"worker": 1}}
    assert there.group["status"] == {"phase": "Running"}


def test_the_queue_is_kept_unless_the_policy_names_one() -> None:
    there = settled(VOLCANO)
    there.others[KEY] = {**there.group, "spec": {**there.group["spec"], "queue": "from-the-webhook"}}
    assert there.writes() == []
    there.edit(schedulingPolicy={"queue": "mine", "minAvailable": 2})
    assert there.writes() == ["update podgroups/demo"]
    assert there.group["spec"] == {"minMember": 2, "queue": "mine"}


def test_a_field_that_the_policy_no_longer_has_goes() -> None:
    there = settled(VOLCANO, run_policy={"schedulingPolicy": {"priorityClass": "high", "minResources": {"cpu": 1}}})
    assert there.group["spec"] == {"minMember": 3, "priorityClassName": "high", "minResources": {"cpu": "1"}}
    there.edit(schedulingPolicy=None).settle()
    assert there.group["spec"] == {"minMember": 3}


# -- which pods wait ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phase", "created"),
    [("", False), ("Pending", False), ("Inqueue", True), ("Running", True), ("Unknown", True), ("Completed", True)],
)
def test_pods_are_created_once_volcano_has_taken_the_pod_group_up(phase: str, created: bool) -> None:
    there = world(VOLCANO)
    assert there.writes() == ["create services/demo", "create podgroups/demo"]
    there.phase(phase)
    assert bool(there.writes()) is created
    assert len(there.pods) == (3 if created else 0)


# -- lives ----------------------------------------------------------------------------------------------------------------


def test_the_deadline_does_not_run_in_the_queue() -> None:
    there = settled(VOLCANO, run_policy={"activeDeadlineSeconds": 60})
    there.phase("Pending")
    there.tick(3600)
    assert there.writes() == []
    assert there.plans[-1].wake_at is None
    assert "startTime" not in there.status
    assert there.current == "Created"
    assert there.message() == "TestJob demo is created; its pods wait for volcano to accept PodGroup demo."
    waits = [event for event in there.events if event.reason == "Waiting"]
    assert waits
    assert all(event.lasting for event in waits), "said once"
    there.phase("Inqueue").settle()
    assert there.message() == "TestJob demo is created."
    there.run()
    there.tick(59).settle()
    assert there.current == "Running"
    there.tick(1).settle()
    assert there.current == "Failed"
    assert KEY not in there.others


# -- members that are not created at first --------------------------------------------------------------------------------


def launcher_last(_job: Job, replica: Replica, tallies: Tallies) -> bool:
    return replica.type != "Master" or tallies["Worker"].ready >= tallies["Worker"].wanted


@SCHEDULERS
@pytest.mark.parametrize("min_available", [None, 3])
def test_held_back_replicas_are_not_members(scheduler: GangScheduler, min_available: int | None) -> None:
    """mpi-operator#608: the workers waited for the launcher, and the launcher for the workers."""
    policy = {"schedulingPolicy": {"minAvailable": min_available}} if min_available else {}
    replicas = {"Master": of_test_job(1, {"cpu": 1}), "Worker": {**of_test_job(2, {"cpu": 4}), "restartPolicy": "ExitCode"}}
    there = settled(scheduler, replicas, framework=replace(TEST_JOB, may_create=launcher_last), run_policy=policy)
    assert there.group["spec"] == {"minMember": 2, "minResources": {"cpu": "8"}}
    there.phase("Inqueue").settle()
    assert sorted(there.pods) == ["demo-worker-0", "demo-worker-1"]
    there.run()
    there.phase("Running").settle()
    assert "demo-master-0" in there.pods
    assert there.group["spec"] == {"minMember": 3, "minResources": {"cpu": "9"}}
    there.run()
    there.exit("demo-worker-0", 137).settle()
    assert there.pods["demo-worker-0"].view.phase == "Pending"
    assert there.group["spec"]["minMember"] == 3, "who is there counts"


# -- off ------------------------------------------------------------------------------------------------------------------

MISSING = "PodGroup (scheduling.volcano.sh/v1beta1) is not installed in this cluster"


def test_without_pod_groups_pods_run_one_by_one() -> None:
    there = world(VOLCANO)
    there.missing = {"podgroups": MISSING}
    there.settle()
    assert len(there.pods) == 3
    assert "schedulerName" not in there.pods["demo-master-0"].raw["spec"]
    assert KEY not in there.others
    assert there.message() == f"TestJob demo is created; gang scheduling is off: {MISSING}."
    (event,) = {e for e in there.events if e.reason == "GangSchedulingOff"}
    assert event.lasting
    there.run().settle()
    assert there.current == "Running"


def test_a_job_joins_as_a_whole_or_not_at_all() -> None:
    """PodGroups come while pods run that belong to none: a gang of the new ones would wait for ever."""
    there = world(VOLCANO, policy="ExitCode")
    there.missing = {"podgroups": MISSING}
    there.start()
    there.missing = {}
    there.exit("demo-worker-1", 137).settle()
    there.tick(10).settle()
    assert KEY not in there.others
    assert "schedulerName" not in there.pods["demo-worker-1"].raw["spec"]
    assert "suspend and resume the job" in there.message()
    there.suspend()
    there.edit(suspend=False).settle()
    assert there.group["spec"]["minMember"] == 3
    there.phase("Inqueue").settle()
    assert {pod.raw["spec"]["schedulerName"] for pod in there.pods.values()} == {"volcano"}
    assert there.message() == "TestJob demo is created."


def test_without_replicas_there_is_no_pod_group_to_wait_for() -> None:
    there = settled(VOLCANO, {"Worker": 0})
    assert KEY not in there.others
    assert there.message() == "TestJob demo is created."
    assert there.status["startTime"]


def test_members_of_another_schedulers_gang_are_outside() -> None:
    """The operator was started with another flag: a PodGroup of the new scheduler would have none of these pods."""
    there = settled(VOLCANO).phase("Running").start()
    del there.others[KEY]
    there.framework = under(TEST_JOB, COSCHEDULING)
    assert there.writes() == []
    assert "suspend and resume the job" in there.message()


# -- the flag -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "expected"), [
    ("", None), ("auto", None), ("volcano", VOLCANO), ("Volcano", VOLCANO),
    ("scheduler-plugins-scheduler", GangScheduler("scheduler-plugins-scheduler", "scheduling.x-k8s.io/v1alpha1")),
    ("default-scheduler", GangScheduler("default-scheduler", "scheduling.x-k8s.io/v1alpha1")),
])  # fmt: skip
def test_a_name_stands_for_its_gang_scheduler(name: str, expected: GangScheduler | None) -> None:
    assert gang_scheduler(name) == expected


@pytest.mark.parametrize("name", ["two words", "-x", "Über", "x" * 64, "a/b"])
def test_a_name_that_no_scheduler_can_have_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="use kubernetes, volcano, auto, or the schedulerName"):
        gang_scheduler(name)


# -- topology -----------------------------------------------------------------------------------------------------------------

FIELD = "spec.runPolicy.schedulingPolicy.topology"


def asking(scheduler: GangScheduler | None, **topology: str) -> GangWorld:
    there = world(scheduler, run_policy={"schedulingPolicy": {"topology": {**RACK, **topology}}})
    there.settle()
    return there


@pytest.mark.parametrize(("scheduler", "field", "gate"), [
    (NATIVE, "schedulingConstraints", "the feature gate TopologyAwareWorkloadScheduling"),
    (VOLCANO, "networkTopology", "Volcano's definition of PodGroup"),
])  # fmt: skip
def test_a_server_that_drops_it_is_not_asked_again(scheduler: GangScheduler, field: str, gate: str) -> None:
    there = asking(scheduler)
    spec = {key: value for key, value in there.group["spec"].items() if key != field}
    there.others[KEY] = {**there.group, "spec": spec}
    assert not [line for line in there.writes() if "podgroups" in line or "workloads" in line]
    assert f"{FIELD}: PodGroup demo was created without it; check {gate}" in there.message()


# -- lives under a model of Kubernetes' own scheduler ------------------------------------------------------------------------

FOUR = {"Worker": 4}


def placed(**job: Any) -> GangWorld:
    """A job that the scheduler has placed."""
    there = settled(NATIVE, FOUR, **job)
    there.schedule()
    there.settle()
    return there


@pytest.mark.parametrize(("pod", "field"), [
    ({"schedulerName": "mine"}, "testReplicaSpecs[Worker].template.spec.schedulerName is mine, but other pods have default"),
    ({"schedulingGroup": {"podGroupName": "x"}}, "testReplicaSpecs[Worker].template.spec.schedulingGroup names another"),
], ids=["scheduler", "group"])  # fmt: skip
def test_templates_that_rule_a_gang_out(pod: dict[str, Any], field: str) -> None:
    worker = {"replicas": 2, "template": {"spec": {"containers": [{"name": "test-container", "image": "i"}], **pod}}}
    there = settled(NATIVE, {"Master": 1, "Worker": worker})
    assert KEY not in there.others
    assert ("Workload", "demo") not in there.others
    assert f"gang scheduling is off: spec.{field}" in there.message()
    assert len(there.pods) == 3


def test_a_replacement_is_placed_after_others_have_succeeded() -> None:
    """A batch Job hangs here (kubernetes#142330): its minCount still counts pods that the scheduler has forgotten."""
    there = placed(policy="ExitCode")
    there.exit("demo-worker-0", 0).settle()
    there.exit("demo-worker-3", 137).settle()
    there.tick(60).settle()
    assert there.schedule() == ["demo-worker-3"]
    assert min_count(there.others[KEY]) == 3
    assert there.others[("Workload", "demo")]["spec"]["podGroupTemplates"][0]["schedulingPolicy"]["gang"]["minCount"] == 3


@pytest.mark.parametrize("scheduler", [NATIVE, VOLCANO, COSCHEDULING], ids=lambda one: one.name)
def test_a_replica_that_has_failed_for_good_is_no_member(scheduler: GangScheduler) -> None:
    """Its peers would wait for it for ever."""
    framework = replace(TF, options=replace(TF.options, gang=scheduler))
    there = GangWorld(framework, job_manifest(framework, {"PS": 1, "Worker": 3}, policy="ExitCode", enableDynamicWorker=True))
    there.settle()
    there.others.get(KEY, {})["status"] = {"phase": "Inqueue"}
    there.settle()
    there.run().settle()
    there.exit("demo-worker-1", 1).settle()
    assert there.current == "Running"
    job, observed = there.job, there.observed
    members = Gang(look(framework, job, observed, there.now, ())).members
    assert [str(one) for one in members] == ["PS-0", "Worker-0", "Worker-2"]
    if scheduler is NATIVE:
        assert min_count(there.others[KEY]) == 3
    there.exit("demo-worker-2", 137).settle()
    there.tick(60).settle()
    if scheduler.native:
        assert there.schedule() == ["demo-worker-2"]


def test_a_resumed_job_waits_for_the_end_of_its_former_pod_group() -> None:
    there = placed()
    old = there.others[KEY]["metadata"]["uid"]
    there.edit(suspend=True).settle()
    there.edit(suspend=False).settle()
    assert there.message().endswith("its pods wait for the previous PodGroup demo to be deleted.")
    there.stop_terminating()
    there.protect()
    there.settle()
    assert there.others[KEY]["metadata"]["uid"] != old
    assert len(there.schedule()) == 4


def test_a_group_that_a_user_deletes_goes_when_its_pods_have_ended() -> None:
    there = placed(policy="ExitCode")
    group = there.others[KEY]
    there.others[KEY] = {**group, "metadata": {**group["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    there.exit("demo-worker-1", 137).settle()
    there.tick(60).settle()
    assert there.schedule() == ["demo-worker-1"], "it does not wait for a group that waits for the other pods"
