"""The diagnosis names the cause: a table of seeded failures, by exact reason."""

# ruff: noqa: E501  recorded texts, as they come

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobcommon.api.kueue import QUEUE_LABEL
from jobcommon.api.timestamp import format_time, parse_time
from jobcommon.cli.jobs.why import as_json
from jobcommon.diagnosis import Diagnosis, Found, Reason, diagnose
from jobcommon.diagnosis.next_steps import replacement
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.testutil.builders import START
from jobcommon.testutil.cluster_model import ClusterModel
from jobcommon.testutil.frameworks import SCALED_JOB
from tests.architecture.source import ROOT
from tests.diagnosis.scenarios import (
    ATTEMPTS,
    NOT_STOPPED,
    NOW,
    RESET,
    SCALED,
    SCENARIOS,
    STOPPED,
    TEXTS,
    Scenario,
    both_running,
    elastic,
    event,
    failed,
    found,
    running,
    stopping,
    then,
)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_the_cause_is_named(scenario: Scenario) -> None:
    made = diagnose(scenario.found, scenario.now)
    assert made.reason == scenario.reason, made
    for word in scenario.words:
        assert word in f"{made.sentence}: {made.advice}", made
    for word in scenario.also:
        assert word in "\n".join((made.advice, made.then, *made.evidence)), made
    assert made.well or made.advice or made.then, made
    assert made.reason != "Evicted" or not made.lines, "what the platform says is no line of the program"


def test_that_one_replica_of_several_prints_nothing_is_well() -> None:
    made = diagnose(both_running(printed_at={"demo-worker-0": NOW + 1190, "demo-worker-1": NOW}), NOW + 1200)
    assert (made.reason, made.advice, "nothing was printed" in made.sentence) == ("Running", "", False)


def test_the_lines_shown_end_with_the_one_that_tells_the_cause() -> None:
    said = [
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 12, in main',
        "    run()",
        "ValueError: batch 7",
    ]
    made = diagnose(failed(1, lines=[*said, *(f"removing {n}" for n in range(90))]), NOW)
    assert made.lines == (*said, "… 90 more lines")
    made = diagnose(failed(1, lines=[*said, *TEXTS["frames"], "bye"]), NOW)
    assert made.lines == (*said, "bye")


BEFORE = [{**SCALED[0], "lastTimestamp": format_time(START - 1)}]


@pytest.mark.parametrize("corrected", [{"run_policy": {"restartScope": "Job"}}, {"events": BEFORE}])
def test_that_a_job_was_scaled_in_vain_is_not_said_when_that_is_corrected(corrected: Any) -> None:
    """By its spec, or since all pods are newer."""
    assert not [text for text in diagnose(both_running(**{"events": SCALED, **corrected}), NOW).evidence if "Scaling" in text]


def test_pods_still_running_after_success_are_named() -> None:
    pods = {"Master-0": lambda pod: pod.succeeded(), "Worker-0": running, "Worker-1": lambda pod: pod.failed(1)}
    succeeded = found(pods, replicas={"Master": 1, "Worker": 2})
    ended = parse_time(succeeded.job["status"]["completionTime"])
    assert ended is not None
    made = diagnose(succeeded, ended + 10)
    assert (made.reason, made.at) == ("Succeeded", ended + 60)
    assert made.then == "replicas that are still running are stopped: Worker-0"
    how = "Worker-1 ended with an error, by itself or because it was stopped (failed with exit code 1)"
    assert f"{how}: the job has succeeded nevertheless" in made.evidence
    assert diagnose(succeeded, ended + 60).then == "nothing: the job has finished"


#: how the pods of an attempt are that is being stopped in place, what happens next, and until when
STOPS = {
    "one hangs": (NOT_STOPPED, STOPPED, "Worker-0 has stopped; a replica that has not stopped by then gets a new pod", START + 150),
    "both go": (NOT_STOPPED, NOT_STOPPED, "Worker-0, Worker-1 have stopped; a replica that has not", START + 150),
    "one is replaced": (STOPPED, f'in_attempt 0 0,deleting {NOW:.0f}', "attempt 1 begins when Worker-1 has stopped", None),
    "none": (STOPPED, STOPPED, "attempt 1 begins: all replicas have stopped", None),
}  # fmt: skip


@pytest.mark.parametrize(("first", "second", "said", "at"), STOPS.values(), ids=STOPS)
def test_a_restart_in_place_says_what_it_waits_for(first: str, second: str, said: str, at: float | None) -> None:
    """The kubelet's words about the image that stops a program are nowhere."""
    made = diagnose(stopping({"Worker-0": first, "Worker-1": second}), NOW)
    assert (made.reason, made.replicas, made.at) == ("SIGKILL", ("Worker-1",), at)
    assert said in made.then
    assert ":stopped:" not in str(made)


#: by what becomes of an elastic job of three workers: the reason, and what is said of it, of its evidence and of what follows
RESIZES = {
    "smaller": ("FewerReplicas", "is running with 2 of 3 workers since 2", "condition Running", "requested again for Worker-1"),
    "asks": ("FewerReplicas", "is running with 2 of 3 workers since 2", "Worker-1: cannot be scheduled", "it grows when nodes are free"),
    "bounded": ("Running", "3/3 Running", "the spec requests 9 workers: runPolicy.elastic.maxReplicas is 3", ""),
    "awaits": ("FewerReplicas", "is running with 3 of 4 workers", "condition Running", "it grows when a checkpoint after this one is reported: 7"),
    "resizing": ("Resizing", "begins attempt 1: it is resized from 3 to 2 workers", "condition Restarting", "attempt 1 begins when"),
    "lacks": ("Unschedulable", "Worker-1: cannot be scheduled", "condition Restarting", "an attempt begins without the pods that have no node by then"),
    "lacks too many": ("Unschedulable", "Worker-1: cannot be scheduled", "condition Restarting", "the scheduler retries"),
}  # fmt: skip


@pytest.mark.parametrize("case", RESIZES)
def test_the_size_of_an_elastic_job_is_told(case: str) -> None:
    reason, sentence, evidence, then = RESIZES[case]
    found, now = elastic(case)
    made = diagnose(found, now)
    assert made.reason == reason, made
    assert sentence in made.sentence
    assert any(evidence in fact for fact in made.evidence), made
    assert then in made.then
    assert "InvalidImageName" not in str(made)
    found.job["metadata"]["labels"] = {QUEUE_LABEL: "gpus"}
    queued = diagnose(Found(SCALED_JOB, found.job, found.pods), now)
    assert ("nodes and quota" in queued.then) is ("nodes are" in made.then and reason == "FewerReplicas")


def test_every_reason_is_explained() -> None:
    text = (ROOT / "docs/kubectl-train.md").read_text(encoding="utf-8")
    assert [reason for reason in Reason if f"`{reason}`" not in text] == []


def test_the_fields_of_the_diagnosis_as_data_are_those_that_are_documented() -> None:
    made = json.loads(as_json("pytorchjob/demo", diagnose(failed(1), NOW)))
    text = (ROOT / "docs/kubectl-train.md").read_text(encoding="utf-8")
    table = text.partition("## The diagnosis as data")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(made)
    assert (made["job"], made["reason"], made["well"], made["exit_code"]) == ("pytorchjob/demo", "ProgramFailed", False, 1)
    assert (made["replicas"], made["node"], made["at"]) == (["Worker-1"], "node-1", None)


@settings(max_examples=40)
@given(
    index=st.integers(0, len(SCENARIOS) - 1), junk=st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=3)
)
def test_no_object_makes_it_fail(index: int, junk: object) -> None:
    """Whatever is in a status, the diagnosis is made."""
    found = SCENARIOS[index].found
    pods = [{**pod, "status": junk} for pod in found.pods]
    made = diagnose(Found(found.framework, {**found.job, "status": junk}, pods, [{"involvedObject": junk}]), NOW)  # type: ignore[dict-item]
    assert made.reason


def test_a_pod_that_is_deleted_later_is_not_explained_by_a_failure_that_was_restarted() -> None:
    run_policy = {"restartScope": "Job", "backoffLimit": 9}
    model = ClusterModel.of(PYTORCH, {"Worker": 2}, policy="ExitCode", run_policy=run_policy)
    model.start().tick(5).exit("demo-worker-1", 137).settle()
    model.stop_terminating().tick(5).settle()
    model.start().tick(60).settle()
    model.delete_pod("demo-worker-0").settle()

    def made() -> Diagnosis:
        return diagnose(Found(PYTORCH, model.manifest, [pod.raw for pod in model.pods.values()]), model.now)

    assert (made().reason, made().sentence) == ("Starting", "its pods are being created: 1/2 Running")
    model.stop_terminating().tick(2).settle()
    assert (made().reason, made().replicas) == ("Deleted", ("Worker-0",))


def test_nothing_is_said_of_the_log_of_a_peer_that_is_stopped_for_a_restart() -> None:
    pods = {"Worker-0": lambda pod: pod.failed(1, at=NOW - 20), "Worker-1": running}
    lost = found(pods, policy="OnFailure", run_policy={"restartScope": "Job"}, logs={"demo-worker-0": RESET})
    started = event("uid-demo-worker-1", "Started", "Started container pytorch", warning=False)
    made = diagnose(then(lost, {"Worker-1": lambda pod: pod.running().deleting(at=NOW - 5)}, events=[started]), NOW)
    assert (made.state, made.reason, "Worker-1" in made.sentence) == ("Restarting", "PeersUnreachable", False)


def test_the_kubelet_restarts_what_failed_in_its_pod() -> None:
    made = next(one for one in SCENARIOS if one.name == ATTEMPTS[0][0]).found
    pods = {"Worker-0": running, "Worker-1": lambda pod: pod.restarted_after(1)}
    assert replacement(found(pods, policy="OnFailure"), NOW) == ("the kubelet restarts the container", None)
    assert replacement(made, NOW)[0].startswith("the operator replaces the pod")
