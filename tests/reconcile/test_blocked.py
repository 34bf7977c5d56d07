"""A job that has begun is not failed by an error of its spec, nor by how the operator is set up."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from jobcommon.api.observed import Observed
from jobcommon.framework import Framework, Job
from jobcommon.reconcile import plan
from jobcommon.spec import read_job
from jobcommon.testutil.builders import GONE, START, Manifest, Pod, condition, job_manifest, observe, put, replica_spec
from jobcommon.testutil.frameworks import TEST_JOB
from jobcommon.testutil.invariants import check_plan
from jobcommon.testutil.plans import creates, deletes, holding, next_pass, status_of

TYPES = "testReplicaSpecs"


def begun(replicas: dict[str, int | Manifest], path: str, value: Any, **more: Any) -> Manifest:
    """A job that runs, and then became what it would not be accepted as today."""
    manifest = job_manifest(TEST_JOB, replicas, policy="ExitCode", **more)
    manifest["status"] = {
        "conditions": [condition("Created"), condition("Running")],
        "startTime": "2023-11-14T22:13:20Z",
        "replicaStatuses": {"Worker": {"active": 2, "succeeded": 1, "succeededIndexes": "2"}},
    }
    put(manifest, path, value)
    return manifest


def pods(*states: tuple[str, int, str]) -> Observed:
    """The pods that the job had made before, whatever its spec says now."""
    job = read_job(TEST_JOB, job_manifest(TEST_JOB, {"Master": 1, "Worker": 9}))
    made = [(Pod.of(TEST_JOB, job, kind, index), state) for kind, index, state in states]
    return Observed(tuple((pod.failed(137) if state == "failed" else pod.running()).view for pod, state in made))


RUNS = pods(("Master", 0, "running"), ("Worker", 0, "running"), ("Worker", 1, "running"))
#: What is wrong, and which of the missing pods (the master's, and worker 2's) are made all the same.
ERRORS: list[tuple[str, Any, str, list[str]]] = [
    ("spec.runPolicy.backoffLimit", -1, "spec.runPolicy.backoffLimit: must be at least 0", ["demo-master-0", "demo-worker-2"]),
    ("spec.runPolicy.activeDeadlineSeconds", 0, "must be at least 1", ["demo-master-0", "demo-worker-2"]),
    ("spec.runPolicy.cleanPodPolicy", "Some", "Unsupported value: use one of 'All'", ["demo-master-0", "demo-worker-2"]),
    ("spec.runPolicy", [], "spec.runPolicy: must be an object", ["demo-master-0", "demo-worker-2"]),
    ("spec.runPolicy.schedulingPolicy", {"minAvailable": 0}, "must be at least 1", []),
    ("metadata.name", "0demo", "with a letter", ["0demo-master-0", "0demo-worker-0", "0demo-worker-1", "0demo-worker-2"]),
    (f"spec.{TYPES}.Worker.restartPolicy", "Sometimes", "Unsupported value: use one of 'Always'", []),
    (f"spec.{TYPES}.Worker.template.spec.containers", [], "at least one container", ["demo-master-0"]),
    (f"spec.{TYPES}.Worker.replicas", -1, "must be at least 0", []),
    (f"spec.{TYPES}.Worker.replicas", 10**9, "must be at most 10000", []),
    (f"spec.{TYPES}.Worker.overrides", [{"indices": []}], "must not be empty", []),
    (f"spec.{TYPES}.Worker", None, "Required value: a replica spec", []),
    (f"spec.{TYPES}.Robot", {}, "spec.testReplicaSpecs[Robot]: Unsupported value", ["demo-master-0", "demo-worker-2"]),
    (f"spec.{TYPES}", {}, "name at least one replica type", []),
    (f"spec.{TYPES}", GONE, "name at least one replica type", []),
    ("spec", None, "spec: must be an object", []),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "says", "makes"), ERRORS, ids=[f"{n}-{e[0]}" for n, e in enumerate(ERRORS)])
def test_an_error_of_a_begun_job_holds_up_what_it_concerns_and_nothing_else(
    path: str, value: Any, says: str, makes: list[str]
) -> None:
    manifest = begun({"Master": 1, "Worker": 3}, path, value)
    manifest["status"]["replicaStatuses"] = {}
    job = read_job(TEST_JOB, manifest)
    assert says in "; ".join(map(str, job.errors))
    decided = plan(TEST_JOB, job, replace(RUNS, pods=RUNS.pods[1:]), START)
    assert creates(decided) == makes
    assert deletes(decided) == []
    assert not status_of(decided).finished
    assert says in status_of(decided).conditions[0].message
    assert ("InvalidSpec", True) in [(event.reason, event.lasting) for event in decided.events]
    manifest["status"] = status_of(decided).to_json()
    assert plan(TEST_JOB, read_job(TEST_JOB, manifest), replace(RUNS, pods=RUNS.pods[1:]), START).status is None


@pytest.mark.parametrize(("path", "value"), [error[:2] for error in ERRORS if error[0] not in ("metadata.name", "spec")])
def test_successes_stay_on_record_while_a_type_cannot_be_read(path: str, value: Any) -> None:
    decided = plan(TEST_JOB, read_job(TEST_JOB, begun({"Master": 1, "Worker": 3}, path, value)), RUNS, START)
    status = decided.status.to_json() if decided.status is not None else {}
    assert status["replicaStatuses"]["Worker"]["succeededIndexes"] == "2"


def test_a_type_that_cannot_be_read_is_neither_deleted_nor_taken_for_absent() -> None:
    """Without its master a job would be decided by its workers."""
    manifest = begun({"Master": 1, "Worker": 1}, f"spec.{TYPES}.Master", None)
    manifest["status"]["replicaStatuses"] = {"Worker": {"succeeded": 1, "succeededIndexes": "0"}}
    decided = plan(TEST_JOB, read_job(TEST_JOB, manifest), pods(("Master", 0, "running")), START)
    assert (creates(decided), deletes(decided)) == ([], [])
    assert not status_of(decided).finished


def test_a_failed_pod_of_what_an_error_concerns_is_counted_and_kept() -> None:
    manifest = begun({"Master": 1, "Worker": 2}, f"spec.{TYPES}.Worker.template.spec.containers", [])
    observed = pods(("Master", 0, "running"), ("Worker", 0, "failed"), ("Worker", 1, "running"))
    for _ in range(2):
        decided = plan(TEST_JOB, read_job(TEST_JOB, manifest), observed, START)
        assert (creates(decided), deletes(decided)) == ([], [])
        if decided.status is not None:
            manifest["status"] = decided.status.to_json()
    assert manifest["status"]["restarts"] == 1
    manifest["spec"][TYPES]["Worker"] = replica_spec(TEST_JOB, 2, "ExitCode")
    assert deletes(plan(TEST_JOB, read_job(TEST_JOB, manifest), observed, START)) == ["demo-worker-0"], "corrected, it goes on"


@pytest.mark.parametrize(
    ("path", "value"), [("restartPolicy", "Sometimes"), ("replicas", 10**9), ("template", {}), ("template.spec.containers", [])]
)
def test_a_failure_for_good_fails_the_job_when_its_replica_spec_can_be_read_again(path: str, value: Any) -> None:
    """It is not restarted by a default policy, nor taken for a disruption because the template hides the main container."""
    framework = replace(TEST_JOB, container="")
    manifest = begun({"Worker": replica_spec(framework, 2, "ExitCode")}, f"spec.{TYPES}.Worker.{path}", value)
    job = read_job(framework, job_manifest(framework, {"Worker": 2}))
    ended, running = Pod.of(framework, job, "Worker", 0).failed(3).view, Pod.of(framework, job, "Worker", 1).running().view
    observed = Observed((ended, running))
    decided = plan(framework, read_job(framework, manifest), observed, START)
    assert (creates(decided), deletes(decided)) == ([], [])
    assert (status_of(decided).finished, len(status_of(decided).counted_pods)) == (False, 0)
    manifest["status"] = status_of(decided).to_json()
    manifest["spec"][TYPES]["Worker"] = replica_spec(framework, 2, "ExitCode")
    corrected = plan(framework, read_job(framework, manifest), observed, START)
    assert status_of(corrected).has("Failed")


def _needs_an_option(job: Job) -> str:
    return "the option x is off" if job.own_options == "off" else ""


def without_option(*, off: bool = True) -> Framework:
    return replace(TEST_JOB, blocked=_needs_an_option, own_options="off" if off else "on")


def test_a_job_that_the_operator_is_not_set_up_for_waits_and_starts_when_it_is() -> None:
    manifest = job_manifest(TEST_JOB, {"Worker": 2})
    for _ in range(2):
        decided = plan(without_option(), read_job(without_option(), manifest), Observed(), START)
        assert decided.actions == ()
        assert ("Waiting", "the option x is off") in [(e.reason, e.message.removeprefix("it waits: ")) for e in decided.events]
        if decided.status is not None:
            manifest["status"] = decided.status.to_json()
    last = manifest["status"]["conditions"][-1]
    assert (last["type"], last["message"]) == ("Created", "TestJob demo is created; it waits: the option x is off.")
    assert "startTime" not in manifest["status"]
    on = without_option(off=False)
    decided = plan(on, read_job(on, manifest), Observed(), START)
    assert creates(decided) == ["demo-worker-0", "demo-worker-1"]
    assert status_of(decided).conditions[-1].message == "TestJob demo is created."


def test_a_job_that_has_started_goes_on_without_the_option() -> None:
    manifest = job_manifest(TEST_JOB, {"Worker": 2}, policy="ExitCode", status={"startTime": "2023-11-14T22:13:20Z"})
    observed = observe(TEST_JOB, manifest, {"Worker-0": "running"})
    decided = plan(without_option(), read_job(without_option(), manifest), observed, START)
    assert creates(decided) == ["demo-worker-1"]
    inherited = job_manifest(TEST_JOB, {"Worker": 2}, policy="ExitCode")
    assert creates(plan(without_option(), read_job(without_option(), inherited), observed, START)) == ["demo-worker-1"]


def test_a_suspension_stops_what_runs_and_keeps_what_cannot_be_recorded() -> None:
    good = job_manifest(TEST_JOB, {"Master": 1, "Worker": 2}, run_policy={"suspend": True})
    seen = observe(TEST_JOB, good, {"Master-0": "running", "Worker-0": "succeeded", "Worker-1": "running"})
    manifest = deepcopy(good)
    put(manifest, f"spec.{TYPES}.Worker.replicas", "two")
    manifest["status"] = {"conditions": [condition("Created"), condition("Suspended")]}
    assert deletes(plan(TEST_JOB, read_job(TEST_JOB, manifest), seen, START)) == ["demo-master-0", "demo-worker-1"]
    decided = plan(TEST_JOB, read_job(TEST_JOB, {**manifest, "spec": good["spec"]}), seen, START)
    assert status_of(decided).replica_statuses["Worker"].succeeded_indexes == "0"


def test_a_deadline_that_passes_while_a_type_cannot_be_read_is_said_and_ends_the_job_once_it_can() -> None:
    good = job_manifest(TEST_JOB, {"Master": 1, "Worker": 1}, run_policy={"activeDeadlineSeconds": 60})
    good["status"] = {"conditions": [condition("Created"), condition("Running")], "startTime": "2023-11-14T22:13:20Z"}
    observed = observe(TEST_JOB, good, {"Master-0": "running", "Worker-0": "running"})
    manifest = deepcopy(good)
    put(manifest, f"spec.{TYPES}.Worker.replicas", -1)
    early = plan(TEST_JOB, read_job(TEST_JOB, manifest), observed, START + 59)
    assert early.wake_at == START + 60
    for _ in range(2):
        job = read_job(TEST_JOB, manifest)
        late = plan(TEST_JOB, job, observed, START + 100)
        check_plan(TEST_JOB, job, observed, START + 100, late)
        assert (late.actions, late.wake_at) == ((), None)
        manifest = next_pass(manifest, late)
    said = "activeDeadlineSeconds has passed; it ends the job once the spec can be read; the spec is invalid: "
    assert said in manifest["status"]["conditions"][0]["message"]
    for state, end in (("running", "DeadlineExceeded"), ("succeeded", "TestJobSucceeded")):
        now_observed = observe(TEST_JOB, good, {"Master-0": state, "Worker-0": "running"})
        corrected = plan(TEST_JOB, read_job(TEST_JOB, {**manifest, "spec": good["spec"]}), now_observed, START + 101)
        assert status_of(corrected).conditions[-1].reason == end


#: What a definition lets in of `overrides[].template`, which takes any object.
OVERRIDES: list[Any] = [
    {"spec": {"containers": ["test"]}}, {"spec": {"containers": [{"name": "test", "image": ""}]}}, {"spec": {"containers": 7}},
    {"spec": [], "metadata": "x"}, 7,
]  # fmt: skip


def overridden(good: Manifest, template: Any) -> Manifest:
    manifest = deepcopy(good)
    manifest["spec"][TYPES]["Worker"]["overrides"] = [{"indices": [0], "template": template}]
    return manifest


@pytest.mark.parametrize(
    ("method", "state"), [("Recreate", "failed 137"), ("Auto", "failed 137"), ("Recreate", "unschedulable")]
)
@pytest.mark.parametrize("template", OVERRIDES, ids=[str(n) for n in range(len(OVERRIDES))])
def test_no_attempt_begins_while_pods_of_a_type_cannot_be_created(template: Any, method: str, state: str) -> None:
    deadline = {"pendingDeadlineSeconds": 60, "pendingDeadlineAction": "Restart"} if state == "unschedulable" else {}
    run_policy = {"restartScope": "Job", "restartMethod": method, **deadline}
    good = job_manifest(TEST_JOB, {"Master": 1, "Worker": 2}, policy="OnFailure", run_policy=run_policy)
    good["status"] = {"conditions": [condition("Created"), condition("Running")], "startTime": "2023-11-14T22:13:20Z"}
    bad = overridden(good, template)
    observed = observe(TEST_JOB, good, {"Master-0": state, "Worker-0": "running", "Worker-1": "running"})
    for _ in range(3):
        decided = plan(TEST_JOB, read_job(TEST_JOB, bad), observed, START + 100)
        assert decided.actions == ()
        bad = next_pass(bad, decided)
    assert not bad["status"]["attempt"]
    assert "restarts" not in bad["status"]
    corrected = plan(TEST_JOB, read_job(TEST_JOB, {**bad, "spec": good["spec"]}), observed, START + 100)
    assert (status_of(corrected).attempt, status_of(corrected).restarts) == (1, 1), "corrected, it goes on"


def test_an_attempt_that_cannot_end_keeps_its_deadlines() -> None:
    run_policy = {"restartScope": "Job", "pendingDeadlineSeconds": 60}
    good = job_manifest(TEST_JOB, {"Master": 1, "Worker": 1}, policy="OnFailure", run_policy=run_policy)
    good["status"] = {"conditions": [condition("Created"), condition("Running")], "startTime": "2023-11-14T22:13:20Z"}
    observed = observe(TEST_JOB, good, {"Master-0": "failed 137", "Worker-0": "unschedulable"})
    bad = overridden(good, OVERRIDES[0])
    early = plan(TEST_JOB, read_job(TEST_JOB, bad), observed, START + 59)
    assert (early.wake_at, holding(early)) == (START + 60, ["Created", "Running"])
    late = plan(TEST_JOB, read_job(TEST_JOB, bad), observed, START + 60)
    assert status_of(late).conditions[-1].reason == "PendingTooLong"
    assert [failure.pod for failure in status_of(late).failures] == ["demo-master-0"]
