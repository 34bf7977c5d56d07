"""The JobController, driven by hand: watch lines in, plans out, results back."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from jobcommon.api import labels
from jobcommon.api.definition import Watch
from jobcommon.api.observed import Observed
from jobcommon.api.pod import pod_view
from jobcommon.api.status import JobStatus
from jobcommon.cli import rbac
from jobcommon.client.errors import ClientError, StatusError, TransportError
from jobcommon.controller.barrier import STALL
from jobcommon.controller.expectations import TIMEOUT
from jobcommon.controller.job_controller import WATCH_CHECK_SECONDS
from jobcommon.controller.job_state import COOLDOWN_FACTOR, COUNTS_DELAY
from jobcommon.controller.result import ActionResult, Effect, Result, Work
from jobcommon.controller.telemetry import Telemetry
from jobcommon.framework import Options
from jobcommon.reconcile import plan as decide
from jobcommon.reconcile.features import FEATURES
from jobcommon.reconcile.plan import Create, Delete, Plan, RemoveFinalizer, Urgency
from jobcommon.reconcile.rendering import Note, Wait, Why
from jobcommon.reconcile.view import Admission
from jobcommon.spec import read_job
from jobcommon.testutil.builders import START, Manifest, Pod, condition, finished_status, job_manifest
from jobcommon.testutil.frameworks import TEST_JOB
from jobcommon.testutil.plans import status_of
from tests.controller.bench import Bench, created


def pods_of(work: Work) -> list[str]:
    return [str(action) for action in work.plan.actions if isinstance(action, Create | Delete | RemoveFinalizer)]


CREATES = ["create services/demo", "create pods/demo-worker-0", "create pods/demo-worker-1"]


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.sync()
    return bench


@pytest.fixture
def manifest() -> Manifest:
    return job_manifest(TEST_JOB, {"Worker": 2}, policy="ExitCode")


def running_pod(bench: Bench, manifest: Manifest, index: int = 0, **metadata: Any) -> Manifest:
    pod = Pod.of(TEST_JOB, read_job(TEST_JOB, manifest), "Worker", index).running()
    return pod._with(metadata=metadata).raw


def start(bench: Bench, manifest: Manifest) -> Work:
    """A new job, its first plan carried out and seen."""
    work = bench.new(manifest)
    bench.seen(work)
    return work


def test_no_plan_before_all_caches_are_synced(manifest: Manifest) -> None:
    bench = Bench()
    bench.controller.queue.add(("default", "demo"))
    assert bench.begin() is None
    assert not bench.controller.synced
    bench.sync()
    assert pods_of(bench.new(manifest)) == CREATES


def test_a_bookmark_lifts_the_barrier(bench: Bench, manifest: Manifest) -> None:
    bench.finish(bench.new(manifest))
    bench.controller.queue.add(("default", "demo"))
    assert bench.begin() is None
    bench.bookmark()
    assert bench.begin() is None, "no event of the job"
    bench.now += WATCH_CHECK_SECONDS
    # What was made is not there, and the status does not say yet that it was made: the job may be gone.
    assert bench.work().plan.verify_live is True


def test_levels_new_jobs_and_jobs_whose_last_pod_ended_first_finished_ones_last(bench: Bench) -> None:
    def job(name: str) -> Manifest:
        manifest = job_manifest(TEST_JOB, {"Worker": 1})
        return {**manifest, "metadata": {**manifest["metadata"], "name": name, "uid": f"uid-{name}"}}

    names = ("ended", "active", "over")
    for name in names:
        start(bench, job(name))
        while (work := bench.begin()) is not None:
            bench.finish(work)
    ended = {**job("ended"), "status": finished_status()}
    bench.finish(bench.changed(ended), absent=True)
    for name in names:
        bench.say("testjobs", "MODIFIED", ended if name == "ended" else job(name))
    pod = Pod.of(TEST_JOB, read_job(TEST_JOB, job("over")), "Worker", 0, uid="uid-over-worker-0").succeeded()
    bench.say("pods", "MODIFIED", pod.raw)
    bench.say("testjobs", "ADDED", job("new"))
    served = []
    while (work := bench.begin()) is not None:
        served.append(work.name)
    assert served == ["over", "new", "active", "ended"]


def test_a_deletion_is_awaited(bench: Bench, manifest: Manifest) -> None:
    start(bench, manifest)
    status = bench.controller.informers["testjobs"].store.get("default", "demo")
    assert status is not None
    on_record = {**status.raw["status"], "conditions": [condition("Created"), condition("Suspended")]}
    suspended = {**status.raw, "spec": {**manifest["spec"], "runPolicy": {"suspend": True}}, "status": on_record}
    pods = [running_pod(bench, manifest, index) for index in range(2)]
    for pod in pods:
        bench.say("pods", "MODIFIED", pod)
    work = bench.changed(suspended)
    assert len([action for action in work.plan.actions if isinstance(action, Delete)]) == 3
    version = bench.version + 1
    bench.finish(work)
    bench.say(
        "testjobs",
        "MODIFIED",
        {**suspended, "status": work.plan.status.to_json() if work.plan.status else {}},
        version=version + 3,
    )
    assert bench.begin() is None, "three deletions are not seen yet"
    for pod in pods:
        bench.say("pods", "MODIFIED", {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}})
    assert bench.begin() is None
    bench.say("services", "DELETED", created(next(a for a in first_plan(manifest).actions if isinstance(a, Create))))
    assert bench.work().plan.actions == ()


def begin(manifest: Manifest) -> None:
    """The job has the status that its first plan writes."""
    manifest["status"] = status_of(first_plan(manifest)).to_json()


def first_plan(manifest: Manifest) -> Plan:
    """What is decided when the job is new."""
    return decide(TEST_JOB, read_job(TEST_JOB, manifest), Observed(), START)


def test_a_deletion_that_found_nothing_is_not_awaited(bench: Bench, manifest: Manifest) -> None:
    manifest["status"] = finished_status("Failed")
    bench.say("pods", "ADDED", running_pod(bench, manifest))
    work = bench.new(manifest)
    assert len(work.plan.actions) == 1
    bench.finish(work, absent=True)
    assert len(bench.controller.expectations) == 0


def test_a_deletion_by_force_is_not_awaited(bench: Bench) -> None:
    """The pod is terminating already, so that no watch shows it."""
    manifest = job_manifest(TEST_JOB, {"Worker": 1}, policy="OnFailure", run_policy={"nodeLossSeconds": 20})
    worker = manifest["spec"]["testReplicaSpecs"]["Worker"]["template"]
    worker["metadata"] = {"annotations": {labels.SAFE_TO_DELETE: "true"}}
    bench.say("pods", "ADDED", Pod.of(TEST_JOB, read_job(TEST_JOB, manifest), "Worker", 0).lost().raw)
    bench.now = 600
    work = bench.new(manifest)
    assert [action.force for action in work.plan.actions if isinstance(action, Delete)] == [True]
    bench.finish(work)
    assert bench.controller.expectations.next_expiry("uid-demo") is None


def test_an_unmet_expectation_lapses_by_its_own_timer(bench: Bench, manifest: Manifest) -> None:
    manifest["status"] = finished_status("Failed")
    bench.say("pods", "ADDED", running_pod(bench, manifest))
    bench.finish(bench.new(manifest))
    bench.controller.queue.add(("default", "demo"))
    assert bench.begin() is None
    assert bench.controller.queue.next_wakeup() == TIMEOUT
    bench.now = TIMEOUT
    assert len(bench.work().plan.actions) == 1


def test_a_job_recreated_under_the_same_name_starts_anew(bench: Bench, manifest: Manifest) -> None:
    """The predecessor's pods lose their finalizer and are not counted; the new job starts when their names are free."""
    start(bench, manifest)
    old = [running_pod(bench, manifest, index) for index in range(2)]
    for pod in old:
        bench.say("pods", "MODIFIED", pod)
    second = job_manifest(TEST_JOB, {"Worker": 2}, uid="uid-second")
    work = bench.new(second)
    assert (work.orphans_of, work.uid, work.job) == ("uid-demo", "uid-demo", None)
    assert pods_of(work) == ["remove finalizer from pods/demo-worker-0", "remove finalizer from pods/demo-worker-1"]
    bench.finish(work)
    assert bench.begin() is None, "what was just released is not released again before it is seen"
    for pod in old:
        pod["metadata"] |= {"finalizers": [], "deletionTimestamp": "2026-01-01T00:00:00Z"}
        bench.say("pods", "MODIFIED", pod)
    work = bench.work()
    assert (work.uid, work.orphans_of, pods_of(work)) == ("uid-second", None, CREATES[:1])
    assert "Waiting" in [event.reason for event in work.plan.events]
    bench.finish(work)
    for pod in old:
        bench.say("pods", "DELETED", pod)
    bench.bookmark()
    again = bench.work()
    assert [name for name in pods_of(again) if "pods" in name] == CREATES[1:], "at once, not after a back-off"
    assert len(bench.controller.barrier) <= 1
    assert set(bench.controller.states) == {"uid-second"}


def carried_out(bench: Bench, work: Work) -> None:
    """The caches show what the plan has made before its last answer is there."""
    bench.echo(work, bench.version + 1)
    bench.finish(work)


def settled(bench: Bench) -> None:
    """Whatever is planned now writes nothing."""
    while (work := bench.begin()) is not None:
        assert (work.plan.actions, work.plan.status) == ((), None)
        bench.finish(work)


def started_pod(bench: Bench, manifest: Manifest, index: int) -> Work:
    bench.say("pods", "MODIFIED", running_pod(bench, manifest, index))
    return bench.work()


def test_the_status_of_a_job_that_does_not_run_yet_is_not_deferred(bench: Bench, manifest: Manifest) -> None:
    start(bench, manifest)
    assert not started_pod(bench, manifest, 0).deferred


@pytest.mark.parametrize("waiting", [False, True], ids=["silent", "named in the condition"])
def test_new_counts_of_pods_are_one_write(bench: Bench, manifest: Manifest, waiting: bool) -> None:
    manifest["spec"]["testReplicaSpecs"]["Worker"]["replicas"] = 4
    start(bench, manifest)
    for index in range(4) if waiting else ():
        pod = Pod.of(TEST_JOB, read_job(TEST_JOB, manifest), "Worker", index)
        bench.say("pods", "MODIFIED", pod.unschedulable().raw)
    carried_out(bench, started_pod(bench, manifest, 0))
    settled(bench)
    first = started_pod(bench, manifest, 1)
    assert first.deferred
    assert first.plan.status is not None
    assert first.plan.urgency is Urgency.COUNTS
    assert bench.finish(first) == Telemetry()
    bench.now += COUNTS_DELAY - 0.1
    bench.say("pods", "MODIFIED", running_pod(bench, manifest, 2))
    assert bench.begin() is None, "not planned before its time"
    bench.now += 0.1
    both = bench.work()
    assert not both.deferred
    assert status_of(both.plan).replica_statuses["Worker"].active == 3
    carried_out(bench, both)
    settled(bench)
    bench.finish(started_pod(bench, manifest, 3))
    bench.say("pods", "MODIFIED", Pod.of(TEST_JOB, read_job(TEST_JOB, manifest), "Worker", 1).failed(1).raw)
    failed = bench.work()
    assert not failed.deferred, "a failure does not wait for further counts"
    assert failed.plan.urgency is not Urgency.COUNTS


def test_after_a_costly_plan_the_next_one_waits(bench: Bench, manifest: Manifest) -> None:
    start(bench, manifest)
    carried_out(bench, started_pod(bench, manifest, 0))
    settled(bench)
    bench.say("pods", "MODIFIED", Pod.of(TEST_JOB, read_job(TEST_JOB, manifest), "Worker", 1).failed(1).raw)
    work = bench.work()
    bench.controller.finish(work, Result(stale=True), bench.moment, cost=0.05)
    bench.say("testjobs", "MODIFIED", manifest)
    assert bench.begin() is None
    bench.now += 0.05 * COOLDOWN_FACTOR
    bench.controller.finish(bench.work(), Result(stale=True), bench.moment, cost=0.05)
    bench.say("pods", "MODIFIED", Pod.of(TEST_JOB, read_job(TEST_JOB, manifest), "Worker", 0).succeeded().raw)
    assert bench.begin() is not None, "the end of its last pod does not wait"


def test_pods_that_an_orphaning_deletion_has_left_behind_are_released(bench: Bench, manifest: Manifest) -> None:
    """A deletion with --cascade=orphan while no operator runs leaves pods without an owner reference."""
    unlabelled = running_pod(bench, manifest, 1)
    for pod in (running_pod(bench, manifest), unlabelled):
        pod["metadata"].pop("ownerReferences")
        if pod is unlabelled:
            del pod["metadata"]["labels"]["training.kubeflow.org/job-name"]
        bench.say("pods", "ADDED", pod)
    first, second = bench.work(), bench.work()
    assert [pods_of(work) for work in (first, second)] == [
        ["remove finalizer from pods/demo-worker-0"],
        ["remove finalizer from pods/demo-worker-1"],
    ]
    assert (first.orphans_of, first.job) == ("", None)
    bench.finish(first)
    bench.finish(second, refuse=lambda _: StatusError(403, "Forbidden", "no"))
    bench.now += 60
    assert pods_of(bench.work()) == ["remove finalizer from pods/demo-worker-1"], "what was refused is tried again"
    assert len(bench.controller.barrier) == len(bench.controller.expectations) == len(bench.controller.states) == 0


# An answer to the removal of an orphan's finalizer -> after how many seconds each it is tried again, three times
ORPHANS_WAIT: dict[str, tuple[ClientError, tuple[float, ...]]] = {
    "denied": (StatusError(403, "Forbidden", 'admission webhook "guard" denied the request'), (10.0, 20.0, 40.0)),
    "webhook down": (StatusError(500, "InternalError", 'failed calling webhook "guard"'), (10.0, 20.0, 40.0)),
    "throttled": (StatusError(429, "TooManyRequests", "later", retry_after=60.0), (60.0, 60.0, 60.0)),
    "server error": (StatusError(500, "InternalError", "etcd has no leader"), (0.005, 0.01, 0.02)),
    "no answer": (TransportError("reset"), (0.005, 0.01, 0.02)),
}


@pytest.mark.parametrize("case", ORPHANS_WAIT)
def test_orphans_that_cannot_be_released_wait_beside_the_new_job(bench: Bench, manifest: Manifest, case: str) -> None:
    error, pauses = ORPHANS_WAIT[case]
    start(bench, manifest)
    bench.say("testjobs", "MODIFIED", job_manifest(TEST_JOB, {"Worker": 3}, uid="uid-second"))
    (released, told), (new, _), *_ = worked(bench, error)
    assert pods_of(released) == ["remove finalizer from pods/demo-worker-0", "remove finalizer from pods/demo-worker-1"]
    assert [event.reason for event in told.events] == ["FailedRemoveFinalizer"]
    assert (new.uid, pods_of(new)) == ("uid-second", ["create services/demo", "create pods/demo-worker-2"])
    assert "Waiting" in [event.reason for event in new.plan.events]
    for pause in pauses:
        bench.now += pause * 0.9
        bench.say("pods", "MODIFIED", running_pod(bench, manifest))
        assert not [work for work, _ in worked(bench, error) if work.orphans_of], "whatever brings them back before"
        bench.now += pause * 0.1 + 1e-9
        assert [told.events for work, told in worked(bench, error) if work.orphans_of] == [()], "once, and told before"
    for index in range(2):
        bench.say("pods", "DELETED", running_pod(bench, manifest, index, finalizers=[]))
    assert "create pods/demo-worker-0" in pods_of(worked(bench, error)[0][0])
    assert not bench.controller.orphans, "nothing is kept of what is gone"


def worked(bench: Bench, error: ClientError) -> list[tuple[Work, Telemetry]]:
    """All that is to be done now: the plans of jobs are carried out and seen, the release of orphans fails with `error`."""
    done: list[tuple[Work, Telemetry]] = []
    while (work := bench.begin()) is not None and len(done) < 9:
        first = bench.version + 1
        done.append((work, bench.finish(work, refuse=lambda action: error if isinstance(action, RemoveFinalizer) else None)))
        bench.echo(work, first)
    return done


@pytest.mark.parametrize("seen", [False, True], ids=["never seen", "seen before"])
def test_pods_of_a_kind_that_is_not_installed_are_released(manifest: Manifest, seen: bool) -> None:
    bench = Bench()
    informers = bench.controller.informers
    if seen:
        bench.sync()
        start(bench, manifest)
    informers["testjobs"].failed(StatusError(404, "", "page not found"), bench.now)
    if not seen:
        for name in set(informers) - {"testjobs"}:
            bench.sync_one(name)
        bench.say("pods", "ADDED", running_pod(bench, manifest))
    work = bench.work()
    assert (work.orphans_of, pods_of(work)[0]) == ("uid-demo", "remove finalizer from pods/demo-worker-0")
    bench.finish(work, stale=True)
    bench.sync_one("testjobs")
    bench.say("testjobs", "ADDED", manifest)
    bench.now += 60
    assert bench.work().orphans_of is None, "when the kind is back its jobs are worked on"


def test_a_job_that_vanishes_while_it_is_worked_on_leaves_nothing_behind(bench: Bench, manifest: Manifest) -> None:
    work = bench.new(manifest)
    bench.say("testjobs", "DELETED", manifest)
    bench.finish(work)
    assert len(bench.controller.barrier) == len(bench.controller.expectations) == len(bench.controller.states) == 0


def test_what_claims_a_job_of_another_namespace_is_not_its(bench: Bench, manifest: Manifest) -> None:
    """A user who may read a job knows its UID, and can write it into objects of a namespace of their own."""
    claim = running_pod(bench, manifest, namespace="elsewhere", finalizers=["theirs"])
    bench.say("services", "ADDED", {**claim, "metadata": {**claim["metadata"], "name": "demo"}})
    work = bench.new(manifest)
    assert {"services/demo", "pods/demo-worker-0"} <= {f"{a.plural}/{a.name}" for a in work.plan.actions}
    bench.say("pods", "ADDED", claim)
    assert bench.controller.expectations.next_expiry("uid-demo")
    bench.seen(work)
    bench.say("pods", "DELETED", claim)
    assert all("elsewhere" not in str(action) for done in bench.settle() for action in done.plan.actions)


def test_a_pod_that_loses_its_labels_is_released_and_another_takes_its_place(bench: Bench, manifest: Manifest) -> None:
    """A watch with a selector shows it as deleted, in its last state. One that no watch has shown is found by a create."""
    start(bench, manifest)
    for index in range(2):
        bench.say("pods", "MODIFIED", running_pod(bench, manifest, index))
    bench.settle()
    pod = running_pod(bench, manifest)
    bench.say("pods", "DELETED", pod)
    release = bench.work()
    assert (release.orphans_of, pods_of(release)) == ("", ["remove finalizer from pods/demo-worker-0"])
    bench.finish(release)
    create = bench.work()
    assert pods_of(create) == ["create pods/demo-worker-0"]
    lost = msgspec.structs.replace(pod_view(msgspec.json.encode(pod)), uid="uid-lost")
    conflict = StatusError(409, "AlreadyExists", "")
    outcome = ActionResult(create.plan.actions[0], Effect.NAME_CONFLICT, error=conflict, strayed=lost)
    bench.controller.finish(create, Result((outcome,)), bench.moment)
    again = bench.work()
    assert (again.orphans_of, pods_of(again)) == ("", ["remove finalizer from pods/demo-worker-0"])
    bench.finish(again)
    assert "demo-worker-0 already exists, but has lost its labels" in status_of(bench.work().plan).conditions[-1].message


def test_a_pod_that_was_released_when_it_was_deleted_is_no_stray(bench: Bench, manifest: Manifest) -> None:
    """The last state of a deleted pod has the finalizer whose removal has deleted it."""
    start(bench, manifest)
    pod = running_pod(bench, manifest, deletionTimestamp="2026-01-01T00:00:00Z")
    pod["status"]["phase"] = "Succeeded"
    bench.say("pods", "MODIFIED", pod)
    released = [work for work in bench.settle() if "remove finalizer from pods/demo-worker-0" in pods_of(work)]
    assert len(released) == 1
    bench.say("pods", "DELETED", pod)
    assert not [work for work in bench.settle() if work.orphans_of is not None]


#: answers to the create of a pod that no later try can change
FOR_GOOD = {
    "invalid": StatusError(422, "Invalid", 'Pod "demo-worker-0" is invalid: spec.containers[0].ports[0].containerPort'),
    "too large": StatusError(500, "", "etcdserver: request is too large"),
}


@pytest.mark.parametrize("no", FOR_GOOD.values(), ids=FOR_GOOD)
def test_a_pod_that_can_never_be_created_fails_the_job(bench: Bench, manifest: Manifest, no: StatusError) -> None:
    telemetry = bench.finish(bench.new(manifest), refuse=lambda a: no if a.name == "demo-worker-0" else None)
    assert [event.reason for event in telemetry.events if event.type == "Warning"] == ["FailedCreatePod"]
    bench.bookmark()
    bench.now += 60
    last = status_of(bench.work().plan).conditions[-1]
    assert (last.type, last.reason) == ("Failed", "InvalidSpec")
    assert no.message in last.message


NOT_A_POD = StatusError(422, "Invalid", 'Pod "demo-worker-0" is invalid: spec.containers[0].image: Required value')
#: What the platform says through admission, whose answers may have any code. The words are the API server's.
REFUSALS_BY_ADMISSION = (
    StatusError(400, "BadRequest", 'admission webhook "pods.example.com" denied the request: no'),
    StatusError(403, "Forbidden", 'pods "demo-worker-0" is forbidden: violates PodSecurity "restricted:latest"'),
    StatusError(406, "", 'admission webhook "pods.example.com" denied the request: no'),
    StatusError(
        422, "Invalid", "pods \"demo-worker-0\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"
    ),
    StatusError(422, "Invalid", 'admission webhook "pods.example.com" denied the request: Pod "x" is invalid: no'),
    StatusError(500, "InternalError", 'Internal error occurred: failed calling webhook "x": context deadline exceeded'),
)


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("no", REFUSALS_BY_ADMISSION, ids=lambda e: f"{e.code}-{len(e.message)}")
def test_admission_never_fails_a_job_whatever_its_code(bench: Bench, manifest: Manifest, no: StatusError, begun: bool) -> None:
    if begun:
        begin(manifest)
    work = bench.new(manifest)
    bench.finish(work, refuse=lambda _: no, **({} if begun else {"status_error": None, "status_version": "2"}))
    told = _after_a_refusal(bench, work, manifest)
    assert told.conditions[-1].type == "Created"
    assert f"services/demo is refused: {no.message}" in told.conditions[-1].message
    assert bench.begin() is None
    bench.now += 10
    assert pods_of(bench.work()) == CREATES, "and when it is allowed the job goes on"


@pytest.mark.parametrize("no", [NOT_A_POD, StatusError(413, "RequestEntityTooLarge", "limit is 3145728")])
def test_a_job_that_has_begun_is_not_failed_by_an_invalid_object(bench: Bench, manifest: Manifest, no: StatusError) -> None:
    """Its pods were accepted before: it is the platform that has changed, or a mutating webhook."""
    begin(manifest)
    manifest["status"]["conditions"].append({**condition("Running"), "status": "False"})
    work = bench.new(manifest)
    bench.finish(work, refuse=lambda _: no)
    assert no.message in _after_a_refusal(bench, work, manifest).conditions[-1].message
    bench.now += 10
    assert pods_of(bench.work()) == CREATES


def _after_a_refusal(bench: Bench, work: Work, manifest: Manifest) -> JobStatus:
    """The status that the job has when all that the first plan asked for was refused."""
    status = written = work.plan.status
    while True:
        if written is not None:
            bench.say("testjobs", "MODIFIED", {**manifest, "status": written.to_json()})
        bench.bookmark()
        again = bench.begin()
        if again is None:
            assert status is not None
            return status
        assert again.plan.actions == ()
        written = again.plan.status
        status = written or status
        bench.finish(again)


def test_a_new_spec_is_tried_again(bench: Bench, manifest: Manifest) -> None:
    """What was refused belongs to the generation that was refused."""
    bench.finish(bench.new(manifest), refuse=lambda a: StatusError(422, "Invalid", "no"), status_error=TransportError("lost"))
    edited = {**manifest, "metadata": {**manifest["metadata"], "generation": 2}}
    assert pods_of(bench.changed(edited)) == CREATES


@pytest.mark.parametrize("code", [403, 409])
def test_a_refusal_by_the_platform_is_retried_with_back_off(bench: Bench, manifest: Manifest, code: int) -> None:
    """Asked again after 10 s, 20 s, 40 s …; never a failed job, one event for each kind of object."""
    begin(manifest)
    bench.say("testjobs", "ADDED", manifest)
    no = StatusError(code, "Forbidden", "exceeded quota")
    said = []
    for delay in (10, 20, 40, 80, 160, 320, 600, 600):
        work = bench.work()
        assert work.plan.status is None
        telemetry = bench.finish(work, refuse=lambda _: no)
        said += [event.reason for event in telemetry.events]
        if code == 403 and delay == 10:
            manifest["status"] = _look_for_status(bench, "services/demo is refused: exceeded quota").to_json()
            bench.say("testjobs", "MODIFIED", manifest)
            settled(bench)
        assert bench.controller.queue.next_wakeup() == bench.now + delay
        bench.now += delay
    assert said == ["FailedCreateService", "FailedCreatePod"]


def _look_for_status(bench: Bench, text: str) -> JobStatus:
    """The job is planned once more at once, for its status alone."""
    work = bench.work()
    assert work.plan.actions == ()
    assert text in status_of(work.plan).conditions[-1].message
    bench.finish(work)
    return status_of(work.plan)


OVER_QUOTA = StatusError(403, "Forbidden", "exceeded quota")


def _refuse_one_pod(bench: Bench, manifest: Manifest) -> dict[str, Manifest]:
    """A quota refuses the second of two pods, and the status says so. Gives what was to be made, by name."""
    begin(manifest)
    work = bench.new(manifest)
    made = {a.name: created(a) for a in work.plan.actions if isinstance(a, Create)}
    bench.finish(work, refuse=lambda a: OVER_QUOTA if a.name == "demo-worker-1" else None)
    for plural, name in (("services", "demo"), ("pods", "demo-worker-0")):
        bench.say(plural, "ADDED", made[name])
    manifest["status"] = _look_for_status(bench, "pods/demo-worker-1 is refused: exceeded quota").to_json()
    bench.say("testjobs", "MODIFIED", manifest)
    return made


@pytest.mark.parametrize("failed", ["create", "create and status", "live read"])
def test_a_job_pauses_as_long_as_the_server_asks(bench: Bench, manifest: Manifest, failed: str) -> None:
    """Whatever brings the job back meanwhile."""
    bench.say("testjobs", "ADDED", manifest)
    busy = StatusError(429, "TooManyRequests", "later", retry_after=32.0)
    if failed == "live read":
        bench.finish(bench.work(), stale=True, read_error=busy)
    elif failed == "create and status":
        bench.finish(bench.work(), status_error=busy, refuse=lambda _: busy)
    else:
        bench.finish(bench.work(), refuse=lambda _: busy)
        bench.bookmark("testjobs")
    began = bench.now
    while bench.now < began + 31:
        bench.now += 1
        bench.say("testjobs", "MODIFIED", manifest)
        assert bench.begin() is None
    bench.now = began + 32
    assert bench.work().plan.actions


def test_a_deletion_that_met_a_conflict_is_tried_again(bench: Bench, manifest: Manifest) -> None:
    """A 409 need not mean another incarnation, of which a watch would tell: the job would never expire."""
    manifest["spec"]["runPolicy"]["ttlSecondsAfterFinished"] = 0
    manifest["status"] = finished_status("Succeeded")
    work = bench.new(manifest)
    (expiry,) = (a for a in work.plan.actions if isinstance(a, Delete) and a.plural == "testjobs")
    conflict = ActionResult(expiry, Effect.NOT_FOUND, error=StatusError(409, "Conflict", "try again"))
    bench.controller.finish(work, Result((conflict,)), bench.moment)
    assert bench.controller.queue.next_wakeup() is not None
    bench.now += 1
    assert expiry in bench.work().plan.actions


def test_a_status_of_a_finished_job_is_written_from_the_whole_job(bench: Bench, manifest: Manifest) -> None:
    """A job that another operator has finished, without its completionTime: there is a status to write, and no action."""
    status = finished_status("Succeeded")
    manifest["status"] = {key: value for key, value in status.items() if key != "completionTime"}
    manifest["spec"]["runPolicy"] = {"cleanPodPolicy": "None"}
    work = bench.new(manifest)
    assert (work.plan.actions, work.plan.status is not None) == ((), True)
    assert work.raw is not None
    assert work.raw["metadata"]["name"] == "demo"


def test_a_wake_up_in_the_plan_brings_the_key_back(bench: Bench, manifest: Manifest) -> None:
    manifest["spec"]["runPolicy"]["activeDeadlineSeconds"] = 30
    start(bench, manifest)
    bench.finish(bench.work())
    assert bench.begin() is None
    bench.now = 30.1
    work = bench.work()
    assert status_of(work.plan).conditions[-1].reason == "DeadlineExceeded"


def test_a_conflict_on_the_status_emits_no_event(bench: Bench, manifest: Manifest) -> None:
    manifest["spec"]["testReplicaSpecs"] = {}
    telemetry = bench.finish(bench.new(manifest), status_error=StatusError(409, "Conflict", "changed"))
    assert (telemetry.events, telemetry.counts) == ((), {})
    bench.now += 60
    telemetry = bench.finish(bench.work())
    assert [event.reason for event in telemetry.events] == ["TestJobFailed"]
    assert telemetry.counts == {"training_operator_jobs_created": 1, "training_operator_jobs_failed": 1}


def test_writes_lost_in_a_restored_etcd_delay_no_job(bench: Bench, manifest: Manifest) -> None:
    """etcd came back from a backup: the versions our writes got will never be seen again."""
    bench.finish(bench.new(manifest))
    for resource in bench.controller.informers:
        if resource != "testjobs":
            bench.bookmark(resource)
    bench.controller.queue.add(("default", "demo"))
    bench.now += 60
    assert bench.begin() is None
    bench.now += STALL
    assert bench.begin() is None, "a store that is behind for so long is made to list anew"
    assert not bench.controller.informers["testjobs"].streaming
    bench.controller.informers["testjobs"].next(bench.now)
    bench.version -= 3
    bench.listed("testjobs", {**manifest, "metadata": {**manifest["metadata"], "resourceVersion": str(bench.version)}})
    bench.now += 60
    assert bench.begin() is not None


def test_an_invalid_pod_is_not_kept_waiting_by_a_quota(bench: Bench, manifest: Manifest) -> None:
    """One create refused for good, another for the time being: the job fails now, not after the platform's back-off."""
    bench.say("testjobs", "ADDED", manifest)
    answers = {"demo-worker-0": NOT_A_POD, "demo-worker-1": StatusError(403, "Forbidden", "quota")}
    bench.finish(bench.work(), refuse=lambda a: answers.get(a.name))
    wakeup = bench.controller.queue.next_wakeup()
    assert wakeup is not None
    assert wakeup < bench.now + 1


def test_the_finalizer_of_a_terminating_pod_is_removed_once(bench: Bench, manifest: Manifest) -> None:
    """The answer does not tell when the pod is gone, and until the cache shows that, the job's next plan waits."""
    manifest["status"] = finished_status()
    pod = Pod.of(TEST_JOB, read_job(TEST_JOB, manifest), "Worker", 0).succeeded().raw
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    bench.say("pods", "ADDED", pod)
    work = bench.new(manifest)
    assert [action.name for action in work.plan.background] == ["demo-worker-0"]
    bench.controller.finish(work, Result(tuple(ActionResult(a, Effect.APPLIED) for a in work.plan.actions)), bench.moment)
    bench.say("testjobs", "MODIFIED", manifest)
    assert bench.begin() is None
    bench.say("pods", "MODIFIED", {**pod, "metadata": {**pod["metadata"], "deletionGracePeriodSeconds": 0}})
    assert bench.begin() is None, "the kubelet's last write, made before ours"
    bench.say("pods", "DELETED", pod)
    assert bench.work().plan.actions == ()


def test_a_transient_error_beside_a_refusal_is_soon_retried(bench: Bench, manifest: Manifest) -> None:
    made = _refuse_one_pod(bench, manifest)
    settled(bench)
    pod = Pod.of(TEST_JOB, read_job(TEST_JOB, manifest), "Worker", 0, uid=made["demo-worker-0"]["metadata"]["uid"])
    bench.say("pods", "MODIFIED", pod.failed(137).raw)
    record = bench.work()
    bench.finish(record)
    bench.say("testjobs", "MODIFIED", {**manifest, "status": record.plan.status.to_json()})  # type: ignore[union-attr]
    bench.now += 10
    work = bench.work()
    assert {type(action) for action in work.plan.actions} == {RemoveFinalizer, Delete, Create}
    down = StatusError(500, "InternalError", "etcd leader changed")
    bench.finish(work, refuse=lambda action: OVER_QUOTA if isinstance(action, Create) else down)
    wakeup = bench.controller.queue.next_wakeup()
    assert wakeup is not None
    assert wakeup < bench.now + 1


@pytest.mark.parametrize("stored", [False, True])
def test_another_process_comes_to_the_same_end_of_a_job_with_an_invalid_pod(manifest: Manifest, stored: bool) -> None:
    """The first process dies after its writes, with or without the status: a pod was made, the other is invalid."""
    dead, next_process = Bench(), Bench()
    dead.sync()
    next_process.sync()
    work = dead.new(manifest)
    answers = {"demo-worker-1": NOT_A_POD}
    dead.finish(work, refuse=lambda a: answers.get(a.name))
    if stored:
        manifest = {**manifest, "status": status_of(work.plan).to_json()}
    for action in work.plan.actions:
        if isinstance(action, Create) and action.name not in answers:
            next_process.say(action.plural, "ADDED", created(action))
    next_process.finish(next_process.new(manifest), refuse=lambda a: answers.get(a.name))
    next_process.bookmark("testjobs")
    next_process.now += 1
    after = status_of(next_process.work().plan)
    assert after.conditions[-1].reason == "InvalidSpec"


def test_the_ends_of_pods_that_a_suspension_has_stopped_are_written_together(bench: Bench) -> None:
    manifest = job_manifest(TEST_JOB, {"Worker": 20}, run_policy={"suspend": True})
    manifest["status"] = {"conditions": [condition("Created"), condition("Suspended")]}
    job = read_job(TEST_JOB, manifest)
    pods = [Pod.of(TEST_JOB, job, "Worker", index).running().deleting(at=START) for index in range(20)]
    bench.say("testjobs", "ADDED", manifest)
    for pod in pods:
        bench.say("pods", "ADDED", pod.raw)
    writes = 0
    for pod in pods:
        bench.now += 0.3
        bench.say("pods", "MODIFIED", pod.failed(143, at=START + bench.now).raw)
        while (work := bench.begin()) is not None:
            bench.finish(work)
            gone = [action.name for action in work.plan.actions if isinstance(action, RemoveFinalizer)]
            for one in pods:
                if one.name in gone:
                    bench.say("pods", "DELETED", one.raw, version=bench.version)
            if work.plan.status is not None and not work.deferred:
                writes += 1
                manifest = {**manifest, "status": work.plan.status.to_json()}
                bench.say("testjobs", "MODIFIED", manifest, version=bench.version)
    assert writes <= 7, "one a second"


class Stopped(Admission):
    """Of a third party: no pods while a ConfigMap says so."""

    name = "stopped"

    @classmethod
    def access(cls, options: Options) -> Iterable[Watch]:
        return [Watch("v1", "configmaps", ("patch",), selector="example.com/stop"), Watch("v1", "nodes", namespaced=False)]

    def wait(self) -> Wait | None:
        return Wait(Why.NOT_YET, Note("stopped")) if ("configmaps", "stop") in self.view.observed.cluster else None


def test_a_feature_of_others_brings_what_it_watches_and_the_rights_to(manifest: Manifest) -> None:
    framework = replace(TEST_JOB, features=(*FEATURES, Stopped))
    bench, stop = Bench(framework), {"metadata": {"name": "stop", "namespace": "elsewhere", "uid": "c"}}
    assert bench.controller.caches.resources["configmaps/stopped"].selector == "example.com/stop"
    bench.sync()
    bench.seen(bench.new(manifest))
    while (work := bench.begin()) is not None:
        bench.seen(work)
    bench.say("configmaps/stopped", "ADDED", stop)
    assert bench.begin() is None, "it is in another namespace"
    bench.say("configmaps/stopped", "ADDED", {"metadata": {**stop["metadata"], "namespace": "default"}})
    assert bench.begin() is not None
    assert rbac.Rule("", "configmaps", ("list", "watch", "patch")) in rbac.job_rules(framework)
    assert rbac.feature_rules([Stopped], Options(), namespaced=False) == (rbac.Rule("", "nodes", ("list", "watch")),)
