"""Gang scheduling: the cases of the reference's tests, what is written into PodGroups and pods, and whole lives of jobs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import pytest

from jobcommon.api.gang import VOLCANO, GangScheduler, gang_scheduler
from jobcommon.api.observed import Observed
from jobcommon.api.replica import Replica
from jobcommon.api.view import ObjectView
from jobcommon.framework import Framework, Job, Tallies
from jobcommon.operators.mpi import MPI
from jobcommon.reconcile import plan
from jobcommon.reconcile.gang import other_schedulers
from jobcommon.reconcile.plan import Create
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
    gang_off: str = ""

    @property
    def observed(self) -> Observed:
        return replace(super().observed, cluster=priority_classes(self.priorities or {}), gang_off=self.gang_off)

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


# -- A9: PodGroups of an MPIJob -------------------------------------------------------------------------------------------

GIVEN = {"cpu": "100", "memory": "512Gi", "nvidia.com/gpu": "40"}
ALL_SET = {
    "minAvailable": 2, "queue": "project-y", "priorityClass": "high", "minResources": GIVEN, "scheduleTimeoutSeconds": 100,
}  # fmt: skip
QUEUE = {"scheduling.volcano.sh/queue-name": "project-x"}


#: the replicas, schedulingPolicy, annotations, and the spec of the PodGroup of either scheduler
POD_GROUPS: dict[str, tuple[Manifest, Manifest, dict[str, str], Manifest, Manifest]] = {
    "all set": (
        {"Launcher": spec(), "Worker": spec(1000)}, ALL_SET, QUEUE,
        {"minMember": 2, "queue": "project-y", "priorityClassName": "high", "minResources": GIVEN},
        {"minMember": 2, "minResources": GIVEN, "scheduleTimeoutSeconds": 100},
    ),
    "policy nil": (
        {
            "Launcher": spec(1, {"cpu": 1, "memory": "2Gi"}, priorityClassName="high"),
            "Worker": spec(2, {"cpu": 10, "memory": "20Gi"}),
        },
        {}, QUEUE,
        {"minMember": 3, "queue": "project-x", "priorityClassName": "high", "minResources": {"cpu": "21", "memory": "42Gi"}},
        {"minMember": 3, "minResources": {"cpu": "21", "memory": "42Gi"}},
    ),
    "no worker": (
        {"Launcher": spec(1, {"cpu": 1, "memory": "2Gi"})},
        {"minAvailable": 1, "queue": "project-y", "priorityClass": "high", "scheduleTimeoutSeconds": 100}, {},
        {"minMember": 1, "queue": "project-y", "priorityClassName": "high", "minResources": {"cpu": "1", "memory": "2Gi"}},
        {"minMember": 1, "minResources": {"cpu": "1", "memory": "2Gi"}, "scheduleTimeoutSeconds": 100},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("replicas", "policy", "annotations", "volcano", "coscheduling"), POD_GROUPS.values(), ids=POD_GROUPS)
def test_the_pod_group_of_an_mpi_job_has_what_the_policy_says(
    replicas: Manifest, policy: Manifest, annotations: dict[str, str], volcano: Manifest, coscheduling: Manifest
) -> None:
    run_policy = {"schedulingPolicy": policy} if policy else {}
    manifest = job_manifest(
        MPI, replicas, run_policy=run_policy, annotations=annotations, runLauncherAsWorker="Worker" not in replicas
    )
    assert group_of(under(MPI, VOLCANO), manifest)["spec"] == volcano
    assert group_of(under(MPI, COSCHEDULING), manifest)["spec"] == coscheduling


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


@pytest.mark.parametrize(("policy", "launcher", "worker", "expected"), [
    ("high", "", "", "high"), ("", "high", "low", "high"), ("", "", "low", "low"), ("", "", "", None),
    ("mid", "high", "", "mid"),
])  # fmt: skip
def test_the_policys_priority_class_comes_before_the_pods(
    policy: str, launcher: str, worker: str, expected: str | None
) -> None:
    replicas = {"Launcher": spec(priorityClassName=launcher), "Worker": spec(priorityClassName=worker)}
    manifest = job_manifest(MPI, replicas, run_policy={"schedulingPolicy": {"priorityClass": policy}})
    assert group_of(under(MPI, VOLCANO), manifest)["spec"].get("priorityClassName") == expected


# -- other rules of PodGroups ---------------------------------------------------------------------------------------------


@SCHEDULERS
def test_a_gang_asks_for_what_overrides_ask_for(scheduler: GangScheduler) -> None:
    big = {"spec": {"containers": [{"name": "test-container", "resources": {"requests": {"cpu": 8}}}]}}
    worker = of_test_job(4, {"cpu": 1}) | {"overrides": [{"indices": [1, 3], "template": big}]}
    manifest = job_manifest(TEST_JOB, {"Worker": worker})
    assert group_of(under(TEST_JOB, scheduler), manifest)["spec"]["minResources"] == {"cpu": "18"}


def test_the_pod_group_is_the_jobs() -> None:
    notes = {"team": "a", "kubectl.kubernetes.io/last-applied-configuration": "{}"}
    found = group_of(under(TEST_JOB, VOLCANO), job_manifest(TEST_JOB, {"Worker": 1}, annotations=notes))
    assert found["apiVersion"] == "scheduling.volcano.sh/v1beta1"
    metadata = found["metadata"]
    assert (metadata["name"], metadata["namespace"], metadata["annotations"]) == ("demo", "default", {"team": "a"})
    assert metadata["ownerReferences"][0]["uid"] == "uid-demo"
    assert metadata["ownerReferences"][0]["controller"] is True
    assert metadata["labels"]["training.kubeflow.org/operator-name"] == "testjob-controller"


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


# -- J: pods and their schedulers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("named", "gang", "warn"), [
    ([], "test-gang-scheduler", False), (["", ""], "alpha", False),
    (["test-gang-scheduler", "test-gang-scheduler"], "test-gang-scheduler", False), (["custom-a", "custom-b"], "beta", True),
    (["", "custom-b"], "gamma", True), (["other-scheduler"], "test-gang-scheduler", True),
])  # fmt: skip
def test_another_scheduler_is_noticed(named: Sequence[str], gang: str, warn: bool) -> None:
    types = ("Master", "Worker")
    replicas = {kind: of_test_job(schedulerName=name) for kind, name in zip(types, named, strict=False)}
    framework = under(TEST_JOB, gang_scheduler(gang))
    job = read_job(framework, job_manifest(framework, replicas))
    assert bool(other_schedulers(job, gang)) is warn
    decided = plan(framework, job, Observed(), START)
    assert ("SetPodTemplateSchedulerName" in [event.reason for event in decided.events]) is warn


@SCHEDULERS
def test_another_scheduler_is_kept_and_its_pod_marked(scheduler: GangScheduler) -> None:
    there = settled(scheduler, {"Master": of_test_job(schedulerName="mine"), "Worker": 1})
    there.phase("Inqueue").settle()
    master, worker = there.pods["demo-master-0"].raw, there.pods["demo-worker-0"].raw
    assert (master["spec"]["schedulerName"], worker["spec"]["schedulerName"]) == ("mine", scheduler.name)
    for pod, task in ((master, "master"), (worker, "worker")):
        annotations, labels = pod["metadata"]["annotations"], pod["metadata"]["labels"]
        if scheduler is VOLCANO:
            assert annotations["scheduling.k8s.io/group-name"] == "demo"
            assert annotations["volcano.sh/task-spec"] == task
            assert "scheduling.x-k8s.io/pod-group" not in labels
        else:
            assert labels["scheduling.x-k8s.io/pod-group"] == "demo"
            assert "scheduling.k8s.io/group-name" not in annotations
    warnings = [event for event in there.events if event.reason == "SetPodTemplateSchedulerName"]
    assert warnings
    assert all(event.lasting for event in warnings), "said once"
    assert len({event.message for event in warnings}) == 1


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


def unplaced(since: str) -> Manifest:
    text = "3/3 tasks in gang unschedulable"
    condition = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": text}
    return {"phase": "Inqueue", "conditions": [{**condition, "lastTransitionTime": since}]}


def test_the_condition_quotes_the_pod_groups_reason() -> None:
    """In the scheduler's words, and since when; Volcano renews the time every minute, which costs no write."""
    there = settled(VOLCANO)
    there.others[KEY] = {**there.group, "status": unplaced("2026-11-24T08:48:38Z")}
    there.settle()
    told = "TestJob demo is created; waiting: gang of 3 pods since 2026-11-24T08:48:38Z: 3/3 tasks in gang unschedulable"
    assert there.message() == f"{told}."
    for name in there.pods:
        there.put(there.pods[name].unschedulable("pod group is not ready, 3 Pending, 3 minAvailable"))
    there.put(there.pods["demo-worker-0"].unschedulable("0/4 nodes are available: 4 Insufficient cpu.")).settle()
    assert there.message() == f"{told}; Worker-0: Unschedulable: 0/4 nodes are available: 4 Insufficient cpu."
    there.others[KEY] = {**there.group, "status": unplaced("2026-11-24T09:49:40Z")}
    assert [decided.status for decided in there.settle()] == [None]
    there.run().settle()
    assert "waiting" not in there.message("Running")


def test_the_coscheduling_plugin_never_holds_pods_back() -> None:
    there = world(COSCHEDULING)
    (first, *_) = there.settle()
    written = [str(action) for action in first.actions]
    assert written[:2] == ["create services/demo", "create podgroups/demo"], "the executor creates pods last"
    assert len(there.pods) == 3
    assert there.status["startTime"]


@SCHEDULERS
def test_more_wanted_than_there_are_stays_waiting(scheduler: GangScheduler) -> None:
    """As in the reference; a smaller minAvailable then lets it go on."""
    there = settled(scheduler, run_policy={"schedulingPolicy": {"minAvailable": 10}})
    assert there.group["spec"]["minMember"] == 10
    assert there.current == "Created"
    field = "spec.runPolicy.schedulingPolicy.minAvailable"
    assert f"; {field}: 10 is more than the 3 replicas; lower it, or the job waits" in there.message()
    there.edit(schedulingPolicy={"minAvailable": 3}).settle()
    assert there.group["spec"]["minMember"] == 3
    there.phase("Inqueue").start()
    assert there.current == "Running"


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


@SCHEDULERS
def test_a_resumed_gang_is_queued_anew(scheduler: GangScheduler) -> None:
    there = settled(scheduler, run_policy={"activeDeadlineSeconds": 100}).phase("Inqueue").start()
    started = there.status["startTime"]
    there.edit(suspend=True)
    assert "delete podgroups/demo (no pods to place)" in there.writes()
    there.stop_terminating().settle()
    assert there.current == "Suspended"
    there.tick(50)
    there.edit(suspend=False).settle()
    assert KEY in there.others
    if scheduler is VOLCANO:
        assert "startTime" not in there.status, "in the queue again"
        assert there.pods == {}
        assert there.current == "Created"
        there.tick(1000)
        there.phase("Inqueue").settle()
    assert there.status["startTime"] > started
    there.run().settle()
    assert there.current == "Running"


def test_a_pod_is_replaced_within_the_gang() -> None:
    there = settled(VOLCANO, policy="ExitCode").phase("Inqueue").start()
    started = there.status["startTime"]
    there.exit("demo-worker-1", 137)
    there.phase("Pending").settle()
    there.tick(10).settle()
    assert "demo-worker-1" not in there.pods, "the scheduler wants it to wait"
    assert there.message() == "TestJob demo is created; its pods wait for volcano to accept PodGroup demo."
    assert there.events[-1].message == "Pods wait for volcano to accept PodGroup demo"
    assert there.status["startTime"] == started
    there.phase("Inqueue").settle()
    assert there.pods["demo-worker-1"].raw["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == "demo"


def test_a_deleted_pod_group_comes_back() -> None:
    there = settled(VOLCANO).phase("Running").start()
    del there.others[KEY]
    assert there.writes() == ["create podgroups/demo"]
    assert there.current == "Running"


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
    there.gang_off = MISSING
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
    there.gang_off = MISSING
    there.start()
    there.gang_off = ""
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
    with pytest.raises(ValueError, match="use kubernetes, volcano, yunikorn, koordinator, auto, or the schedulerName"):
        gang_scheduler(name)
