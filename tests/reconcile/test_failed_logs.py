"""keepFailedLogs: which logs a plan keeps before the pods go that printed them."""

from dataclasses import replace
from typing import Any

import pytest

from jobcommon.api.status import MAX_FAILURES
from jobcommon.framework import Options
from jobcommon.reconcile import plan
from jobcommon.reconcile.failed_logs import MAX_EVENT_BYTES, MAX_LAST, MAX_LOG_BYTES, UNKEPT
from jobcommon.spec import read_job
from jobcommon.testutil.builders import START, Manifest, job_manifest, observe
from jobcommon.testutil.frameworks import TEST_JOB
from jobcommon.testutil.plans import NOW, decide, next_pass, status_of

RUNNING = {"Master-0": "running", "Worker-0": "running", "Worker-1": "running"}


def a_job(policy: str = "OnFailure", **run_policy: Any) -> Manifest:
    return job_manifest(TEST_JOB, {"Master": 1, "Worker": 2}, policy=policy, run_policy={"keepFailedLogs": True, **run_policy})


def kept(manifest: Manifest, *passes: dict[str, str]) -> list[tuple[str, str, str]]:
    """Key, container and run of the logs that the last pass keeps."""
    first, logs = manifest, ()
    for pods in passes:
        # The pods are those of the first attempt.
        decided = plan(TEST_JOB, read_job(TEST_JOB, manifest), observe(TEST_JOB, first, {**RUNNING, **pods}), NOW)
        manifest, logs = next_pass(manifest, decided), decided.logs
    return [(log.key, log.container, log.run) for log in logs]


FAILED, OTHER = {"Worker-0": "failed 137"}, {"Worker-1": "failed 1"}
RUN = "test://demo-worker-0/0"
LOG = ("0.demo-worker-0.log", TEST_JOB.container, RUN)
IN_PLACE: dict[str, Any] = {"restartScope": "Job", "restartMethod": "Auto", "keepFailedLogs": None}
AGAIN = {"Worker-0": "restarted_after 1"}
#: the job, its pods in passes that follow each other, and the logs that the last one keeps
CASES: dict[str, tuple[Manifest, list[dict[str, str]], list[tuple[str, str, str]]]] = {
    "off": (a_job(keepFailedLogs=False), [FAILED, FAILED], []),
    "not on record yet": (a_job(), [FAILED], []),
    "to be replaced": (a_job(), [FAILED, FAILED], [LOG]),
    "released before": (a_job(), [FAILED, {"Worker-0": "failed 137,without_finalizer"}], []),
    "another one later": (a_job(), [FAILED, OTHER, FAILED | OTHER], [LOG, ("1.demo-worker-1.log", TEST_JOB.container, "test://demo-worker-1/0")]),
    "a consequence": (a_job(restartScope="Job"), [FAILED | OTHER, FAILED | OTHER], [LOG]),
    "evicted": (a_job(), [{"Worker-0": "evicted"}] * 2, []),
    "evicted, with a code": (a_job(), [{"Worker-0": "failed 137,disrupted"}] * 2, []),
    "deleted": (a_job(), [{"Worker-0": "failed 1,last_delete"}] * 2, []),
    "succeeded": (a_job(), [{"Worker-0": "succeeded"}] * 2, []),
    "the job has failed": (a_job("Never"), [FAILED, FAILED], [LOG]),
    "the job has failed, finished pods stay": (a_job("Never", cleanPodPolicy="None"), [FAILED, FAILED], [LOG]),
    "beside a sidecar": (a_job("Never"), [{"Worker-0": "main_ended 3"}] * 2, [LOG]),
    "an init container": (
        a_job(backoffLimit=0), [{"Worker-0": "with_init 3"}] * 2, [("0.demo-worker-0.log", "prepare", RUN)],
    ),
    "in place, and the limit is reached": (
        a_job(backoffLimit=1), [{"Worker-0": "crash_looping 1"}] * 2, [(*LOG[:2], "test://demo-worker-0/1")],
    ),
    "a run of which the kubelet knows nothing": (
        a_job("OnFailure"), [{"Worker-0": "failed 137"}, {"Worker-0": "failed 137,without_id"}], [(*LOG[:2], "")],
    ),
    "in place, and runs again": (a_job(backoffLimit=0), [AGAIN] * 2, [LOG]),
    "in place, and the job succeeds": (a_job(cleanPodPolicy="All"), [AGAIN, *[{"Master-0": "succeeded", **AGAIN}] * 2], [LOG]),
    "restarted by the kubelet": (a_job(), [AGAIN], [LOG]),
    "restarted by the kubelet, on record": (a_job(), [AGAIN] * 2, []),
    "restarted by the kubelet twice": (
        a_job(), [AGAIN, {"Worker-0": "crash_looping 1"}], [("1.demo-worker-0.log", TEST_JOB.container, "test://demo-worker-0/1")],
    ),
    "restarted by the kubelet, all begin again": (a_job(restartScope="Job"), [AGAIN], []),
    "unset": (a_job(keepFailedLogs=None), [FAILED, FAILED], []),
    "unset, in place, all begin again": (a_job(**IN_PLACE), [AGAIN] * 2, [LOG]),
    "unset, in place, the job has failed": (a_job("ExitCode", **IN_PLACE), [AGAIN] * 2, [LOG]),
    "in place, off": (a_job("ExitCode", **IN_PLACE | {"keepFailedLogs": False}), [AGAIN] * 2, []),
    "stopped when the job has succeeded": (
        a_job(), [{"Master-0": "succeeded"}, {"Master-0": "succeeded", "Worker-0": "failed 143,last_delete"}], [],
    ),
    "stopped on purpose": (a_job(suspend=True), [{"Worker-0": "running,deleting"}, {"Worker-0": "failed 143,last_delete"}], []),
}  # fmt: skip


#: the second attempt, in place: its pods, and the logs that are kept when they go
SECOND = {
    "it runs": ("Worker-0", "running,in_attempt 1 1,restarted_after 143 1", []),
    "it has failed": ("Worker-0", "running,in_attempt 1 1,restarted_after 143 1,between_runs 1", ["test://demo-worker-0/1"]),
    "it has failed and runs again": ("Worker-0", "running,in_attempt 1 1,restarted_after 1 2", ["test://demo-worker-0/1"]),
    "it was stopped by its image": ("Worker-0", "running,in_attempt 1 1,stopped_by_image", []),
}


@pytest.mark.parametrize(("slot", "state", "runs"), SECOND.values(), ids=SECOND)
def test_what_we_stopped_for_a_restart_in_place_is_not_kept_again(slot: str, state: str, runs: list[str]) -> None:
    """Its log is kept with the order to stop. The run before may be one that had not failed."""
    manifest = a_job("ExitCode", **IN_PLACE)
    failures = [{"replica": "Worker-1", "pod": "demo-worker-1", "reason": "Error", "exitCode": 1}]
    conditions = [{"type": "Failed", "status": "True"}]
    manifest["status"] = {"conditions": conditions, "replicaStatuses": {}, "failures": failures, "attempt": 1}
    logs = decide(TEST_JOB, manifest, {**dict.fromkeys(RUNNING, "running,in_attempt 1 1"), slot: state}).logs
    assert [(log.key, log.run) for log in logs] == [("last.demo-worker-0.log", run) for run in runs]


@pytest.mark.parametrize(("manifest", "passes", "logs"), CASES.values(), ids=CASES)
def test_logs_of_charged_failures_are_kept(
    manifest: Manifest, passes: list[dict[str, str]], logs: list[tuple[str, str, str]]
) -> None:
    assert kept(manifest, *passes) == logs


def test_without_the_finalizer_the_log_is_kept_before_the_deletion() -> None:
    manifest = next_pass(a_job(), decide(TEST_JOB, a_job(), {**RUNNING, **FAILED}))
    observed = observe(TEST_JOB, manifest, {**RUNNING, "Worker-0": "failed 137,without_finalizer"})
    framework = replace(TEST_JOB, options=Options(tracking_finalizer=False))
    assert len(plan(framework, read_job(framework, manifest), observed, NOW).logs) == 1


def test_the_logs_of_a_job_fit_into_a_config_map() -> None:
    """Ten of the failures on record, and some of those that came after."""
    count = 30
    manifest = job_manifest(TEST_JOB, {"Worker": count}, policy="Never", run_policy={"keepFailedLogs": True})
    pods = {f"Worker-{index}": f"failed 1 {START + index:.0f}" for index in range(count)}
    recorded = next_pass(manifest, decide(TEST_JOB, manifest, pods))
    logs = decide(TEST_JOB, recorded, pods).logs
    assert [log.key for log in logs[:2]] == ["0.demo-worker-0.log", "1.demo-worker-1.log"]
    assert {log.pod for log in logs} == {f"demo-worker-{index}" for index in range(MAX_FAILURES + MAX_LAST)}
    assert sum(MAX_LOG_BYTES + MAX_EVENT_BYTES for _ in logs) + MAX_EVENT_BYTES < 1024 * 1024


WHY = f"{UNKEPT}: 403 Forbidden"


@pytest.mark.parametrize("pods", [{}, FAILED], ids=["runs", "is restarting"])
def test_a_missing_right_is_written_once(pods: dict[str, str]) -> None:
    manifest = a_job()
    for _ in range(3):
        manifest = next_pass(manifest, decide(TEST_JOB, manifest, {**RUNNING, **pods}))
    observed = observe(TEST_JOB, manifest, {**RUNNING, **pods}, unkept=WHY)
    told = plan(TEST_JOB, read_job(TEST_JOB, manifest), observed, NOW)
    assert status_of(told).conditions[-1].message.removesuffix(".").endswith(f"; {WHY}")
    after = next_pass(manifest, told)
    assert plan(TEST_JOB, read_job(TEST_JOB, after), observed, NOW + 60).status is None
    granted = status_of(plan(TEST_JOB, read_job(TEST_JOB, after), replace(observed, unkept=""), NOW + 60))
    assert UNKEPT not in granted.conditions[-1].message
