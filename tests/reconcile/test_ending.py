"""How a pod ends: exit codes, restart policies, the policy x code table of the end-to-end expectations, and disruptions."""

from dataclasses import replace

import msgspec
import pytest

from jobcommon.api.job import RestartPolicy
from jobcommon.api.pod import PodView
from jobcommon.api.replica import Replica
from jobcommon.reconcile import plan, rendering
from jobcommon.reconcile.accounting import failure_of
from jobcommon.reconcile.ending import Ending, EndType, Life, decode, ending_of, failures_in_place
from jobcommon.reconcile.plan import Create, Delete
from jobcommon.reconcile.rendering import described_end
from jobcommon.reconcile.slots import Ended, Slot
from jobcommon.spec import read_job
from jobcommon.testutil.builders import START, Pod, job_manifest, observe
from jobcommon.testutil.cluster_model import ClusterModel
from jobcommon.testutil.frameworks import TEST_JOB
from jobcommon.testutil.plans import status_of

JOB = read_job(TEST_JOB, job_manifest(TEST_JOB, {"Worker": 1}))
POD = Pod.of(TEST_JOB, JOB, "Worker", 0)
NO, YES = EndType.PERMANENT, EndType.RETRYABLE


def end_type(pod: Pod, policy: str) -> EndType | None:
    ending = ending_of(pod.view, TEST_JOB.container, RestartPolicy(policy))
    return ending.type if ending else None


@pytest.mark.parametrize(("codes", "expected"), [
    pytest.param([1, 2, 3], NO, id="1-3"), pytest.param([125, 126, 127], NO, id="125-127"),
    pytest.param([128, 139], YES, id="128, 139"), pytest.param([130, 138], YES, id="130, 138"),
    pytest.param([137, 143], YES, id="137, 143"), pytest.param([129, 131, 134, 255], YES, id="others"),
])  # fmt: skip
def test_exit_codes_under_policy_exit_code(codes: list[int], expected: EndType) -> None:
    assert [end_type(POD.failed(code), "ExitCode") for code in codes] == [expected] * len(codes)


@pytest.mark.parametrize(("policy", "code", "outcome"), [
    ("Always", 0, "in place"), ("Always", 1, "in place"), ("OnFailure", 1, "in place"), ("OnFailure", 0, "Succeeded"),
    ("Never", 1, "Failed"), ("Never", 0, "Succeeded"), ("ExitCode", 0, "Succeeded"), ("ExitCode", 1, "Failed"),
    ("ExitCode", 130, "recreated"),
])  # fmt: skip
def test_the_restart_policy_says_what_an_exit_code_leads_to(policy: str, code: int, outcome: str) -> None:
    """The end-to-end table: what the job makes of its only replica's exit."""
    manifest = job_manifest(TEST_JOB, {"Worker": 1}, policy=policy)
    if outcome == "in place":
        between = observe(TEST_JOB, manifest, {"Worker-0": f"running,between_runs {code}"})
        decided = plan(TEST_JOB, read_job(TEST_JOB, manifest), between, START)
        assert not decided.actions
        assert status_of(decided).conditions[-1].type == "Running"
        return
    ended = f"running,{'succeeded' if code == 0 else f'failed {code}'}"
    decided = plan(TEST_JOB, read_job(TEST_JOB, manifest), observe(TEST_JOB, manifest, {"Worker-0": ended}), START)
    assert status_of(decided).conditions[-1].type == {"recreated": "Restarting"}.get(outcome, outcome)
    assert not decided.actions, "what ended is put on record before anything is taken away"
    assert bool(status_of(decided).completion_time) == (outcome != "recreated")
    manifest["status"] = status_of(decided).to_json()
    after = plan(TEST_JOB, read_job(TEST_JOB, manifest), observe(TEST_JOB, manifest, {"Worker-0": ended}), START)
    deleted = [action.name for action in after.actions if isinstance(action, Delete) and action.plural == "pods"]
    assert deleted == (["demo-worker-0"] if outcome == "recreated" else [])
    assert not [action for action in after.actions if isinstance(action, Create)]


RUNS, DONE = POD.running(), POD.running().succeeded()
DELETED = RUNS.deleting(at=START + 50)
DRAINED = RUNS.disrupted().deleting(at=START + 50)


def failed_because(reason: str, pod: Pod = DONE) -> Pod:
    """The kubelet has ended the pod, whatever its container's exit code."""
    return pod._with(status={"phase": "Failed", "reason": reason})


#: ends by the platform, with the reason: disruptions, which Never does not restart
DISRUPTIONS = {
    "evicted": (RUNS.evicted(), "Evicted"),
    "node lost": (POD.evicted("NodeLost"), "NodeLost"),
    "node shutdown": (RUNS.failed(143).evicted("Terminated"), "Terminated"),
    "preempted, with a code": (RUNS.failed(137).disrupted("PreemptionByScheduler"), "PreemptionByScheduler"),
    "absent code": (POD.evicted(reason=""), "Lost"),
    "the node crashed and its kubelet made the code up": (
        RUNS.failed(137, reason="ContainerStatusUnknown"), "ContainerStatusUnknown",
    ),
    "drained": (DRAINED.failed(143, at=START + 60), "EvictionByEvictionAPI"),
    "drained, exit 0, and a slow node clock": (
        DRAINED.succeeded(at=START + 10).last_delete(at=START + 55), "EvictionByEvictionAPI",
    ),
    "exit 0 at the node's shutdown": (failed_because("Terminated").disrupted("TerminationByKubelet"), "Terminated"),
    "evicted with exit 0": (failed_because("Evicted"), "Evicted"),
    "preempted, and the kubelet wrote Succeeded": (DONE.disrupted("PreemptionByScheduler"), "PreemptionByScheduler"),
}  # fmt: skip
#: pods that were deleted: disruptions under every policy
DELETIONS = {
    "deleted by a user": DELETED.failed(143, at=START + 60), "deleted before it had a node": POD.deleting(),
    "deleted with --force": RUNS.deleting(grace=0),
    "succeeded, then deleted before it was on record": RUNS.succeeded(at=START + 10).deleting(at=START + 50),
    "the kubelet's last DELETE moved the timestamp behind the end": DELETED.failed(1, at=START + 51).last_delete(at=START + 55),
    "deleted on a node whose clock is slow": DELETED.failed(143, at=START - 60).last_delete(at=START + 55),
    "code 0 on SIGTERM is no success": DELETED.succeeded(at=START + 60),
}  # fmt: skip
#: the pod, the type of its end under Never and under OnFailure, and the reason
VERDICTS: dict[str, tuple[Pod, EndType, EndType, str]] = {
    **{name: (pod, NO, EndType.DISRUPTED, reason) for name, (pod, reason) in DISRUPTIONS.items()},
    **{name: (pod, EndType.DISRUPTED, EndType.DISRUPTED, "Deleted") for name, pod in DELETIONS.items()},
    "exit 0 at the deadline of the pod itself": (failed_because("DeadlineExceeded"), NO, YES, "DeadlineExceeded"),
    "killed at the deadline of the pod itself": (
        failed_because("DeadlineExceeded", RUNS.failed(143)), NO, YES, "DeadlineExceeded",
    ),
    "the sidecar ended well": (RUNS.failed(1, at=START + 10).with_sidecar(0), NO, YES, "Error"),
    "only the sidecar failed": (
        DONE.with_sidecar(1)._with(status={"phase": "Failed"}), EndType.SUCCEEDED, EndType.SUCCEEDED, "Completed",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("pod", "never", "others", "reason"), VERDICTS.values(), ids=VERDICTS)
def test_an_end_is_judged_by_its_cause(pod: Pod, never: EndType, others: EndType, reason: str) -> None:
    assert end_type(pod, "Never") == never
    assert end_type(pod, "OnFailure") == others
    ending = ending_of(pod.view, TEST_JOB.container, RestartPolicy.NEVER)
    assert ending is not None
    assert ending.reason == reason


@pytest.mark.parametrize("pod", [
    pytest.param(POD, id="pending"), pytest.param(POD.running(), id="running"),
    pytest.param(POD.running().deleting(), id="terminating"), pytest.param(POD.crash_looping(3), id="crash looping"),
    pytest.param(POD.running().with_sidecar(1), id="the sidecar ended first"),
    pytest.param(POD.main_ended(0), id="the main container has succeeded, a sidecar runs"),
    pytest.param(POD.main_ended(1).deleting(), id="the main container has failed in a pod that is being deleted"),
    pytest.param(POD.main_ended(1)._with(spec={"restartPolicy": "OnFailure"}), id="the main container is started again"),
    pytest.param(
        POD.main_ended(1)._with(spec={"containers": [{"name": "test-container", "restartPolicy": "OnFailure"}]}),
        id="the main container has a restart policy of its own",
    ),
])  # fmt: skip
def test_pods_that_have_not_ended_have_no_end(pod: Pod) -> None:
    assert end_type(pod, "OnFailure") is None


@pytest.mark.parametrize(
    ("policy", "code", "outcome"),
    [("Never", 1, "Failed"), ("Never", 137, "Failed"), ("ExitCode", 1, "Failed"), ("ExitCode", 137, "replaced")],
)
def test_the_main_container_decides_though_a_sidecar_runs_on(policy: str, code: int, outcome: str) -> None:
    world = ClusterModel.of(TEST_JOB, {"Master": 1, "Worker": 1}, policy=policy).start()
    world.put(world.pods["demo-worker-0"].main_ended(code, at=world.now))
    recorded = world.step()
    assert not recorded.actions
    assert "MainContainerFailed" in {event.reason for event in recorded.events}
    world.settle()
    assert world.pods["demo-worker-0"].view.deletion_time is not None
    world.stop_terminating().settle()
    if outcome == "Failed":
        assert world.current == "Failed"
        return
    world.run().settle()
    assert (world.current, world.runs["demo-worker-0"], world.status["restarts"]) == ("Running", 2, 1)


@pytest.mark.parametrize(("pod", "failures"), [
    pytest.param(POD.running().with_init(0), 0, id="the init container is through"),
    pytest.param(POD.scheduled().with_init(1), 1, id="the init container has failed"),
    pytest.param(POD.scheduled().with_init(0, restarts=1, last=1), 1, id="it succeeded the second time"),
    pytest.param(POD.running().with_init(0, restarts=1, last=0), 0, id="it ran again in a new sandbox"),
    pytest.param(POD.running().with_init(None, restarts=3, last=1, policy="Always"), 0, id="a native sidecar restarts"),
    pytest.param(POD.running().with_init(None, restarts=3, last=0, policy="Always"), 0, id="a native sidecar ends well"),
    pytest.param(POD.running().with_init(1, policy="Always"), 0, id="a native sidecar is about to restart"),
    pytest.param(POD.restarted_after(1), 1, id="the main container was restarted"),
    pytest.param(POD.crash_looping(2), 3, id="the main container fails again and again"),
    pytest.param(POD.between_runs(1), 1, id="the main container is about to be restarted"),
    pytest.param(POD.between_runs(143).deleting(), 0, id="the main container was stopped by a deletion"),
])  # fmt: skip
@pytest.mark.parametrize("policy", ["Always", "OnFailure"])
def test_failed_runs_in_place(pod: Pod, failures: int, policy: str) -> None:
    assert failures_in_place(pod.view, RestartPolicy(policy)) == failures


@pytest.mark.parametrize(("policy", "failures"), [("OnFailure", 0), ("Always", 1)])
def test_a_restart_after_success_is_a_resize_unless_the_policy_asks_for_it(policy: str, failures: int) -> None:
    assert failures_in_place(POD.restarted_after(0).view, RestartPolicy(policy)) == failures


@pytest.mark.parametrize(("code", "reason", "expected"), [
    (137, "OOMKilled", "OOMKilled"), (137, "Error", "SIGKILL"), (143, "Error", "SIGTERM"), (139, "", "SIGSEGV"),
    (1, "Error", "Error"), (255, "Error", "Error"), (128, "StartError", "StartError"), (-5, "", "Error"),
])  # fmt: skip
def test_causes_are_decoded(code: int, reason: str, expected: str) -> None:
    state = POD.failed(code, reason=reason).view.containers[0].state
    assert state is not None
    assert decode(state) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
@pytest.mark.parametrize(("ends", "named"), [
    pytest.param(((1, 1), (3, 1)), "Worker-0: ValueError", id="the first"),
    pytest.param(((3, 1), (1, 1)), "Worker-1: ValueError", id="the first by time"),
    pytest.param(((1, 143), (1, 1)), "Worker-1: ValueError", id="not one that was asked to stop"),
])  # fmt: skip
def test_of_ends_in_one_pass_the_condition_names_the_first(
    policy: str, ends: tuple[tuple[float, int], ...], named: str
) -> None:
    manifest = job_manifest(TEST_JOB, {"Worker": 2}, policy=policy, run_policy={"backoffLimit": 0})
    job = read_job(TEST_JOB, manifest)
    made = [
        Pod.of(TEST_JOB, job, "Worker", n).running().failed(code, at=START + at, message="ValueError: no shard")
        for n, (at, code) in enumerate(ends)
    ]
    decided = plan(TEST_JOB, job, replace(observe(TEST_JOB, manifest), pods=tuple(pod.view for pod in made)), START + 99)
    assert f" has failed because {named}" in status_of(decided).conditions[-1].message


@pytest.mark.parametrize(("policy", "scope", "life"), [
    ("Never", "Pod", "failed 1"), ("ExitCode", "Pod", "failed 137"), ("OnFailure", "Job", "failed 1"),
    ("OnFailure", "Pod", "restarted_after 3"), ("OnFailure", "Pod", "crash_looping 3"),
])  # fmt: skip
def test_of_what_programs_printed_a_pass_reads_one_text(
    monkeypatch: pytest.MonkeyPatch, policy: str, scope: str, life: str
) -> None:
    read: list[str] = []
    monkeypatch.setattr(rendering, "error_in", lambda _reason, _code, message: read.append(message) or "")
    manifest = job_manifest(TEST_JOB, {"Worker": 20}, policy=policy, run_policy={"restartScope": scope})
    observed = observe(TEST_JOB, manifest, {f"Worker-{n}": f"running,{life}" for n in range(20)})
    assert plan(TEST_JOB, read_job(TEST_JOB, manifest), observed, START + 60).status is not None
    assert len(read) == 1


CACHE = "ValueError: No available memory for the cache blocks"
#: how a sidecar of a pod ended whose main container failed at START + 10, and whether that explains it
BEFORE: dict[str, tuple[Pod, bool]] = {
    "well before": (RUNS.failed(1, at=START + 10).with_sidecar(1, START + 5, CACHE), True),
    "within a second": (RUNS.failed(1, at=START + 10).with_sidecar(1, START + 10, CACHE), False),
    "after it": (RUNS.failed(1, at=START + 10).with_sidecar(1, START + 15, CACHE), False),
    "with exit code 0": (RUNS.failed(1, at=START + 10).with_sidecar(0, START + 5, CACHE), False),
    "long before": (RUNS.failed(1, at=START + 7210).with_sidecar(1, START + 5, CACHE), False),
    "it runs": (RUNS.failed(1, at=START + 10).with_sidecar(None), False),
}


def words(pod: PodView) -> str:
    ending = ending_of(pod, TEST_JOB.container, RestartPolicy.NEVER)
    assert ending is not None
    return described_end(Slot(Replica("Worker", 1), pod, Ended(ending), Life.OVER), read=True)


@pytest.mark.parametrize(("pod", "explains"), BEFORE.values(), ids=BEFORE)
def test_a_container_that_had_failed_before_the_main_one_is_named_first(pod: Pod, explains: bool) -> None:
    before = f"its container sidecar ended first: {CACHE}; exited with code 1 (Error); then " if explains else ""
    assert words(pod.view) == f"Worker-1: {before}exited with code 1 (Error) on node node-1"


TRACE = 'Traceback (most recent call last):\n  File "/app/train.py", line 3, in <module>\n    import tqdm\n'
TQDM = f"epoch 1\n{TRACE}ModuleNotFoundError: No module named 'tqdm'\n"


@pytest.mark.parametrize(("reason", "code", "message", "expected"), [
    ("Error", 1, TQDM, "ModuleNotFoundError: No module named 'tqdm' (train.py, line 3); exited with code 1 (Error)"),
    ("Error", 1, f"{TRACE}ValueError: no shard", "ValueError: no shard (train.py, line 3); exited with code 1 (Error)"),
    ("Error", 1, "", "exited with code 1 (Error)"),
    ("Error", 3, "start\nfatal: shard 7 has no index\nbye", "fatal: shard 7 has no index; exited with code 3 (Error)"),
    ("SIGKILL", 137, TQDM, "exited with code 137 (SIGKILL)"),
    ("SIGKILL", 137, "killed at step 7", "exited with code 137 (SIGKILL): killed at step 7"),
    ("OOMKilled", 137, TQDM, "exited with code 137 (OOMKilled)"),
    ("StartError", 128, "chdir /x: no such file", "exited with code 128 (StartError): chdir /x: no such file"),
    ("Error", 127, "sh: 1: trainn: not found", "exited with code 127 (Error): sh: 1: trainn: not found"),
    ("Evicted", None, "The node was low on memory.", "Evicted: The node was low on memory"),
])  # fmt: skip
def test_the_error_of_a_program_comes_first(reason: str, code: int | None, message: str, expected: str) -> None:
    end = Ending(EndType.PERMANENT, reason, code, message)
    how = f"exited with code {code} ({reason})" if code is not None else reason
    for init, node in (("", ""), ("get", "n")):
        where = " (init container get) on node n" if init else ""
        pod = msgspec.structs.replace(RUNS.view, node_name=node)
        slot = Slot(Replica("Worker", 1), pod, Ended(replace(end, init_container=init)), Life.OVER)
        assert described_end(slot, read=True) == f"Worker-1: {expected.replace(how, f'{how}{where}')}"
        assert described_end(slot, read=False) == f"Worker-1: {how}{where}", "nothing of what was printed"


@pytest.mark.parametrize(("printed", "kept"), [("x" * 3000, "x" * 2048), (f"{'y' * 1000}\n" * 3, f"{'y' * 1000}\n" * 2)])
def test_the_status_keeps_the_last_lines(printed: str, kept: str) -> None:
    end = Ending(EndType.PERMANENT, "Error", 1, printed)
    assert failure_of(Replica("Worker", 1), RUNS.view, end).message == kept.strip()
    of_init = failure_of(Replica("Worker", 1), RUNS.view, replace(end, init_container="get")).message
    assert of_init is not None
    assert of_init.endswith(" (init container get)")
    assert len(of_init) <= 2048
