"""What is deleted, and when: the clean-up policy, the time to live, deletion of the job."""

import pytest

from jobcommon.api.observed import Observed
from jobcommon.reconcile import plan
from jobcommon.reconcile.limits import GRACE_SECONDS
from jobcommon.reconcile.plan import Delete, Plan, RemoveFinalizer, Update
from jobcommon.spec import read_job
from jobcommon.testutil.builders import START, Pod, condition, finished_status, job_manifest, observe, services_of
from jobcommon.testutil.frameworks import TEST_JOB
from jobcommon.testutil.plans import next_pass, status_of

MIXED = {"Worker-0": "running", "Worker-1": "running,succeeded", "Worker-2": "running,failed 1"}


def deleted(decided: Plan, plural: str) -> set[str]:
    return {action.name for action in decided.actions if isinstance(action, Delete) and action.plural == plural}


def finished(kind: str, policy: str | None, pods: dict[str, str], reason: str = "", now: float = START) -> Plan:
    run_policy = {} if policy is None else {"cleanPodPolicy": policy}
    status = finished_status(kind, reason or f"{TEST_JOB.kind}{kind}")
    manifest = job_manifest(TEST_JOB, {"Worker": 4}, run_policy=run_policy, status=status)
    return plan(TEST_JOB, read_job(TEST_JOB, manifest), observe(TEST_JOB, manifest, pods), now)


RUNS, ALL = {"demo-worker-0"}, {"demo-worker-0", "demo-worker-1", "demo-worker-2"}
#: how the job has ended, its policy, its pods, the seconds since, and which pods are deleted, and whether the Services are
ENDED: dict[str, tuple[str, str | None, dict[str, str], float, set[str], bool]] = {
    **{f"{kind}, {policy}": (kind, policy, MIXED, GRACE_SECONDS, pods, policy != "None")
       for kind in ("Succeeded", "Failed")
       for policy, pods in (("Running", RUNS), ("All", ALL), ("None", set[str]()), (None, RUNS), ("", RUNS))},
    "a success, unset": ("Succeeded", None, MIXED, 0, set(), False), "empty": ("Succeeded", "", MIXED, 0, set(), False),
    "a failure, unset": ("Failed", None, MIXED, 0, RUNS, True), "no pods": ("Succeeded", "Running", {}, 0, set(), True),
    "it starts": ("Succeeded", None, {"Worker-0": "scheduled"}, 0, set(), False),
    "not on a node, for which it waits": ("Succeeded", None, {"Worker-0": "without_finalizer"}, 0, RUNS, True),
    "it has ended": ("Succeeded", None, {"Worker-0": "running,succeeded"}, 0, set(), True),
    "it is being deleted": ("Succeeded", None, {"Worker-0": "running,deleting"}, 0, set(), True),
    "a moment is left": ("Succeeded", None, MIXED, GRACE_SECONDS - 1, set(), False),
    "by another operator, whose clock is a little ahead": ("Succeeded", None, MIXED, -1, set(), False),
    "by a wrong clock": ("Succeeded", None, MIXED, -3600, RUNS, True),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "policy", "pods", "after", "gone", "services"), ENDED.values(), ids=ENDED)
def test_what_of_a_finished_job_is_deleted(
    kind: str, policy: str | None, pods: dict[str, str], after: float, gone: set[str], services: bool
) -> None:
    decided = finished(kind, policy, pods, now=START + after)
    assert (deleted(decided, "pods"), bool(deleted(decided, "services"))) == (gone, services)
    waits = not (gone or services or policy == "None")
    assert decided.wake_at == (START + GRACE_SECONDS if waits else None)
    released = {action.name for action in decided.actions if isinstance(action, RemoveFinalizer)}
    ended = {"demo-worker-1", "demo-worker-2"} if pods is MIXED else {"demo-worker-0"} if "succeeded" in str(pods) else set()
    assert released == ended, "the finalizer of an ended pod is removed under every policy"


OWN = "ValueError: no shard"


@pytest.mark.parametrize(("kind", "first", "message", "changed", "recorded"), [
    pytest.param("Failed", OWN, OWN, "last_delete", ("Stopped", 143, OWN), id="a failure"),
    pytest.param("Failed", OWN, OWN, "without_finalizer,last_delete", None, id="released"),
    pytest.param("Failed", OWN, OWN, "disrupted,last_delete", ("EvictionByEvictionAPI", None, None), id="evicted"),
    pytest.param("Failed", OWN, "", "last_delete", ("Stopped", 143, None), id="without a word"),
    pytest.param("Succeeded", OWN, OWN, "last_delete", None, id="a success"),
    pytest.param("DeadlineExceeded", "", OWN, "last_delete", ("Stopped", 143, OWN), id="a deadline, and no failure before"),
    pytest.param("DeadlineExceeded", "", "", "in_init", ("Stopped", 143, "(init container prepare)"), id="an init container"),
    pytest.param(
        "DeadlineExceeded", "", OWN, "in_init", ("Stopped", 143, f"{OWN} (init container prepare)"), id="its last lines",
    ),
])  # fmt: skip
def test_the_last_lines_of_a_replica_that_ran_when_the_job_failed_are_recorded(
    kind: str, first: str, message: str, changed: str, recorded: tuple[str, int | None, str | None] | None
) -> None:
    """The one that lost it ended before: the pod is released when the end of its peer is on record."""
    failure = {
        "replica": "Worker-0",
        "pod": "demo-worker-0",
        "reason": "Error",
        "exitCode": 1,
        "message": first,
    }
    end, reason = (kind, f"{TEST_JOB.kind}{kind}") if kind in ("Failed", "Succeeded") else ("Failed", kind)
    status = finished_status(end, reason) | {"failures": [failure] if first else []}
    manifest = job_manifest(TEST_JOB, {"Worker": 2}, run_policy={"cleanPodPolicy": "Running"}, status=status)
    pod = Pod.of(TEST_JOB, read_job(TEST_JOB, manifest), "Worker", 1).running().failed(143, message=message)
    if changed == "in_init":
        # The kubelet says so of a container that it has not started.
        pod = pod.failed(137, reason="ContainerStatusUnknown", message="could not be located").with_init(143).last_delete()
        pod.raw["status"]["initContainerStatuses"][0]["state"]["terminated"]["message"] = message
    else:
        for change in changed.split(","):
            pod = getattr(pod, change)()
    observed = Observed(pods=(pod.view,))
    decided = plan(TEST_JOB, read_job(TEST_JOB, manifest), observed, START + 9)
    after = decided.status.failures if decided.status else ()
    kept = [(f.replica, f.reason, f.exit_code, f.message) for f in after if f.pod != "demo-worker-0"]
    assert kept == ([("Worker-1", *recorded)] if recorded else [])
    if recorded:
        assert not decided.actions
        decided = plan(TEST_JOB, read_job(TEST_JOB, next_pass(manifest, decided)), observed, START + 9)
        assert decided.status is None
    assert [action.name for action in decided.actions if isinstance(action, RemoveFinalizer)] == (
        ["demo-worker-1"] if "without_finalizer" not in changed else []
    )


STOPPED = ["BackoffLimitExceeded", "DeadlineExceeded", "InvalidSpec", "NoProgress", "PendingTooLong", "Stalled"]


@pytest.mark.parametrize("reason", STOPPED)
def test_the_pods_of_a_stopped_job_end_and_stay_under_policy_none(reason: str) -> None:
    decided = finished("Failed", "None", {**MIXED, "Worker-3": "unschedulable"}, reason)
    assert (deleted(decided, "pods"), deleted(decided, "services")) == ({"demo-worker-3"}, set())
    (ended,) = [action for action in decided.actions if isinstance(action, Update)]
    assert (ended.name, ended.patch["spec"], ended.patch["metadata"]["uid"]) == (
        "demo-worker-0", {"activeDeadlineSeconds": 1}, "uid-demo-worker-0",
    )  # fmt: skip
    again = finished("Failed", "None", {"Worker-0": "running,expired"}, reason)
    assert not any(isinstance(action, Update | Delete) for action in again.actions), "it is asked once"


@pytest.mark.parametrize(("ttl", "completed", "now", "gone", "wake"), [
    pytest.param(None, None, 0, False, None, id="no ttl"),
    pytest.param(None, 0, 10**6, False, None, id="no ttl, long ago"), pytest.param(180, 0, 86_400, True, None, id="long over"),
    pytest.param(0, 0, 0, True, None, id="at once"), pytest.param(5, 4, 6, False, 9, id="not yet"),
    pytest.param(5, 4, 9, True, None, id="just now"),
    pytest.param(10, None, 5, False, 10, id="without completionTime: that of the condition"),
    pytest.param(2**31 - 1, 0, 5, False, 2**31 - 1, id="huge"),
])  # fmt: skip
def test_a_finished_job_is_deleted_when_its_time_to_live_is_over(
    ttl: int | None, completed: int | None, now: float, gone: bool, wake: float | None
) -> None:
    status = finished_status(at=START + (completed or 0))
    if completed is None:
        del status["completionTime"]
    run_policy = {} if ttl is None else {"ttlSecondsAfterFinished": ttl}
    manifest = job_manifest(TEST_JOB, {"Worker": 1}, run_policy=run_policy, status=status)
    decided = plan(TEST_JOB, read_job(TEST_JOB, manifest), observe(TEST_JOB, manifest), START + now)
    if completed is None:
        assert status_of(decided).completion_time == status["conditions"][-1]["lastTransitionTime"]
        manifest["status"] = status_of(decided).to_json()
        decided = plan(TEST_JOB, read_job(TEST_JOB, manifest), observe(TEST_JOB, manifest), START + now)
    assert deleted(decided, "testjobs") == ({"demo"} if gone else set())
    assert decided.wake_at == (None if wake is None else START + wake)


def test_the_job_is_deleted_as_it_was_judged() -> None:
    run_policy = {"ttlSecondsAfterFinished": 0}
    manifest = job_manifest(TEST_JOB, {"Worker": 1}, run_policy=run_policy, status=finished_status())
    decided = plan(TEST_JOB, read_job(TEST_JOB, manifest), observe(TEST_JOB, manifest, {"Worker-0": "running"}), START)
    delete, release = decided.actions
    assert isinstance(release, RemoveFinalizer)
    assert isinstance(delete, Delete)
    assert (delete.uid, delete.resource_version) == ("uid-demo", "1")


@pytest.mark.parametrize("spec_of", ["running", "finished", "invalid", "suspended"])
def test_a_job_that_is_being_deleted_creates_nothing(spec_of: str) -> None:
    manifest = job_manifest(TEST_JOB, {"Worker": 2}, run_policy={"suspend": spec_of == "suspended"})
    observed = observe(TEST_JOB, manifest, {"Worker-0": "running"})
    if spec_of == "finished":
        manifest["status"] = finished_status()
    if spec_of == "invalid":
        manifest["spec"]["testReplicaSpecs"] = None
    manifest["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    decided = plan(TEST_JOB, read_job(TEST_JOB, manifest), observed, START)
    assert [str(action) for action in decided.actions] == ["remove finalizer from pods/demo-worker-0"]
    assert decided.status is None


@pytest.mark.parametrize("stage", ["active", "suspended", "finished"])
def test_a_pod_that_only_claims_to_be_ours_is_left_alone(stage: str) -> None:
    """A user put the job's owner reference on another pod: it is neither counted nor deleted."""
    manifest = job_manifest(TEST_JOB, {"Worker": 1}, run_policy={"suspend": stage == "suspended", "cleanPodPolicy": "All"})
    if stage == "finished":
        manifest["status"] = finished_status()
    elif stage == "suspended":
        manifest["status"] = {"conditions": [condition("Created"), condition("Suspended")]}
    job = read_job(TEST_JOB, manifest)
    ours = Pod.of(TEST_JOB, job, "Worker", 0).running()
    unowned = [
        ours.renamed("mine").view,
        ours.renamed("demo-worker-x").labelled(replica_index="-1").view,
        ours.renamed("demo-worker-7").labelled(replica_index="8").view,
        ours.renamed("demo-worker-9").labelled(replica_index="9" * 30).view,
    ]
    decided = plan(TEST_JOB, job, Observed((ours.view, *unowned), services_of(TEST_JOB, job)), START)
    assert deleted(decided, "pods") == (set() if stage == "active" else {"demo-worker-0"})
    if stage == "active":
        assert status_of(decided).replica_statuses["Worker"].active == 1
        assert [event.reason for event in decided.events].count("UnknownPod") == 4


@pytest.mark.parametrize("state", ["failed 1", "succeeded"])
def test_a_success_on_record_is_not_rewritten_by_a_pod_that_takes_the_name(state: str) -> None:
    """Our pod has succeeded and is gone; a user puts another one in its place."""
    manifest = job_manifest(TEST_JOB, {"Master": 1, "Worker": 1}, policy="Never")
    first = plan(TEST_JOB, read_job(TEST_JOB, manifest), observe(TEST_JOB, manifest, {"Worker-0": "succeeded"}), START)
    assert first.status is not None
    manifest["status"] = first.status.to_json()
    job = read_job(TEST_JOB, manifest)
    method, *numbers = state.split()
    fake = getattr(Pod.of(TEST_JOB, job, "Worker", 0, uid="theirs"), method)(*map(int, numbers))
    master = Pod.of(TEST_JOB, job, "Master", 0).running()
    decided = plan(TEST_JOB, job, Observed(pods=(fake.view, master.view)), START)
    after = decided.status or job.status
    assert after.replica_statuses["Worker"].succeeded == 1
    assert not after.replica_statuses["Worker"].failed
    assert not after.has("Failed")


def test_per_replica_services_follow_the_scale() -> None:
    manifest = job_manifest(
        TEST_JOB, {"Worker": 3}, annotations={"training.kubeflow.org/service-per-replica": "true"},
        status={"conditions": [condition("Created")]},
    )  # fmt: skip
    services = services_of(TEST_JOB, read_job(TEST_JOB, manifest))
    assert [service.name for service in services] == ["demo", "demo-worker-0", "demo-worker-1", "demo-worker-2"]
    manifest["spec"]["testReplicaSpecs"]["Worker"]["replicas"] = 1
    decided = plan(TEST_JOB, read_job(TEST_JOB, manifest), Observed(services=services), START)
    assert deleted(decided, "services") == {"demo-worker-1", "demo-worker-2"}
