"""What the status says: counts and conditions (of a Master/Worker job), the success rule, and counts that last."""

from dataclasses import replace

import pytest

from jobcommon.api.observed import Observed
from jobcommon.api.status import ConditionType, JobStatus, ReplicaStatus
from jobcommon.reconcile import plan
from jobcommon.spec import read_job
from jobcommon.testutil.builders import START, Pod, job_manifest, observe, services_of
from jobcommon.testutil.frameworks import TEST_JOB
from jobcommon.testutil.plans import decide, next_pass, status_of


def decided_status(replicas: dict[str, int], pods: dict[str, str], policy: str = "Never") -> JobStatus:
    manifest = job_manifest(TEST_JOB, replicas, policy=policy)
    decided = plan(TEST_JOB, read_job(TEST_JOB, manifest), observe(TEST_JOB, manifest, pods), START)
    return status_of(decided)


def counts(status: JobStatus, kind: str) -> tuple[int, int, int]:
    found = status.replica_statuses[kind]
    return found.active or 0, found.succeeded or 0, found.failed or 0


def layout(kind: str, failed: int, succeeded: int, active: int, code: int = 1) -> dict[str, str]:
    """Pods as the reference's tests lay them out: succeeded first, then failed, then active."""
    states = ["running,succeeded"] * succeeded + [f"running,failed {code}"] * failed + ["running"] * active
    return {f"{kind}-{index}": state for index, state in enumerate(states)}


def test_replicas_are_counted() -> None:
    """2 failed, 3 succeeded, 1 running and 1 running but terminating: the last one is neither active nor failed."""
    pods = layout("Worker", 2, 3, 1) | {"Worker-6": "running,deleting", "Worker-7": "scheduled"}
    status = decided_status({"Master": 1, "Worker": 8}, pods | {"Master-0": "running"}, "OnFailure")
    assert counts(status, "Worker") == (1, 3, 2)
    assert status.replica_statuses["Worker"].succeeded_indexes == "0-2"


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


@pytest.mark.parametrize("scaled_to", [2, 1])
def test_a_scale_down_makes_no_success(scaled_to: int) -> None:
    manifest = job_manifest(TEST_JOB, {"Worker": 4})
    job = read_job(TEST_JOB, manifest)
    pods = [
        Pod.of(TEST_JOB, job, "Worker", index).running() if index < 2 else Pod.of(TEST_JOB, job, "Worker", index).succeeded()
        for index in range(4)
    ]
    manifest["status"] = decided_status({"Worker": 4}, layout("Worker", 0, 0, 4)).to_json()
    manifest["status"]["replicaStatuses"]["Worker"]["succeededIndexes"] = "2-3"
    manifest["spec"]["testReplicaSpecs"]["Worker"]["replicas"] = scaled_to
    job = read_job(TEST_JOB, manifest)
    observed = Observed(tuple(pod.view for pod in pods), services_of(TEST_JOB, job))
    decided = plan(TEST_JOB, job, observed, START)
    assert status_of(decided).conditions[-1].type == "Running"
    assert counts(status_of(decided), "Worker") == (scaled_to, 0, 0)
    manifest["status"] = status_of(decided).to_json()
    decided = plan(TEST_JOB, read_job(TEST_JOB, manifest), observed, START)
    deleted = [str(action) for action in decided.actions if str(action).startswith("delete")]
    assert deleted == [f"delete pods/demo-worker-{index} (scaled down)" for index in range(scaled_to, 4)]


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
