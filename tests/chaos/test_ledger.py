"""The oracle of the chaos trials: what it finds, and what it lets pass."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from jobcommon.testutil.builders import condition
from jobcommon.testutil.chaos.jobs import RETRYABLE, ChaosJob, Script, make_jobs
from jobcommon.testutil.chaos.ledger import Evidence, RunOf, job_faults, read_ledger, repeated_pods, surplus_runs

JOBS = {(job.framework.kind, job.script): job for job in make_jobs(24, Path("ledger"), "mark", Random(1), longest=1.0)}


def job_of(kind: str, script: Script) -> ChaosJob:
    return JOBS[kind, script]


def run(pod: str = "c0-worker-0", uid: str = "a", at: float = 10.0, end: float | None = 12.0, code: int | None = 0) -> RunOf:
    return RunOf(pod, uid, at, end, None if end is None else code)


def test_a_ledger_is_read(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    assert read_ledger(path) == []
    path.write_text("start p a 1.5\nstart q b 2.0\nend p a 3.0 137\nstart p c 4.0\n")
    assert read_ledger(path) == [run("p", "a", 1.5, 3.0, 137), run("q", "b", 2.0, None), run("p", "c", 4.0, None)]
    path.write_text("start p\n")
    with pytest.raises(ValueError, match="what is"):
        read_ledger(path)


@pytest.mark.parametrize(
    ("runs", "kills", "succeeded", "found"),
    [
        pytest.param([run()], [], {}, "", id="once"),
        pytest.param([run(code=137), run(uid="b", at=13)], [], {}, "", id="a retry"),
        pytest.param([run(), run(uid="b", at=13)], [], {}, "ran again after it had succeeded", id="a second run"),
        pytest.param([run(), run(uid="b", at=13)], [12.5], {}, "", id="an unobserved success"),
        pytest.param([run(), run(uid="b", at=14)], [13.5], {"a": 13.0}, "its success was on record", id="a success on record"),
        pytest.param([run(end=None), run(uid="b", at=14)], [13.0], {}, "", id="cut short with the cluster"),
        pytest.param([run(end=None), run(uid="b", at=14)], [9.0], {}, "its run had not ended", id="two at once"),
    ],
)
def test_surplus_runs(runs: list[RunOf], kills: list[float], succeeded: dict[str, float], found: str) -> None:
    said = list(surplus_runs(runs, Evidence(cluster_kills=kills, succeeded=succeeded)))
    assert bool(said) == bool(found)
    assert all(found in line for line in said)


def test_a_pod_may_start_again_only_in_place_and_as_often_as_it_was_counted() -> None:
    in_place, other = job_of("TFJob", Script.IN_PLACE), job_of("TFJob", Script.SUCCEEDS)
    twice = [run(in_place.pods[0], "x", code=137), run(in_place.pods[0], "x", 13)]
    assert list(repeated_pods([in_place], twice, Evidence(restarts={"x": 1}))) == []
    assert len(list(repeated_pods([in_place], twice, Evidence()))) == 1
    twice = [run(other.pods[0], "x", code=137), run(other.pods[0], "x", 13)]
    assert len(list(repeated_pods([other], twice, Evidence(restarts={"x": 1})))) == 1


def ended(kind: str, reason: str = "", message: str = "", **more: Any) -> dict[str, Any]:
    return {"conditions": [condition(kind, reason=reason, message=message)], "completionTime": "2026-01-01T00:00:00Z", **more}


def fails(pod: str, times: int) -> list[RunOf]:
    return [run(pod, f"u{n}", 10.0 * n, 10.0 * n + 1, RETRYABLE) for n in range(times)]


OK, EXHAUSTS, NEVER = Script.SUCCEEDS, Script.EXHAUSTS, Script.NEVER


@pytest.mark.parametrize(
    ("script", "status", "runs", "kills", "found"),
    [
        (OK, None, 1, [], "has not come to an end"),
        (OK, {"conditions": [condition("Running")]}, 1, [], "has not come to an end"),
        (OK, ended("Succeeded"), 1, [], ""),
        (OK, ended("Failed", message="why"), 1, [], "should have succeeded, but is Failed: why"),
        (OK, ended("Succeeded"), 2, [], "has 1 runs more than replicas"),
        (OK, ended("Succeeded", restarts=1), 2, [], ""),
        (OK, {"conditions": [condition("Succeeded")]}, 1, [], "has no completionTime"),
        (EXHAUSTS, ended("Failed", "BackoffLimitExceeded", restarts=2), 3, [], ""),
        (EXHAUSTS, ended("Failed", "BackoffLimitExceeded", restarts=2), 4, [], "ran 4 times with backoffLimit 2"),
        (EXHAUSTS, ended("Failed", "BackoffLimitExceeded", restarts=2), 2, [], "ran 2 times with backoffLimit 2"),
        (EXHAUSTS, ended("Failed", "BackoffLimitExceeded", restarts=2, disruptions=1), 4, [1.0], ""),
        (EXHAUSTS, ended("Failed", "TFJobFailed"), 3, [], "should have used up its backoffLimit"),
        (Script.FAILS, ended("Succeeded"), 1, [], "should have failed"),
        (NEVER, ended("Succeeded"), 1, [], ""),
        (NEVER, ended("Succeeded", disruptions=1), 2, [1.0], "ran a replica twice"),
        (NEVER, ended("Failed", message="Worker-0: ContainerStatusUnknown"), 1, [1.0], ""),
        (NEVER, ended("Failed", message="Worker-0: ContainerStatusUnknown"), 1, [], "should have succeeded or lost a run"),
    ],
)
def test_the_end_of_a_job(script: Script, status: Any, runs: int, kills: list[float], found: str) -> None:
    job = job_of("MXJob", script)
    said = list(job_faults(job, fails(job.pods[0], runs), Evidence(cluster_kills=kills, statuses={job.name: status})))
    assert bool(said) == bool(found), said
    assert all(found in line for line in said)


def test_an_end_that_changes_is_found() -> None:
    job = job_of("MXJob", OK)
    evidence = Evidence(statuses={job.name: ended("Succeeded")}, finals={job.name: ("Failed", "x")})
    assert "was ('Failed', 'x') and then" in next(job_faults(job, [], evidence))
