"""pendingDeadlineSeconds: replicas that no node takes."""

from dataclasses import replace
from typing import Any

import pytest

from jobcommon.api.timestamp import format_time
from jobcommon.reconcile import Plan, plan
from jobcommon.reconcile.plan import deletes_pod
from jobcommon.spec import read_job
from jobcommon.testutil.builders import START, Manifest, Pod, condition, job_manifest, observe
from jobcommon.testutil.frameworks import TEST_JOB
from jobcommon.testutil.plans import conditions, creates, decide, deletes, holding, next_pass, status_of

SLOTS = (("Master", 0), ("Worker", 0), ("Worker", 1))
LIMIT = {"pendingDeadlineSeconds": 120}
RESTART = {**LIMIT, "pendingDeadlineAction": "Restart", "restartScope": "Job"}
WAITING = {"Master-0": "running", "Worker-0": "unschedulable", "Worker-1": "unschedulable"}
TEXT = (
    f"Worker-0 and 1 more have had no node since {format_time(START)}: 0/3 nodes are available; pendingDeadlineSeconds is 120"
)


def a_job(**run_policy: Any) -> Manifest:
    return job_manifest(TEST_JOB, {"Master": 1, "Worker": 2}, policy="OnFailure", run_policy=run_policy)


def last(decision: Plan) -> str:
    return conditions(decision)[-1]


def test_the_job_fails_with_the_schedulers_words() -> None:
    early = decide(TEST_JOB, a_job(**LIMIT), WAITING, START + 119)
    assert "Failed" not in holding(early)
    assert early.wake_at == START + 120
    decided = decide(TEST_JOB, a_job(**LIMIT), WAITING, START + 120)
    assert last(decided) == f"Failed=T PendingTooLong: Job demo has failed because {TEXT}"
    assert not any(map(deletes_pod, decided.actions)), "the pods are the evidence"


def test_a_job_pending_too_long_lets_go_of_its_nodes_under_any_policy() -> None:
    manifest = a_job(cleanPodPolicy="None", **LIMIT)
    failed = next_pass(manifest, decide(TEST_JOB, manifest, WAITING, START + 120))
    decided = decide(TEST_JOB, failed, WAITING, START + 121)
    assert deletes(decided) == ["demo-worker-0", "demo-worker-1"]
    assert "update pods/demo-master-0" in map(str, decided.actions), "its kubelet ends it"


#: how the pods are, and the run policy
IN_TIME: dict[str, tuple[dict[str, str], Manifest]] = {
    "all have a node": ({"Master-0": "running", "Worker-0": "scheduled", "Worker-1": "running"}, LIMIT),
    "one is being deleted": ({**WAITING, "Worker-0": "unschedulable,deleting", "Worker-1": "running"}, LIMIT),
    "not set": (WAITING, {}),
    "the job is suspended": (WAITING, {**LIMIT, "suspend": True}),
    "the leader has succeeded": ({**WAITING, "Master-0": "succeeded"}, LIMIT),
}


@pytest.mark.parametrize(("pods", "run_policy"), IN_TIME.values(), ids=IN_TIME)
def test_jobs_within_the_limit_go_on(pods: dict[str, str], run_policy: Manifest) -> None:
    decided = decide(TEST_JOB, a_job(**run_policy), pods, START + 1000)
    assert decided.status is not None
    assert "PendingTooLong" not in last(decided)


@pytest.mark.parametrize("scope", ["Pod", "Job"])
@pytest.mark.parametrize("messages", [["0/8 nodes"], ["0/8 nodes", "8 Insufficient gpu", "8 had a taint"]], ids=len)
def test_the_limit_counts_from_the_creation_whatever_the_scheduler_says_meanwhile(messages: list[str], scope: str) -> None:
    manifest = a_job(restartScope=scope, **LIMIT)
    lost = {"Master-0": "running", "Worker-0": "running,evicted", "Worker-1": "running"}
    manifest = next_pass(manifest, decide(TEST_JOB, manifest, lost, START + 10))
    job = read_job(TEST_JOB, manifest)
    ends = []
    for turn, at in enumerate(range(20, 400, 20)):
        pods = [Pod.of(TEST_JOB, job, kind, index, uid=f"new-{kind}-{index}", at=START + 20) for kind, index in SLOTS]
        held = [pod.unschedulable(messages[turn % len(messages)]) if "worker" in pod.name else pod.running() for pod in pods]
        seen = replace(observe(TEST_JOB, manifest), pods=tuple(pod.view for pod in held))
        manifest = next_pass(manifest, plan(TEST_JOB, read_job(TEST_JOB, manifest), seen, START + at))
        ends += [at] if read_job(TEST_JOB, manifest).status.finished else []
    assert ends[:1] == [140]


def test_a_silent_scheduler_is_named() -> None:
    decided = decide(TEST_JOB, a_job(**LIMIT), {**WAITING, "Worker-0": "running", "Worker-1": "without_finalizer"}, START + 120)
    assert "no scheduler has processed the pod" in last(decided)


#: run policies in which Restart is an error: it counts as not set, and the default is Fail
NO_RESTART = [{"restartScope": "Pod"}, {"restartScope": None}, {"restartScope": "Sometimes"}, {"restartMethod": "Auto"}]


@pytest.mark.parametrize("changed", NO_RESTART, ids=str)
def test_an_invalid_restart_deletes_no_pod(changed: Manifest) -> None:
    manifest = a_job(**{**RESTART, **changed})
    manifest["status"] = {"conditions": [condition("Created"), condition("Running")], "startTime": format_time(START)}
    assert "spec.runPolicy.pendingDeadlineAction" in [error.path for error in read_job(TEST_JOB, manifest).errors]
    decided = decide(TEST_JOB, manifest, WAITING, START + 120)
    assert last(decided) == f"Failed=T PendingTooLong: Job demo has failed because {TEXT}"
    assert not status_of(decided).attempt
    assert not any(map(deletes_pod, decided.actions))


def test_restarts_that_free_nodes_are_none_in_vain() -> None:
    manifest = a_job(**RESTART, reportProgress=True, maxRestartsWithoutProgress=0)
    manifest["status"] = {
        "conditions": [condition("Created"), condition("Running")],
        "startTime": format_time(START),
        "progress": {"step": 5, "highestStep": 5, "lastProgressTime": format_time(START)},
    }
    decided = decide(TEST_JOB, manifest, WAITING, START + 120)
    assert status_of(decided).attempt == 1
    over = decide(TEST_JOB, next_pass(manifest, decided), WAITING, START + 240)
    assert status_of(over).attempt == 2, "nor is the next one"


def test_all_replicas_let_go_of_their_nodes_and_begin_again() -> None:
    manifest = a_job(backoffLimit=1, **RESTART)
    decided = decide(TEST_JOB, manifest, WAITING, START + 120)
    assert (status_of(decided).attempt, status_of(decided).restarts) == (1, 1), "charged once, like a failure"
    assert last(decided).endswith(f"demo is restarting all replicas because {TEXT}")
    assert decided.actions == (), "the attempt is recorded first"
    second = next_pass(manifest, decided)
    old = plan(TEST_JOB, read_job(TEST_JOB, second), observe(TEST_JOB, manifest, WAITING), START + 121)
    assert deletes(old) == ["demo-master-0", "demo-worker-0", "demo-worker-1"]
    assert creates(old) == []
    again = plan(TEST_JOB, read_job(TEST_JOB, second), observe(TEST_JOB, manifest), START + 122)
    assert creates(again) == ["demo-master-0", "demo-worker-0", "demo-worker-1"]
    by_a_clock_ahead = decide(TEST_JOB, second, WAITING, START + 239)
    assert holding(by_a_clock_ahead) == ["Created", "Restarting"], "old as the pods seem, the deadline begins anew"
    second["status"]["lastRestartTime"] = format_time(START + 9000)
    assert "Failed=T BackoffLimitExceeded" in last(decide(TEST_JOB, second, WAITING, START + 239)), "of a clock far ahead"
    second["status"]["lastRestartTime"] = format_time(START + 120)
    over = decide(TEST_JOB, second, WAITING, START + 240)
    assert "Failed=T BackoffLimitExceeded" in last(over), "backoffLimit bounds it"
