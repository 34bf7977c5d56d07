"""What the status says: counts and conditions, and the order of conditions."""

from dataclasses import replace

import pytest

from jobcommon.api.observed import Observed
from jobcommon.api.status import MAX_MESSAGE, ConditionType, JobCondition, ReplicaStatus, read_status
from jobcommon.reconcile import plan
from jobcommon.reconcile.rendering import Conditions, Note, Sentence, Statement, normalized, set_condition
from jobcommon.spec import read_job
from jobcommon.testutil.builders import START, Pod, condition, job_manifest, observe
from jobcommon.testutil.frameworks import TEST_JOB
from jobcommon.testutil.plans import counts, decide, next_pass, pods_of, status_of


def test_replicas_are_counted() -> None:
    """2 failed, 3 succeeded, 1 running and 1 running but terminating: the last one is neither active nor failed."""
    pods = pods_of("Worker", ("running,succeeded", 3), ("running,failed 1", 2), ("running", 1), ("running,deleting", 1))
    manifest = job_manifest(TEST_JOB, {"Master": 1, "Worker": 8}, policy="OnFailure")
    decided = decide(TEST_JOB, manifest, pods | {"Worker-7": "scheduled", "Master-0": "running"})
    assert counts(decided, "Worker") == "1/3/2"
    assert status_of(decided).replica_statuses["Worker"].succeeded_indexes == "0-2"


@pytest.mark.parametrize(("policy", "backoff"), [("Never", None), ("OnFailure", 0)])
def test_the_end_of_a_job_names_the_pods_that_others_are_deleting(policy: str, backoff: int | None) -> None:
    """Their programs may have ended at once, and the one that failed lost its peers. The pods of a scale-down are ours."""
    manifest = job_manifest(TEST_JOB, {"Worker": 3}, policy=policy, run_policy={"backoffLimit": backoff})
    others = {"Worker-1": "running,disrupted,deleting", "Worker-2": "running,deleting", "Worker-3": "running,deleting"}
    observed, job = observe(TEST_JOB, manifest, others), read_job(TEST_JOB, manifest)
    failed = Pod.of(TEST_JOB, job, "Worker", 0).running().failed(1, message="x" * 2000).view
    decided = plan(TEST_JOB, job, replace(observed, pods=(failed, *observed.pods)), START)
    assert decided.status is not None
    condition = decided.status.conditions[-1]
    assert (condition.type, len(condition.message)) == ("Failed", 1024)
    ends = ("Worker-1: EvictionByEvictionAPI on node node-1", "Worker-2: Deleted on node node-1")
    last = "x" * 9 if policy == "Never" else "failed runs 1, restarts allowed 0"
    assert condition.message.endswith(f"{last}; still terminating: {', '.join(ends)}")


LOST, OWN = "ConnectionResetError: [Errno 104] Connection reset by peer", "ValueError: no shard"


@pytest.mark.parametrize(("at", "code", "of_peer", "is_cause"), [
    pytest.param(5, 143, LOST, True, id="stopped before"), pytest.param(5, 0, LOST, True, id="ended well when stopped"),
    pytest.param(5, 1, LOST, False, id="failed, perhaps before it was stopped"),
    pytest.param(15, 143, LOST, False, id="stopped afterwards"),
    pytest.param(5, 143, OWN, True, id="its peer has an error of its own"),
])  # fmt: skip
@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
def test_a_pod_that_others_deleted_before_its_peers_failed_is_the_cause(
    policy: str, at: int, code: int, of_peer: str, is_cause: bool
) -> None:
    """No operator was running then: all have ended when it comes."""
    job = read_job(TEST_JOB, job_manifest(TEST_JOB, {"Worker": 2}, policy=policy, run_policy={"backoffLimit": 0}))
    failed, deleted = (Pod.of(TEST_JOB, job, "Worker", index).running() for index in range(2))
    deleted = deleted.failed(code, START + at).last_delete(START + 60)
    pods = failed.failed(1, START + 10, message=of_peer).view, deleted.view
    status = status_of(plan(TEST_JOB, job, Observed(pods=pods), START + 90))
    assert [f.replica for f in status.failures] == (["Worker-1", "Worker-0"] if is_cause else ["Worker-0"])
    first = "Worker-1: Deleted on node node-1; " if is_cause else ""
    assert f" has failed because {first}Worker-0: {of_peer}; exited with code 1" in status.conditions[-1].message


def test_failed_runs_that_an_older_operator_has_counted_meanwhile_are_charged() -> None:
    assert [ReplicaStatus(**kept, restarts=2).charged for kept in ({}, {"failed_runs": 1}, {"failed_runs": 2})] == [2, 2, 2]


def test_foreign_fields_of_replica_statuses_are_kept() -> None:
    manifest = job_manifest(TEST_JOB, {"Worker": 1})
    manifest["status"] = {"replicaStatuses": {"Worker": {"warm": 3}, "Robot": {"oiled": True, "active": 1}}}
    decided = plan(TEST_JOB, read_job(TEST_JOB, manifest), Observed(), START)
    found = status_of(decided).to_json()["replicaStatuses"]
    assert found["Robot"] == {"oiled": True}
    assert found["Worker"]["warm"] == 3


#: by restart scope, what a worker shows in passes that follow each other, and the exit codes of the failures on record then
IN_PLACE: dict[str, tuple[str, list[str], list[int]]] = {
    "it waits for its restart": ("Pod", ["between_runs 3"], [3]),
    "it is restarted, and looked at again": ("Pod", ["restarted_after 3 1", "restarted_after 3 1"], [3]),
    "it is restarted again": ("Pod", ["restarted_after 3 1", "restarted_after 4 2"], [3, 4]),
    "it is restarted often": ("Pod", [f"restarted_after {code} {code}" for code in range(1, 15)], [*range(1, 11)]),
    "it fails for good after that": ("Pod", ["between_runs 3 1700000010", "failed 3 1700000010"], [3]),
    "it ends an attempt": ("Job", ["restarted_after 3 1"], [3]),
    "another container fails under Never": ("Pod", ["with_sidecar 3"], []),
}


@pytest.mark.parametrize(("scope", "shown", "codes"), IN_PLACE.values(), ids=IN_PLACE)
def test_runs_that_the_kubelet_restarts_are_on_record(scope: str, shown: list[str], codes: list[int]) -> None:
    policy = "Never" if "with_sidecar 3" in shown else "OnFailure"
    manifest = job_manifest(TEST_JOB, {"Master": 1, "Worker": 1}, policy=policy, run_policy={"restartScope": scope})
    for state in shown:
        manifest = next_pass(manifest, decide(TEST_JOB, manifest, {"Master-0": "running", "Worker-0": f"running,{state}"}))
    manifest = next_pass(manifest, decide(TEST_JOB, manifest, {"Master-0": "succeeded"}))
    status = read_job(TEST_JOB, manifest).status
    assert [failure.exit_code for failure in status.failures] == codes
    assert status.has(ConditionType.SUCCEEDED)


# -- conditions -----------------------------------------------------------------------------------------------------------


def shown(conditions: tuple[JobCondition, ...]) -> str:
    return " ".join(f"{c.type}={c.status[0]}" for c in conditions)


def after(*steps: str) -> tuple[JobCondition, ...]:
    conditions: tuple[JobCondition, ...] = ()
    for number, step in enumerate(steps):
        kind, _, status = step.partition("=")
        stated = Statement(ConditionType(kind), status != "F", f"{kind}Reason", Sentence(kind, end=""))
        conditions = set_condition(conditions, stated, START + number)
    return conditions


@pytest.mark.parametrize(("steps", "expected"), [
    pytest.param(["Created"], "Created=T", id="A1.1"),
    pytest.param(["Created", "Running"], "Created=T Running=T", id="A1.2"),
    pytest.param(["Created", "Running", "Restarting"], "Created=T Restarting=T", id="A1.3"),
    pytest.param(["Created", "Running", "Restarting", "Running"], "Created=T Running=T", id="A1.4"),
    pytest.param(["Created", "Running", "Restarting", "Running", "Failed"], "Created=T Running=F Failed=T", id="A1.5"),
    pytest.param(["Created", "Suspended"], "Created=T Suspended=T", id="created suspended"),
    pytest.param(["Created", "Running", "Suspended"], "Created=T Running=F Suspended=T", id="suspended"),
    pytest.param(["Created", "Suspended", "Suspended=F"], "Suspended=F Created=T", id="resumed, nothing runs"),
    pytest.param(["Created", "Suspended", "Suspended=F", "Running"], "Created=T Suspended=F Running=T", id="resumed"),
    pytest.param(
        ["Created", "Running", "Suspended", "Suspended=F", "Running", "Succeeded"],
        "Created=T Suspended=F Running=F Succeeded=T", id="resumed and done",
    ),
    pytest.param(["Created", "Restarting", "Suspended"], "Created=T Suspended=T", id="restarting ends with suspension"),
    pytest.param(["Created", "Restarting", "Succeeded"], "Created=T Running=F Succeeded=T", id="restarting ends with success"),
    pytest.param(["Created", "Restarting", "Failed"], "Created=T Running=F Failed=T", id="restarting ends with failure"),
    pytest.param(["Created", "Succeeded", "Failed"], "Created=T Running=F Succeeded=T", id="success is final"),
    pytest.param(["Created", "Failed", "Succeeded"], "Created=T Running=F Failed=T", id="failure is final"),
    pytest.param(["Created", "Failed", "Running"], "Created=T Running=F Failed=T", id="nothing runs after the end"),
    pytest.param(["Created", "Succeeded", "Suspended"], "Created=T Running=F Succeeded=T", id="the finished is not suspended"),
    pytest.param(["Created", "Suspended", "Failed"], "Created=T Suspended=F Running=F Failed=T", id="nor stays it suspended"),
])  # fmt: skip
def test_sequences(steps: list[str], expected: str) -> None:
    assert shown(after(*steps)) == expected


@pytest.mark.parametrize(
    ("end", "moved"), [("Succeeded", False), ("Failed", False), ("Suspended", True)], ids=["success", "failure", "suspension"]
)
def test_when_a_condition_stops_holding(end: str, moved: bool) -> None:
    """HyperPod's CLI shows the first condition with the latest transition: after the end that must not be Running."""
    (created, running), conditions = after("Created", "Running"), after("Created", "Running", end)
    before, stopped = running, next(c for c in conditions if c.type == "Running")
    assert (stopped.status, conditions[0]) == ("False", created)
    assert (stopped.last_transition_time != before.last_transition_time) == moved
    assert (stopped.last_update_time != before.last_update_time) == moved
    if not moved:
        assert max(conditions, key=lambda c: c.last_transition_time or "").type == end


def test_the_last_of_several_conditions_of_a_type_counts() -> None:
    status = read_status({"conditions": [condition("Failed", False), condition("Created"), condition("Failed", True)]})
    assert status.finished
    assert shown(normalized(status.conditions)) == "Created=T Failed=T"


def test_conditions_of_others_are_kept_and_never_the_current_one() -> None:
    theirs = [_of("Evaluated"), _of("QuotaReserved", False)]
    conditions: Conditions = (*theirs, _of("Created"))
    for kind in (ConditionType.RUNNING, ConditionType.SUSPENDED, ConditionType.SUCCEEDED):
        conditions = set_condition(conditions, Statement(kind, True, "r", Sentence("m")), 1.0)
        assert list(conditions[:2]) == theirs
        assert conditions[-1].type == kind


def _of(kind: str, holds: bool = True) -> JobCondition:
    return JobCondition(type=kind, status="True" if holds else "False")


FULL = "exceeded quota, used: pods=9, limited: 10"
LONG = ", ".join(f"{number}0 of team {number}" for number in range(99))


def it_waits(quoted: str, *others: tuple[str, str]) -> Sentence:
    for old, new in others:
        quoted = quoted.replace(old, new)
    return Sentence("It", waiting=[Note(quoted=quoted)])


#: A sentence, the next one, and whether it takes the place of the first.
NEXT = {
    "the same": (Sentence("It runs"), Sentence("It runs"), False),
    "other words": (Sentence("It runs"), Sentence("It waits"), True),
    "our number": (Sentence("It runs", remarks=[Note("2 pods")]), Sentence("It runs", remarks=[Note("3 pods")]), True),
    "a number of others": (it_waits(FULL), it_waits(FULL, ("9", "11")), False),
    "other words of others": (it_waits(FULL), it_waits(f"{FULL}, too"), True),
    "no quote any more": (it_waits(FULL), Sentence("It"), True),
    "a quote": (Sentence("It"), it_waits(FULL), True),
    "cut": (it_waits(LONG), it_waits(LONG, ("10", "1000")), False),
    "cut, with other words": (it_waits(LONG), it_waits(LONG, ("of", "in")), True),
}


@pytest.mark.parametrize(("first", "then", "written"), NEXT.values(), ids=NEXT)
def test_new_numbers_of_others_change_no_message(first: Sentence, then: Sentence, written: bool) -> None:
    before = set_condition((), Statement(ConditionType.RUNNING, True, "Running", first), START)
    assert len(before[0].message) <= MAX_MESSAGE
    after_it = set_condition(before, Statement(ConditionType.RUNNING, True, "Running", then), START + 9)
    assert (after_it != before) == written
