"""Workloads that the operator owns: what is asked of Kueue, what it is told, and whole lives of queued jobs."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Self

import pytest

from jobcommon.api.kueue import KUEUE_WORKLOADS, MULTIKUEUE, POD_SETS, PREBUILT, PRIORITY_LABEL, QUEUE_LABEL
from jobcommon.framework import Framework, Options
from jobcommon.operators.mxnet import MXNET
from jobcommon.reconcile.kueue import UNQUEUED, not_queued
from jobcommon.reconcile.plan import Plan
from jobcommon.spec import read_job
from jobcommon.testutil.builders import Manifest, job_manifest, replica_spec, template
from jobcommon.testutil.cluster_model import ClusterModel
from jobcommon.testutil.frameworks import TEST_JOB
from jobcommon.testutil.kueue import admitted, evicted, with_condition
from jobcommon.testutil.plans import conditions, decide, status_of
from tests.kinds import EVERY_KIND

OWN = replace(TEST_JOB, options=Options(kueue=True))
FLAVOR = {"nodeLabels": {"pool": "spot"}, "tolerations": [{"key": "spot", "operator": "Exists"}]}
KEY = ("Workload", "testjob-demo-d2260")
LARGE = template(OWN, resources={"requests": {"cpu": "8"}})


def cluster_object(kind: str, name: str, **content: Any) -> Manifest:
    return {"kind": kind, "metadata": {"name": name, "uid": name}, **content}


class KueueWorld(ClusterModel):
    """A world in which the test plays Kueue."""

    @property
    def workload(self) -> Manifest:
        (found,) = (one for (kind, _), one in self.others.items() if kind == "Workload")
        return found

    def kueue(self, workload: Manifest) -> Self:
        """Kueue writes the Workload."""
        self.others["Workload", workload["metadata"]["name"]] = workload
        return self

    def admit(self, **assignment: Any) -> Self:
        self.settle()
        self.kueue(admitted(self.workload, at=self.now, **assignment)).settle()
        return self

    def told(self, kind: str) -> tuple[str, str]:
        """The status and the reason of a condition of the Workload."""
        found = next(one for one in self.workload["status"]["conditions"] if one["type"] == kind)
        return found["status"], found["reason"]

    def message(self) -> str:
        return str(self.status["conditions"][-1]["message"])


def world(replicas: Mapping[str, Any] | None = None, **job: Any) -> KueueWorld:
    labels = job.pop("labels", {QUEUE_LABEL: "team"})
    manifest = job_manifest(OWN, replicas or {"Master": 1, "Worker": 2}, **job)
    manifest["metadata"]["labels"] = labels
    return KueueWorld(OWN, manifest)


def queued(replicas: Mapping[str, Any] | None = None, **job: Any) -> KueueWorld:
    """A job that has asked for all that it asks before Kueue answers."""
    one = world(replicas, **job)
    one.settle()
    return one


def running(replicas: Mapping[str, Any] | None = None, **job: Any) -> KueueWorld:
    """A job that has been admitted, and whose pods run."""
    one = world(replicas, **job).admit()
    one.run().settle()
    return one


def written(plans: list[Plan]) -> list[str]:
    return [str(action) for decided in plans for action in decided.actions]


# -- the life of a job ----------------------------------------------------------------------------------------------------


def test_a_job_waits_until_its_workload_is_admitted() -> None:
    one = world()
    assert written(one.settle()) == [f"create {KUEUE_WORKLOADS}/{KEY[1]}"]
    assert (one.current, one.pods) == ("Suspended", {})
    assert one.message() == "TestJob demo is suspended: it waits in queue team: not yet considered."
    why = ("QuotaReserved", False, "WaitingForQuota", "insufficient quota for cpu", one.now)
    one.kueue(with_condition(one.workload, *why)).settle()
    assert one.message() == "TestJob demo is suspended: it waits in queue team: WaitingForQuota: insufficient quota for cpu."
    assert one.status.get("startTime") is None
    one.admit()
    assert sorted(one.pods) == ["demo-master-0", "demo-worker-0", "demo-worker-1"]
    one.run().settle()
    assert (one.current, one.told("PodsReady")) == ("Running", ("True", "Started"))
    assert not any(event.reason == "NotQueued" for event in one.events)


def test_quota_is_kept_until_the_pods_of_an_evicted_job_have_ended() -> None:
    one = running()
    one.tick(10)
    one.kueue(evicted(one.workload)).settle()
    assert one.current == "Suspended"
    assert one.message().endswith("it waits in queue team: Preempted: Preempted to accommodate a workload (UID: u).")
    assert "admission" in one.workload["status"], "the pods are still terminating"
    one.stop_terminating().settle()
    status = one.workload["status"]
    assert "admission" not in status
    assert status["accumulatedPastExecutionTimeSeconds"] == 10
    assert [one.told(kind) for kind in ("QuotaReserved", "Admitted", "Requeued", "PodsReady")] == [
        ("False", "PendingEvaluation"),
        ("False", "NoReservation"),
        ("True", "Preempted"),
        ("False", "WaitForStart"),
    ]
    one.admit()
    one.run().settle()
    assert (one.current, one.told("PodsReady")) == ("Running", ("True", "Started"))
    assert one.status.get("restarts") is None


@pytest.mark.parametrize("view", ["of before it was admitted", "of before it was created"])
def test_a_job_that_runs_is_suspended_only_if_its_workload_is_as_cached(view: str) -> None:
    """The cache of Workloads may lag behind that of jobs, which another operator has let run."""
    one = queued()
    before = dict(one.others)
    one.admit()
    one.run().settle()
    one.others = before if "admitted" in view else {}
    made = one.step(writes=0)
    assert made.as_cached is not None
    get, version = made.as_cached
    assert (get.plural, get.name) == (KUEUE_WORKLOADS, KEY[1])
    assert bool(version) == ("admitted" in view)
    assert status_of(made).conditions[-1].type == "Suspended"


@pytest.mark.parametrize("how", ["suspended", "evicted"])
def test_quota_is_given_back_only_if_a_live_read_shows_the_job_unchanged(how: str) -> None:
    """Another operator may have resumed the job, whose pods this one's caches do not show yet."""
    one = running({"Master": 1})
    if how == "suspended":
        one.edit(suspend=True)
    else:
        one.kueue(evicted(one.workload))
    plans = one.settle()
    one.stop_terminating()
    plans += one.settle()
    given_back = [one for one in plans for action in one.actions if action.plural == KUEUE_WORKLOADS]
    assert given_back
    assert all(one.verify_live for one in given_back)


def test_pods_that_have_succeeded_give_their_quota_back() -> None:
    one = world(policy="Never").admit().run()
    one.exit("demo-worker-1", 0).settle()
    assert one.workload["status"]["reclaimablePods"] == [{"name": "worker", "count": 1}]
    one.kueue(evicted(one.workload)).settle()
    one.stop_terminating()
    one.admit()
    assert sorted(one.pods) == ["demo-master-0", "demo-worker-0"], "the third has succeeded"
    assert one.workload["status"]["reclaimablePods"] == [{"name": "worker", "count": 1}]


@pytest.mark.parametrize("reserved", [False, True])
def test_a_job_that_is_scaled_asks_anew(reserved: bool) -> None:
    one = queued()
    before = one.workload["metadata"]["uid"]
    if reserved:
        one.admit()
        one.run().settle()
    one.scale("Worker", 3).settle()
    assert one.current == "Suspended"
    one.stop_terminating().settle()
    assert [(each["name"], each["count"]) for each in one.workload["spec"]["podSets"]] == [("master", 1), ("worker", 3)]
    assert (one.workload["metadata"]["uid"] != before) == reserved, "what waits keeps its place in the queue"
    one.admit()
    assert len(one.pods) == 4


# -- what is asked --------------------------------------------------------------------------------------------------------


def test_the_workload_of_a_job() -> None:
    annotations = {"kueue.x-k8s.io/podset-required-topology": "rack", "kueue.x-k8s.io/podset-group-name": "all"}
    worker = replica_spec(OWN, 2)
    worker["template"]["metadata"] = {"annotations": annotations, "labels": {"a": "b"}, "name": "no"}
    worker["template"]["spec"]["containers"][0]["env"] = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    given = {"provreq.kueue.x-k8s.io/class": "x", "other": "y"}
    labels = {QUEUE_LABEL: "team", "kueue.x-k8s.io/max-exec-time-seconds": "60"}
    one = queued({"Master": 1, "Worker": worker}, annotations=given, labels=labels)
    found = one.workload
    assert found["metadata"]["labels"]["kueue.x-k8s.io/job-uid"] == "uid-demo"
    assert {*found["metadata"]["annotations"]} == {"provreq.kueue.x-k8s.io/class", POD_SETS}
    spec = found["spec"]
    assert {key: value for key, value in spec.items() if key != "podSets"} == {
        "queueName": "team",
        "priority": 0,
        "maximumExecutionTimeSeconds": 60,
    }
    master, workers = spec["podSets"]
    index = "training.kubeflow.org/replica-index"
    assert (master["name"], master["count"], master["topologyRequest"]) == ("master", 1, {"podIndexLabel": index})
    assert workers["topologyRequest"] == {"required": "rack", "podSetGroupName": "all", "podIndexLabel": index}
    assert workers["template"]["metadata"] == {"annotations": annotations, "labels": {"a": "b"}}
    assert workers["template"]["spec"]["containers"][0]["env"] == [{"name": "A", "value": "2"}]


@pytest.mark.parametrize(("mode", "key"), [({}, "required"), ({"mode": "Preferred"}, "preferred")])
def test_the_topology_of_the_policy(mode: Manifest, key: str) -> None:
    """A template that asks for another one keeps it."""
    worker = replica_spec(OWN, 2)
    worker["template"]["metadata"] = {"annotations": {"kueue.x-k8s.io/podset-unconstrained-topology": "true"}}
    policy = {"schedulingPolicy": {"topology": {"key": "rack", **mode}}}
    one = queued({"Master": 1, "Worker": worker}, run_policy=policy)
    index = {"podIndexLabel": "training.kubeflow.org/replica-index"}
    master, workers = one.workload["spec"]["podSets"]
    assert (master["topologyRequest"], workers["topologyRequest"]) == ({key: "rack", **index}, {"unconstrained": True, **index})
    one.edit(schedulingPolicy={"topology": {"key": "block", **mode}}).settle()
    assert one.workload["spec"]["podSets"][0]["topologyRequest"] == {key: "block", **index}
    one.kueue(admitted(one.workload, topologyAssignment={"levels": ["rack"], "slices": []})).settle()
    annotations = one.pods["demo-master-0"].raw["metadata"]["annotations"]
    assert annotations[f"kueue.x-k8s.io/podset-{key}-topology"] == "block"
    assert not [event for event in one.events if event.reason == "TopologyIgnored"]


def overridden(*indices: list[int], replicas: int = 40) -> Manifest:
    patches = [{"indices": each, "template": {"spec": {"priority": n}}} for n, each in enumerate(indices)]
    return replica_spec(OWN, replicas, overrides=patches)


def test_replicas_with_templates_of_their_own_are_pod_sets_of_their_own() -> None:
    one = queued({"Worker": overridden([0, 1], [1, 99], replicas=4)})
    found = [(each["name"], each["count"], "topologyRequest" in each) for each in one.workload["spec"]["podSets"]]
    assert found == [("worker", 2, False), ("worker-0", 1, False), ("worker-0-1", 1, False)]
    one.cluster = [cluster_object("ResourceFlavor", "default", spec=FLAVOR)]
    one.admit()
    assert one.pods["demo-worker-1"].raw["metadata"]["labels"]["kueue.x-k8s.io/podset"] == "worker-0-1"


CLASSES = [
    cluster_object("WorkloadPriorityClass", "w", value=7),
    cluster_object("PriorityClass", "p", value=5),
    cluster_object("PriorityClass", "everybody", value=3, globalDefault=True),
]


@pytest.mark.parametrize(("labels", "named", "kind", "name", "value"), [
    ({PRIORITY_LABEL: "w"}, "p", "WorkloadPriorityClass", "w", 7), ({}, "p", "PriorityClass", "p", 5),
    ({}, None, "PriorityClass", "everybody", 3),
], ids=["label", "pods", "default"])  # fmt: skip
def test_a_workload_has_the_priority_of_the_label_or_else_of_its_pods(
    labels: dict[str, str], named: str | None, kind: str, name: str, value: int
) -> None:
    one = world(labels={QUEUE_LABEL: "team", **labels}, run_policy={"schedulingPolicy": {"priorityClass": named}})
    one.cluster = CLASSES
    one.settle()
    spec = one.workload["spec"]
    assert (spec["priorityClassRef"]["kind"], spec["priorityClassRef"]["name"], spec["priority"]) == (kind, name, value)


def test_queue_and_priority_follow_the_labels_as_far_as_kueue_lets_them() -> None:
    one = world(labels={QUEUE_LABEL: "team", PRIORITY_LABEL: "w"})
    one.cluster += [*CLASSES, cluster_object("WorkloadPriorityClass", "v", value=9)]
    one.settle()
    one.manifest["metadata"]["labels"] |= {QUEUE_LABEL: "other"}
    one.settle()
    assert one.workload["spec"]["queueName"] == "other"
    one.admit()
    one.manifest["metadata"]["labels"] |= {QUEUE_LABEL: "third", PRIORITY_LABEL: "v"}
    one.settle()
    assert (one.workload["spec"]["queueName"], one.workload["spec"]["priority"]) == ("other", 9)


# -- what is admitted -----------------------------------------------------------------------------------------------------


def test_pods_get_the_admitted_flavor_and_updates() -> None:
    one = world({"Master": 1})
    one.cluster = [cluster_object("ResourceFlavor", "default", spec=FLAVOR)]
    one.settle()
    update = {"name": "master", "labels": {"l": "1"}, "annotations": {"a": "2"}, "nodeSelector": {"n": "3"}}
    check = {"name": "c", "state": "Ready", "podSetUpdates": [update, {"name": "worker", "labels": {"no": "no"}}]}
    found = admitted(one.workload, topologyAssignment={"levels": ["rack"], "slices": []})
    one.kueue({**found, "status": {**found["status"], "admissionChecks": [check]}}).settle()
    pod = one.pods["demo-master-0"].raw
    assert pod["spec"]["nodeSelector"] == {"pool": "spot", "n": "3"}
    assert {"key": "spot", "operator": "Exists"} in pod["spec"]["tolerations"]
    assert pod["spec"]["schedulingGates"] == [{"name": "kueue.x-k8s.io/topology"}]
    labels, annotations = pod["metadata"]["labels"], pod["metadata"]["annotations"]
    assert {key.partition("/")[2]: value for key, value in labels.items() if key.startswith("kueue")} == {
        "podset": "master",
        "local-queue-name": "team",
        "cluster-queue-name": "team",
    }
    assert (labels["l"], annotations["a"]) == ("1", "2")
    assert annotations["kueue.x-k8s.io/workload"] == KEY[1]
    assert annotations["kueue.x-k8s.io/podset-unconstrained-topology"] == "true"


# -- others ---------------------------------------------------------------------------------------------------------------


def test_without_the_definition_a_new_job_waits_and_a_running_one_goes_on() -> None:
    one = world({"Master": 1})
    one.missing = {KUEUE_WORKLOADS: "Workload is not served"}
    one.settle()
    assert one.message().endswith("it waits in queue team: Workload is not served.")
    one.missing = {}
    one.admit()
    one.run().settle()
    one.missing = {KUEUE_WORKLOADS: "Workload is not served"}
    one.others.pop(KEY)
    one.settle()
    assert one.current == "Running"


#: what makes the spec invalid
INVALID: dict[str, Callable[[Manifest], Any]] = {
    "a type": lambda spec: spec[OWN.replica_specs].update(Worker={"template": 5}),
    "another type": lambda spec: spec[OWN.replica_specs].update(Master={"template": {"spec": {"containers": []}}}),
    "run policy": lambda spec: spec["runPolicy"].update(backoffLimit=-1),
    "what cannot be resized": lambda spec: spec["runPolicy"].update(restartScope="Job", elastic={}),
}


@pytest.mark.parametrize("count", [1, 50])
@pytest.mark.parametrize("label", [QUEUE_LABEL, "none"])
@pytest.mark.parametrize("scope", ["Pod", "Job"])
@pytest.mark.parametrize("edit", INVALID.values(), ids=INVALID)
def test_an_invalid_edit_changes_neither_replicas_nor_templates(
    edit: Callable[[Manifest], Any], scope: str, label: str, count: int
) -> None:
    one = running({"Master": 1, "Worker": 2}, policy="ExitCode", run_policy={"restartScope": scope})
    before, spec = {name: pod.view.uid for name, pod in one.pods.items()}, one.manifest["spec"]
    one.manifest["metadata"]["labels"] = {label: "team"}
    spec[OWN.replica_specs] = {**spec[OWN.replica_specs], "Worker": replica_spec(OWN, count, "ExitCode", template=LARGE)}
    edit(spec)
    one.settle()
    assert (one.current, one.told("QuotaReserved")[0]) == ("Running", "True")
    assert {name: pod.view.uid for name, pod in one.pods.items()} == before
    one.exit("demo-worker-0", 137).settle()
    assert {name: pod.view.uid for name, pod in one.pods.items()} == before, "nor is one created, nor its evidence deleted"
    assert "the spec is invalid: " in one.message()
    one.kueue(evicted(one.workload)).settle()
    one.stop_terminating().settle()
    assert one.current == "Suspended" or label != QUEUE_LABEL
    assert "the spec is invalid: " in one.message()


@pytest.mark.parametrize(("label", "words"), [({}, "is gone"), ({QUEUE_LABEL: ""}, "is gone"), ({QUEUE_LABEL: "b"}, "names b")])
def test_quota_is_kept_until_the_last_pod_has_ended_whatever_becomes_of_the_label(label: dict[str, str], words: str) -> None:
    one = running({"Master": 1, "Worker": 1}, policy="ExitCode")
    one.manifest["metadata"]["labels"] = label
    one.settle()
    assert (one.current, one.told("QuotaReserved")[0], len(one.pods)) == ("Running", "True", 2)
    kept = f"the label {QUEUE_LABEL} {words}; the job keeps its quota in queue team until its last pod has ended"
    assert kept in one.message()
    one.exit("demo-worker-0", 137).settle()
    assert one.pods["demo-worker-0"].raw["metadata"]["labels"]["kueue.x-k8s.io/podset"] == "worker", "it is replaced with quota"
    one.run().settle()
    one.kueue(evicted(one.workload)).settle()
    assert (one.current, one.told("QuotaReserved")[0]) == ("Suspended", "True"), "its pods terminate"
    one.stop_terminating().settle()
    if label.get(QUEUE_LABEL):
        assert (one.workload["spec"]["queueName"], one.told("QuotaReserved")[0], one.pods) == ("b", "False", {})
    else:
        assert (len(one.pods), [key for key in one.others if key[0] == "Workload"]) == (2, []), "it runs without a queue"


def prebuilt_by_others(one: KueueWorld, name: str = "theirs") -> Manifest:
    """The Workload that MultiKueue makes of one in another cluster."""
    original = world()
    original.settle()
    found = original.workload
    kept = {key: found["metadata"][key] for key in ("labels", "annotations", "namespace", "resourceVersion")}
    return {**found, "metadata": {**kept, "name": name, "uid": name}}


def test_a_workload_that_others_have_made_is_taken_over() -> None:
    one = queued(labels={QUEUE_LABEL: "team", PREBUILT: "theirs"})
    assert "there is no Workload theirs (label kueue.x-k8s.io/prebuilt-workload-name)" in one.message()
    one.kueue(prebuilt_by_others(one))
    one.admit()
    (owner,) = one.workload["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"], len(one.pods)) == ("uid-demo", True, 3)
    one.suspend()
    assert one.workload, "it is not ours to delete"


@pytest.mark.parametrize("where", ["spec", "runPolicy"])
def test_a_job_that_multikueue_runs_elsewhere_is_queued_here(where: str) -> None:
    extra: dict[str, Any] = {"managedBy": MULTIKUEUE} if where == "spec" else {}
    one = world({"Master": 1}, run_policy={"managedBy": MULTIKUEUE} if where == "runPolicy" else {}, **extra)
    first = one.step()
    assert [str(action) for action in first.actions] == [f"create {KUEUE_WORKLOADS}/{KEY[1]}"]
    assert first.status is None
    one.kueue(admitted(one.workload))
    assert written(one.settle()) == []
    ended = {"type": "Succeeded", "status": "True", "reason": "TestJobSucceeded", "message": "done"}
    one.manifest["status"] = {"conditions": [ended], "replicaStatuses": {}}
    one.settle()
    assert one.told("Finished") == ("True", "Succeeded")


# -- a job that nothing queues ---------------------------------------------------------------------------------------------

# labels, run policy, annotations, whether it is told
CASES: dict[str, tuple[dict[str, str], dict[str, Any], dict[str, str], bool]] = {
    "no webhook has seen it": ({QUEUE_LABEL: "team"}, {}, {}, True),
    "resumed by Kueue": ({QUEUE_LABEL: "team"}, {"suspend": False}, {}, False),
    "no queue": ({}, {}, {}, False),
    "allowed": ({QUEUE_LABEL: "team"}, {}, {UNQUEUED: "allowed"}, False),
    "something else in the annotation": ({QUEUE_LABEL: "team"}, {}, {UNQUEUED: "yes"}, True),
}


@pytest.mark.parametrize(("labels", "policy", "annotations", "told"), CASES.values(), ids=CASES)
def test_a_job_outside_its_queue_is_told_so(
    labels: dict[str, str], policy: dict[str, Any], annotations: dict[str, str], told: bool
) -> None:
    manifest = job_manifest(TEST_JOB, {"Master": 1}, run_policy=policy, annotations=annotations)
    manifest["metadata"]["labels"] = labels
    decided = decide(TEST_JOB, manifest, {"Master-0": "running"})
    reasons = [event.reason for event in decided.events]
    assert ("NotQueued" in reasons) == told
    running = conditions(decided)[-1]
    assert ("is running; not queued: the label kueue.x-k8s.io/queue-name names queue team" in running) == told
    assert ("run the operator with --kueue own" in running) == told


@EVERY_KIND
def test_no_integration_is_advised_that_kueue_does_not_have(framework: Framework) -> None:
    """Kueue does not start with one: it has none of MXJob."""
    manifest = job_manifest(framework, {framework.replica_types[0].name: 1})
    manifest["metadata"]["labels"] = {QUEUE_LABEL: "team"}
    _, advice = not_queued(read_job(framework, manifest))
    integration = f"add {framework.group}/{framework.singular} to integrations.frameworks"
    assert advice.startswith("run the operator with --kueue own" if framework is MXNET else integration)
