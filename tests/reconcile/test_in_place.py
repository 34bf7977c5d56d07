"""restartMethod Auto: the pods of a job that is restarted as a whole are kept, and their containers are started again."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from jobcommon.api import labels
from jobcommon.api.observed import IMAGES, IMAGES_LATER
from jobcommon.api.replica import Replica
from jobcommon.api.timestamp import format_time
from jobcommon.reconcile import Plan, plan
from jobcommon.reconcile.plan import Delete, SetImage
from jobcommon.spec import read_job
from jobcommon.testutil import builders
from jobcommon.testutil.builders import IMAGE_ID, START, Manifest, Pod, job_manifest, observe, pod_manifest
from jobcommon.testutil.cluster_model import ClusterModel
from jobcommon.testutil.frameworks import TEST_JOB
from jobcommon.testutil.plans import NOW, conditions, creates, decide, deletes, next_pass, status_of

SPEC = {"Master": 1, "Worker": 2}
ALL = ["demo-master-0", "demo-worker-0", "demo-worker-1"]
RUNNING = {"Master-0": "running", "Worker-0": "running", "Worker-1": "running"}
REPOSITORY, DIGEST = "image", IMAGE_ID.partition("@")[2]


def a_job(policy: str = "OnFailure", **run_policy: Any) -> Manifest:
    run = {"restartScope": "Job", "restartMethod": "Auto", **run_policy}
    return job_manifest(TEST_JOB, SPEC, policy=policy, run_policy=run)


def images(decision: Plan) -> dict[str, str]:
    """The images that the plan sets, by pod."""
    return {action.name: action.image for action in decision.actions if isinstance(action, SetImage)}


def second_attempt(later: dict[str, str], now: float = NOW, job: Manifest | None = None, **more: Any) -> Plan:
    """The plan once the second attempt is on record, when the pods of the first one are as in `later`."""
    first = job or a_job()
    recorded = next_pass(first, decide(TEST_JOB, first, {**RUNNING, "Worker-0": "running,restarted_after 137"}))
    assert recorded["status"]["attempt"] == 1
    return plan(TEST_JOB, read_job(TEST_JOB, recorded), observe(TEST_JOB, first, later, **more), now)


def world(policy: str = "OnFailure", **run_policy: Any) -> ClusterModel:
    """A job of three whose pods run."""
    run = {"restartScope": "Job", "restartMethod": "Auto", **run_policy}
    return ClusterModel.of(TEST_JOB, SPEC, policy=policy, run_policy=run).start()


def hold(cluster: ClusterModel, *names: str) -> ClusterModel:
    """The kubelet stops the containers whose image has no valid name."""
    for name in names or ALL:
        cluster.put(cluster.pods[name].stopped_by_image())
    return cluster


def begin(cluster: ClusterModel, *names: str) -> ClusterModel:
    """The kubelet starts the containers again."""
    for name in names or ALL:
        cluster.put(cluster.pods[name].restarted_after(143, cluster.pods[name].restarts + 1))
    return cluster


def fail_to_pull(cluster: ClusterModel, name: str, reason: str) -> ClusterModel:
    """The kubelet cannot pull the image by which a stopped container is to start again."""
    pod = cluster.pods[name]
    state = {"waiting": {"reason": reason, "message": "not found"}}
    return cluster.put(pod._main(state))


# -- one restart ---------------------------------------------------------------------------------------------------------------


def test_all_are_stopped_before_one_is_started_and_every_pod_stays() -> None:
    cluster = world()
    uids = {name: pod.view.uid for name, pod in cluster.pods.items()}
    cluster.put(cluster.pods["demo-worker-0"].restarted_after(137)).settle()
    assert cluster.current == "Restarting"
    assert (cluster.status["attempt"], cluster.status["restarts"]) == (1, 1)
    assert cluster.status["failures"][0]["exitCode"] == 137
    assert "is restarting all replicas in place because Worker-0: " in cluster.job.status.conditions[-1].message
    assert all(pod.view.containers[0].image == "image:stopped:attempt-1" for pod in cluster.pods.values())
    hold(cluster, "demo-master-0", "demo-worker-1").settle()
    assert all(":stopped:" in pod.view.containers[0].image for pod in cluster.pods.values()), "one still runs"
    hold(cluster, "demo-worker-0").settle()
    assert {pod.view.containers[0].image for pod in cluster.pods.values()} == {f"{REPOSITORY}:attempt-1@{DIGEST}"}
    assert {pod.view.annotations[labels.ATTEMPT] for pod in cluster.pods.values()} == {"1"}
    begin(cluster).settle()
    assert cluster.current == "Running"
    assert {name: pod.view.uid for name, pod in cluster.pods.items()} == uids
    assert (cluster.status["attempt"], cluster.status["restarts"]) == (1, 1), "our own stops are no failures"


def test_two_attempts_that_fail_in_one_second_are_both_on_record() -> None:
    cluster, name = world(backoffLimit=5), "demo-worker-0"

    def fail(restarts: int) -> None:
        pod = cluster.pods[name].restarted_after(137, restarts)
        status = deepcopy(pod.raw["status"])
        status["containerStatuses"][0]["lastState"]["terminated"]["finishedAt"] = format_time(START)
        cluster.put(pod._with(status=status)).settle()

    fail(1)
    hold(cluster).settle()
    begin(cluster).settle()
    fail(cluster.pods[name].restarts + 1)
    assert [failure["time"] for failure in cluster.status["failures"]] == [format_time(START)] * 2


def test_no_write_of_a_restart_lands_late() -> None:
    """A PATCH that was held up is refused by its tests once the containers run again."""
    cluster = world()
    for attempt in (1, 2):
        cluster.tick(100)
        cluster.put(cluster.pods["demo-worker-0"].restarted_after(137, cluster.pods["demo-worker-0"].restarts + 1)).settle()
        hold(cluster).settle()
        begin(cluster).settle()
        assert (cluster.current, cluster.status["attempt"]) == ("Running", attempt)
        running = dict(cluster.pods)
        held_up = [action for decided in cluster.plans for action in decided.actions if isinstance(action, SetImage)]
        assert len(held_up) == 6 * attempt
        for action in held_up:
            cluster._apply(action)
        assert cluster.pods == running


#: how another client has stopped a pod of the attempt that runs, and whether the kubelet has acted
STOPPED_BY_OTHERS = {
    "not yet": ("running,with_stopping_image 0", False),
    "ended": ("running,between_runs 143,with_stopping_image 0", True), "kept": ("running,stopped_by_image 9", True),
    "ended with 0": ("running,succeeded,with_stopping_image 0", True), "never started": ("scheduled,stopped_by_image 9", True),
}  # fmt: skip


@pytest.mark.parametrize("scope", ["Job", "Pod"])
@pytest.mark.parametrize(("state", "acted"), STOPPED_BY_OTHERS.values(), ids=STOPPED_BY_OTHERS)
def test_a_program_that_others_have_stopped_is_started_again(state: str, acted: bool, scope: str) -> None:
    """It would wait for ever. Its attempt ends, or its pod is replaced, and nothing is charged."""
    manifest = a_job(backoffLimit=1, restartScope=scope, restartMethod="Auto" if scope == "Job" else None)
    status = status_of(decide(TEST_JOB, manifest, {**RUNNING, "Worker-1": state}))
    assert (status.disruptions, status.restarts) == (1 if acted else None, None)
    assert status.attempt == ((1 if acted else 0) if scope == "Job" else None)
    assert [failure.reason for failure in status.failures] == (["StoppedByImage"] if acted else [])


#: how the first replica is seen after its failure, before the kubelet has heard of the operator
SEEN = {
    "it runs again": "running,restarted_after 137",
    "it runs again, though it ended with 0": "running,restarted_after 0",
    "it has just ended": "running,between_runs 137",
    "it waits for its restart": "crash_looping 1 137",
}


@pytest.mark.parametrize("state", SEEN.values(), ids=SEEN)
def test_a_failed_run_in_a_living_pod_ends_the_attempt(state: str) -> None:
    decided = decide(TEST_JOB, a_job("ExitCode"), {**RUNNING, "Worker-0": state, "Worker-1": "running,restarted_after 1"})
    assert (status_of(decided).attempt, status_of(decided).restarts) == (1, 1)
    assert [failure.replica for failure in status_of(decided).failures] == ["Worker-0"]
    assert decided.actions == (), "recorded before anything is stopped"


# -- what is not kept ----------------------------------------------------------------------------------------------------------

STOPPED = dict.fromkeys(RUNNING, "running,stopped_by_image 1")

#: how Worker-1 is when its attempt has ended, and why it gets a new pod
REPLACED = {
    "ended": ("running,failed 1", "it has ended"), "succeeded": ("running,succeeded", "it has ended"),
    "being deleted": ("running,deleting", "it has ended"), "not started": ("scheduled", "it has not started"),
}  # fmt: skip


@pytest.mark.parametrize(("state", "why"), REPLACED.values(), ids=REPLACED)
def test_a_pod_that_cannot_be_kept_is_made_anew(state: str, why: str) -> None:
    decided = second_attempt({**RUNNING, "Worker-1": state})
    assert sorted(images(decided)) == ["demo-master-0", "demo-worker-0"]
    assert deletes(decided) == ([] if "deleting" in state else ["demo-worker-1"])
    told = decide(TEST_JOB, a_job(), {**RUNNING, "Worker-0": "running,between_runs 137", "Worker-1": state})
    assert f"; waiting: Worker-1 gets a new pod because {why}" in conditions(told)[-1]


def test_no_start_and_no_create_while_a_replaced_pod_may_run() -> None:
    going = second_attempt({**STOPPED, "Worker-1": "running,deleting"})
    assert (images(going), creates(going)) == ({}, [])
    gone = second_attempt({slot: state for slot, state in STOPPED.items() if slot != "Worker-1"})
    assert (sorted(images(gone)), creates(gone)) == (["demo-master-0", "demo-worker-0"], ["demo-worker-1"])


#: what a kubelet says of a container with the image that stops it, and whether the program is known to be stopped
EVIDENCE = {
    "in back-off, of the former image": ("crash_looping 1 137,with_stopping_image 1,ordered_to_stop 60", False),
    "in back-off, of the present spec": ("crash_looping 1 137,with_stopping_image 1,spec_seen", True),
    "stopped by its image": ("running,stopped_by_image 1", True),
    "just ended": ("running,between_runs 143,with_stopping_image 1,spec_seen,ordered_to_stop 60", False),
}


@pytest.mark.parametrize(("state", "stopped"), EVIDENCE.values(), ids=EVIDENCE)
def test_a_program_counts_as_stopped_when_the_kubelet_acts_on_the_image(state: str, stopped: bool) -> None:
    started = images(second_attempt({**STOPPED, "Worker-1": state}))
    assert sorted(started) == (ALL if stopped else [])


#: how Worker-1 is seen long after the restart was recorded, by an operator that was away: it is asked to stop first
NOT_ASKED = {
    "by none": ("running", "image:stopped:attempt-1"),
    "for an earlier restart": ("running,ordered_to_stop", "image:stopped:attempt-1"),
    "by a clock far ahead": ("running,with_stopping_image 1,ordered_to_stop 9000", "image:stopped:attempt-1"),
    "by another client": ("running,with_stopping_image 7", "image:stopped:attempt-7"),
}


@pytest.mark.parametrize(("state", "image"), NOT_ASKED.values(), ids=NOT_ASKED)
def test_a_program_is_asked_to_stop_before_its_pod_is_given_up(state: str, image: str) -> None:
    late = START + 3600
    decided = second_attempt({**STOPPED, "Worker-1": state}, late)
    assert (deletes(decided), decided.wake_at, decided.verify_live) == ([], late + 60, True)
    (order,) = [action for action in decided.actions if isinstance(action, SetImage)]
    assert (order.name, order.image) == ("demo-worker-1", image)
    assert order.annotations == ((labels.STOP_ORDERED, format_time(late)),)


#: what becomes of Worker-1 while the programs stop, after how long, and why its pod is made anew
GIVEN_UP = {
    "hangs": ("running,with_stopping_image 1,ordered_to_stop 60", 120, "it did not stop within its grace period and 30 s"),
    "ends with 0": ("running,succeeded,with_stopping_image 1", 70, "it has ended"),
}


@pytest.mark.parametrize(("state", "after", "why"), GIVEN_UP.values(), ids=GIVEN_UP)
def test_an_event_names_pods_that_are_given_up_later(state: str, after: int, why: str) -> None:
    cluster = world()
    cluster.put(cluster.pods["demo-worker-0"].restarted_after(137)).settle()
    uids = {name: pod.view.uid for name, pod in cluster.pods.items()}
    first = Pod.of(TEST_JOB, read_job(TEST_JOB, a_job()), "Worker", 1, uid=uids["demo-worker-1"])
    first = first.in_attempt(0, 0)._with(
        metadata={"ownerReferences": cluster.pods["demo-worker-1"].raw["metadata"]["ownerReferences"]}
    )
    for method, *numbers in (one.split() for one in state.split(",")):
        first = getattr(first, method)(*map(int, numbers))
    hold(cluster, "demo-master-0", "demo-worker-0").put(first).tick(after).settle()
    assert f"Worker-1 gets a new pod because {why}" in {event.message for event in cluster.events}
    cluster.stop_terminating().settle()
    assert uids["demo-worker-1"] != cluster.pods["demo-worker-1"].view.uid
    begin(cluster, "demo-master-0", "demo-worker-0").run().settle()
    assert cluster.current == "Running"


@pytest.mark.parametrize("grace", [{}, {"terminationGracePeriodSeconds": None}], ids=["unset", "null"])
@pytest.mark.parametrize(("after", "replaced"), [(59, []), (60, ALL)])
def test_where_no_webhook_answers_a_stop_is_tried_until_its_deadline(
    after: float, replaced: list[str], grace: dict[str, None]
) -> None:
    job = a_job()
    for spec in job["spec"][TEST_JOB.replica_specs].values():
        spec["template"]["spec"] |= grace
    decided = second_attempt(RUNNING, NOW + after, job, backed_off=frozenset({IMAGES_LATER}))
    assert (images(decided), deletes(decided)) == ({}, replaced)


@pytest.mark.parametrize("image_id", ["", "sha256:" + "0" * 64])
def test_an_image_without_a_digest_of_its_repository_is_not_stopped(image_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An imported image: a reference by digest would be looked for in a registry."""
    monkeypatch.setattr(builders, "IMAGE_ID", image_id)
    decided = second_attempt(RUNNING)
    assert (images(decided), deletes(decided)) == ({}, ALL)


@pytest.mark.parametrize(
    "image", ["host:5000/me/torch", "host:5000/me/torch:2", "host:5000/me/torch:2@sha256:1", "host:5000/me/torch@x"]
)
def test_the_digest_is_pulled_from_the_repository_of_the_template(image: str) -> None:
    """The runtime may report that of another repository that has the same image."""
    job = a_job()
    for spec in job["spec"][TEST_JOB.replica_specs].values():
        spec["template"]["spec"]["containers"][0]["image"] = image
    assert set(images(second_attempt(STOPPED, job=job)).values()) == {f"host:5000/me/torch:attempt-1@{DIGEST}"}


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff"])
def test_a_digest_that_cannot_be_pulled_is_put_back_to_the_image_of_the_template(reason: str) -> None:
    cluster = world()
    cluster.put(cluster.pods["demo-worker-0"].restarted_after(137)).settle()
    hold(cluster).settle()
    fail_to_pull(cluster, "demo-worker-1", reason)
    assert not images(plan(TEST_JOB, cluster.job, replace(cluster.observed, backed_off=frozenset({IMAGES})), cluster.now))
    cluster.settle()
    assert cluster.pods["demo-worker-1"].view.containers[0].image == "image"
    begin(cluster).settle()
    assert (cluster.current, cluster.status["attempt"]) == ("Running", 1)


def test_a_pod_of_which_it_is_unknown_what_it_was_made_from_is_made_anew() -> None:
    cluster = world()
    pod = cluster.pods["demo-worker-1"]
    own = {key: text for key, text in pod.view.annotations.items() if key != labels.TEMPLATE}
    cluster.put(pod._with(metadata={"annotations": own}))
    cluster.put(cluster.pods["demo-worker-0"].restarted_after(137)).step()
    why = "Worker-1 gets a new pod because its template or configuration has been changed"
    assert why in cluster.job.status.conditions[-1].message


def test_a_pod_is_made_anew_only_as_it_was_seen() -> None:
    """Where a watch is silent it has started, or stopped, since."""
    cluster = world()
    seen = Pod.of(TEST_JOB, cluster.job, "Worker", 1)._with(metadata=cluster.pods["demo-worker-1"].raw["metadata"])
    cluster.put(seen.scheduled()).put(cluster.pods["demo-worker-0"].restarted_after(137)).step()
    assert "Worker-1 gets a new pod because it has not started" in cluster.job.status.conditions[-1].message
    (delete,) = (action for action in cluster.step(writes=0).actions if isinstance(action, Delete))
    assert (delete.name, delete.resource_version) == ("demo-worker-1", cluster.pods["demo-worker-1"].view.resource_version)
    cluster.put(cluster.pods["demo-worker-1"].running()).step()
    assert "new pod" not in cluster.job.status.conditions[-1].message, "it is kept"


#: the image that the tag of one replica's pod was when it was pulled, and how that of another ends
OTHER = f"elsewhere.example/mirror@sha256:{'f' * 64}"


@pytest.mark.parametrize("moved", [[], ["demo-worker-1"], ["demo-master-0"]], ids=["same", "one", "the first"])
@pytest.mark.parametrize("lost", [False, True])
def test_all_pods_of_an_attempt_have_one_image(moved: list[str], lost: bool) -> None:
    """Whatever their tag was when each was pulled, or is now."""
    cluster = world()
    for name in moved:
        raw = deepcopy(cluster.pods[name].raw)
        raw["status"]["containerStatuses"][0]["imageID"] = OTHER
        cluster.put(replace(cluster.pods[name], raw=raw))
    left = ALL
    if lost:
        left = ["demo-master-0", "demo-worker-1"]
        cluster.lose_node_of("demo-worker-0").settle()
    else:
        cluster.put(cluster.pods["demo-worker-0"].restarted_after(137)).settle()
    kept_ids = {name: cluster.pods[name].raw["status"]["containerStatuses"][0]["imageID"] for name in left}
    hold(cluster, *left)
    for name, image_id in kept_ids.items():
        cluster.pods[name].raw["status"]["containerStatuses"][0]["imageID"] = image_id
    cluster.settle()
    digest = (OTHER if "demo-master-0" in moved else IMAGE_ID).partition("@")[2]
    assert {pod.raw["spec"]["containers"][0]["image"] for pod in cluster.pods.values()} == {f"{REPOSITORY}:attempt-1@{digest}"}
    assert len(cluster.pods) == 3


#: what rules out that a container is started again in its pod
NEVER = {
    "Recreate": ("OnFailure", {"restartMethod": "Recreate"}, 1), "unset": ("OnFailure", {"restartMethod": None}, 1),
    "scope Pod": ("ExitCode", {"restartScope": "Pod"}, 1), "restartPolicy Never": ("Never", {}, 1),
    "no restart allowed": ("OnFailure", {"backoffLimit": 0}, 1), "several containers": ("OnFailure", {}, 2),
}  # fmt: skip


@pytest.mark.parametrize(("policy", "run_policy", "containers"), NEVER.values(), ids=NEVER)
def test_other_pods_are_never_restarted_by_the_kubelet(policy: str, run_policy: dict[str, Any], containers: int) -> None:
    assert restart_policy(a_job(policy, **run_policy), containers) == "Never"


def restart_policy(manifest: Manifest, containers: int = 1) -> str:
    template = manifest["spec"][TEST_JOB.replica_specs]["Worker"]["template"]["spec"]
    template["containers"] += [{"name": "second", "image": "image"}] * (containers - 1)
    job = read_job(TEST_JOB, manifest)
    return str(pod_manifest(TEST_JOB, job, Replica("Worker", 0))["spec"]["restartPolicy"])
