"""restartScope Job: one failed replica restarts all, once."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from jobcommon.api import labels
from jobcommon.api.job import RestartPolicy
from jobcommon.api.observed import Observed
from jobcommon.api.replica import Replica
from jobcommon.api.status import MAX_ATTEMPT
from jobcommon.framework import Job
from jobcommon.manifests.children import ATTEMPT_VARIABLE
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.tf import TF
from jobcommon.reconcile import Plan, plan
from jobcommon.spec import read_job
from jobcommon.testutil.builders import START, Manifest, Pod, job_manifest, observe, pod_manifest
from jobcommon.testutil.frameworks import TEST_JOB
from jobcommon.testutil.plans import NOW, conditions, creates, decide, deletes, holding, next_pass, status_of

SPEC = {"Master": 1, "Worker": 2}
ALL = ["demo-master-0", "demo-worker-0", "demo-worker-1"]
RUNNING = {"Master-0": "running", "Worker-0": "running", "Worker-1": "running"}


def a_job(policy: str = "OnFailure", **run_policy: Any) -> Manifest:
    return job_manifest(TEST_JOB, SPEC, policy=policy, run_policy={"restartScope": "Job", **run_policy})


def job_of(manifest: Manifest) -> Job:
    return read_job(TEST_JOB, manifest)


def second_attempt(first: Manifest, failed: dict[str, str], later: dict[str, str], now: float = NOW) -> tuple[Manifest, Plan]:
    """The job once the new attempt is on record, and the plan when the pods of the first attempt are as in `later`."""
    recorded = next_pass(first, decide(TEST_JOB, first, {**RUNNING, **failed}))
    return recorded, plan(TEST_JOB, job_of(recorded), observe(TEST_JOB, first, later), now)


# -- what ends an attempt ------------------------------------------------------------------------------------------------------

#: policy, how the pods are, what is written: (attempt, restarts, disruptions), and the replicas among the failures
ENDS = {
    "killed": ("OnFailure", {"Worker-0": "failed 137"}, (1, 1, 0), ["Worker-0"]),
    "killed, with a retryable code": ("ExitCode", {"Worker-0": "failed 137"}, (1, 1, 0), ["Worker-0"]),
    "peers have failed as well": (
        "OnFailure",
        {"Worker-0": "failed 137 1700000010", "Worker-1": "failed 1 1700000012", "Master-0": "failed 1 1700000011"},
        (1, 1, 0), ["Worker-0"],
    ),
    "peers have failed with a permanent code": (
        "ExitCode", {"Worker-0": "failed 137 1700000010", "Worker-1": "failed 1 1700000012"}, (1, 1, 0), ["Worker-0"],
    ),
    "a peer of an evicted pod has failed": (
        "ExitCode", {"Worker-0": "evicted", "Worker-1": "failed 1"}, (1, 0, 1), ["Worker-0"],
    ),
    "deleted": ("OnFailure", {"Worker-0": "running,deleting,last_delete"}, (1, 0, 1), []),
    "a peer of a pod that is being deleted has failed": (
        "OnFailure", {"Worker-0": "running,deleting", "Worker-1": "failed 1"}, (1, 0, 1), [],
    ),
    "a peer of a pod that is being deleted has failed with a permanent code": (
        "ExitCode", {"Worker-0": "running,deleting", "Worker-1": "failed 1"}, (1, 0, 1), [],
    ),
    "a peer of a pod that is being deleted has failed, and nothing is restarted otherwise": (
        "Never", {"Worker-0": "running,deleting", "Worker-1": "failed 1"}, (1, 0, 1), [],
    ),
    "a peer of a pod that is being evicted has failed": (
        "ExitCode", {"Worker-0": "running,disrupted,deleting", "Worker-1": "failed 1"}, (1, 0, 1), ["Worker-0"],
    ),
    "a peer has succeeded": ("OnFailure", {"Worker-0": "failed 137", "Worker-1": "succeeded"}, (1, 1, 0), ["Worker-0"]),
}  # fmt: skip


@pytest.mark.parametrize(("policy", "pods", "counts", "causes"), ENDS.values(), ids=ENDS)
def test_the_first_failure_alone_is_charged(
    policy: str, pods: dict[str, str], counts: tuple[int, int, int], causes: list[str]
) -> None:
    decided = decide(TEST_JOB, a_job(policy), {**RUNNING, **pods})
    status = status_of(decided)
    assert (status.attempt, status.restarts or 0, status.disruptions or 0) == counts
    assert [failure.replica for failure in status.failures] == causes
    assert holding(decided)[-1] == "Restarting"
    assert "is restarting all replicas because Worker-0: " in conditions(decided)[-1]
    assert decided.actions == (), "the attempt is recorded before a pod of it is deleted"
    assert not any(s.succeeded or s.succeeded_indexes for s in status.replica_statuses.values()), "all run again"
    assert status.counted_pods == []


#: how two workers end under ExitCode, the second of them; the exit codes on record, and whether the job has failed
SEQUENCES: dict[str, tuple[str, str, list[int], bool]] = {
    "a permanent code, then a peer aborts": ("failed 1 1700000010", "failed 134 1700000013", [1], True),
    "killed, then a peer ends": ("failed 137 1700000010", "failed 1 1700000013", [137], False),
    "killed, then a peer aborts": ("failed 137 1700000010", "failed 134 1700000013", [137], False),
}


@pytest.mark.parametrize(("one", "peer", "codes", "fails"), SEQUENCES.values(), ids=SEQUENCES)
@pytest.mark.parametrize("looks", ["in between", "afterwards"])
@pytest.mark.parametrize("names", [("Worker-0", "Worker-1"), ("Worker-1", "Worker-0")])
def test_the_first_exit_decides_whenever_the_operator_looks(
    one: str, peer: str, codes: list[int], fails: bool, looks: str, names: tuple[str, str]
) -> None:
    manifest = a_job("ExitCode")
    if looks == "in between":
        manifest = next_pass(manifest, decide(TEST_JOB, manifest, {**RUNNING, names[0]: one}, START + 11))
    ended = {**RUNNING, names[0]: one, names[1]: peer}
    seen = observe(TEST_JOB, a_job("ExitCode"), ended)
    manifest = next_pass(manifest, plan(TEST_JOB, job_of(manifest), seen, START + 14))
    status = job_of(manifest).status
    assert ([failure.exit_code for failure in status.failures], status.finished) == (codes, fails)
    assert (status.attempt, status.restarts) == ((0, None) if fails else (1, 1))


def test_exits_within_one_second_are_both_on_record() -> None:
    """The kubelet's times have no more. The job is restarted, as after a kill that its peers have noticed."""
    ends = {**RUNNING, "Worker-0": "failed 1 1700000010", "Worker-1": "failed 134 1700000010"}
    status = status_of(decide(TEST_JOB, a_job("ExitCode"), ends))
    assert (status.attempt, [failure.exit_code for failure in status.failures]) == (1, [1, 134])


@pytest.mark.parametrize("replicas", [400, 600])
def test_the_first_failure_is_sought_among_all_that_have_ended(replicas: int) -> None:
    """One pass enters 500 ends."""
    manifest = job_manifest(TEST_JOB, {"Worker": replicas}, policy="ExitCode", run_policy={"restartScope": "Job"})
    job = read_job(TEST_JOB, manifest)
    pods = [Pod.of(TEST_JOB, job, "Worker", index).running() for index in range(replicas)]
    ended = [pod.failed(134, at=START + 13) for pod in pods[:-1]] + [pods[-1].failed(1, at=START + 10)]
    status = status_of(plan(TEST_JOB, job, Observed(pods=tuple(pod.view for pod in ended)), START + 14))
    assert [failure.replica for failure in status.failures] == [f"Worker-{replicas - 1}"]
    assert status.conditions[-1].type == "Failed"


# -- from one attempt to the next ----------------------------------------------------------------------------------------------


def test_running_pods_of_the_old_attempt_are_deleted_and_none_is_created_beside_them() -> None:
    _, decided = second_attempt(a_job(), {"Worker-0": "failed 137"}, {**RUNNING, "Worker-0": "failed 137"})
    assert deletes(decided) == ALL
    assert creates(decided) == []


#: how the pods of the old attempt are, and the pods that are created meanwhile
BARRIER = {
    "one still runs": ({"Worker-1": "running,deleting"}, []),
    "one runs on a node that is lost": ({"Master-0": "running,disrupted,deleting"}, []),
    "all have ended, one is not gone": ({"Worker-0": "failed 137"}, ["demo-master-0", "demo-worker-1"]),
    "all are gone": ({}, ALL),
}


@pytest.mark.parametrize(("pods", "created"), BARRIER.values(), ids=BARRIER)
def test_no_pod_is_created_while_a_program_of_the_old_attempt_runs(pods: dict[str, str], created: list[str]) -> None:
    recorded, decided = second_attempt(a_job(), {"Worker-0": "failed 137"}, pods)
    assert creates(decided) == created
    assert decided.status is None or decided.status.restarts == recorded["status"]["restarts"]


def test_attempts_that_fail_at_once_are_kept_apart() -> None:
    """As for single replicas: the first restart is immediate, the third waits for two seconds from the last start."""
    manifest = a_job()
    manifest["status"] = {"restarts": 3, "attempt": 3, "replicaStatuses": {"Worker": {"restarts": 3}}}
    pods = {"Worker-0": "running 1700000060,failed 137 1700000061"}
    running = {"Master-0": "running 1700000060", "Worker-1": "running 1700000060"}
    recorded = next_pass(manifest, decide(TEST_JOB, manifest, {**running, **pods}, START + 61))
    old = observe(TEST_JOB, manifest, {**running, **pods})
    early = plan(TEST_JOB, job_of(recorded), old, START + 61)
    assert deletes(early) == ["demo-master-0", "demo-worker-1"], "programs that run are stopped at once"
    ended = observe(TEST_JOB, manifest, pods)
    assert plan(TEST_JOB, job_of(recorded), ended, START + 61).wake_at == START + 64
    assert creates(plan(TEST_JOB, job_of(recorded), ended, START + 61)) == []
    assert deletes(plan(TEST_JOB, job_of(recorded), ended, START + 64)) == ["demo-worker-0"]


#: the number in the status, that in the annotation of the master, and the attempt that a failure begins; 0: the job fails
NUMBERS = [
    (0, "999999999", 1), (999_999_999, "0", 1), (2**70, "0", 1), (0, "9" * 5000, 1), (-7, "-7", 1),
    (0, str(MAX_ATTEMPT), 1), (MAX_ATTEMPT - 1, "0", MAX_ATTEMPT), (MAX_ATTEMPT, "0", 0), (0, "1", 2), (1, "1", 2), (1, "2", 3),
]  # fmt: skip


@pytest.mark.parametrize(("recorded", "annotated", "begins"), NUMBERS, ids=range(len(NUMBERS)))
def test_whatever_number_is_forged_the_pods_of_a_new_attempt_stay(recorded: int, annotated: str, begins: int) -> None:
    manifest = a_job()
    manifest["status"] = {"attempt": recorded}
    observed = observe(TEST_JOB, manifest, {**RUNNING, "Worker-0": "failed 137"})
    master, *workers = observed.pods
    forged = replace(observed, pods=(msgspec.structs.replace(master, annotations={labels.ATTEMPT: annotated}), *workers))
    decided = plan(TEST_JOB, job_of(manifest), forged, NOW)
    assert holding(decided)[-1] == ("Restarting" if begins else "Failed")
    if not begins:
        assert conditions(decided)[-1].endswith(f"has failed because attempt {MAX_ATTEMPT} is the last")
        return
    assert status_of(decided).attempt == begins
    manifest = next_pass(manifest, decided)
    assert deletes(plan(TEST_JOB, job_of(manifest), forged, NOW)) == ALL
    assert deletes(decide(TEST_JOB, manifest, RUNNING)) == []


def test_a_resume_waits_for_the_pods_of_before() -> None:
    suspended = a_job(suspend=True)
    suspended = next_pass(suspended, decide(TEST_JOB, suspended, RUNNING))
    resumed = {**suspended, "spec": {**suspended["spec"], "runPolicy": {"restartScope": "Job"}}}
    going = {"Worker-0": "running,deleting"}
    recorded = next_pass(resumed, decide(TEST_JOB, resumed, going))
    assert recorded["status"]["attempt"] == 1
    waits = plan(TEST_JOB, job_of(recorded), observe(TEST_JOB, suspended, going), NOW)
    assert creates(waits) == []
    assert status_of(waits).conditions[-1].message.endswith("; it waits for the pods of its last attempt to end.")
    assert creates(plan(TEST_JOB, job_of(recorded), observe(TEST_JOB, suspended), NOW)) == ALL


# -- the pods ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [p for p in RestartPolicy if p != RestartPolicy.NEVER])
def test_pods_carry_the_attempt_and_do_not_restart_by_themselves(policy: str) -> None:
    manifest = a_job(policy)
    manifest["status"] = {"attempt": 2}
    pod = pod_manifest(TEST_JOB, job_of(manifest), next(iter(job_of(manifest).replicas)))
    assert pod["spec"]["restartPolicy"] == "Never"
    assert pod["metadata"]["annotations"][labels.ATTEMPT] == "2"
    variable = {v["name"]: v for v in pod["spec"]["containers"][0]["env"]}[ATTEMPT_VARIABLE]
    assert variable["valueFrom"]["fieldRef"]["fieldPath"] == f"metadata.annotations['{labels.ATTEMPT}']"


# -- what each end means -------------------------------------------------------------------------------------------------------

PS_AND_WORKERS = {"PS": 1, "Worker": 2}
NEW_ATTEMPT, SUCCESS, FAILS = "Restarting 1 1", "Running 0 None 0", "Failed 0 None"
#: by restart policy, the restartPolicy of the pods under scope Pod, with Recreate and with Auto, and what follows under scope
#: Job when a parameter server ends with 0, 1 and 137: the condition, the attempt, the restarts, and the recorded successes
SERVERS: dict[str, tuple[tuple[str, str, str], tuple[str, str, str]]] = {
    "Always": (("Always", "Never", "OnFailure"), (NEW_ATTEMPT, NEW_ATTEMPT, NEW_ATTEMPT)),
    "OnFailure": (("OnFailure", "Never", "OnFailure"), (SUCCESS, NEW_ATTEMPT, NEW_ATTEMPT)),
    "ExitCode": (("Never", "Never", "OnFailure"), (SUCCESS, FAILS, NEW_ATTEMPT)),
    "Never": (("Never", "Never", "Never"), (SUCCESS, FAILS, FAILS)),
}
METHODS: list[Manifest] = [{}, {"restartScope": "Job"}, {"restartScope": "Job", "restartMethod": "Auto"}]


def ended(policy: str, run_policy: Manifest, replica: str, code: int) -> str:
    """What a job of TensorFlow shows once that replica has ended."""
    manifest = job_manifest(TF, PS_AND_WORKERS, policy=policy, run_policy=run_policy)
    pods = {"PS-0": "running", "Worker-0": "running", "Worker-1": "running"}
    pods[replica] += ",succeeded" if code == 0 else f",failed {code}"
    status = status_of(decide(TF, manifest, pods))
    done = status.replica_statuses[replica.partition("-")[0]].succeeded_indexes or ""
    return f"{status.conditions[-1].type} {status.attempt} {status.restarts} {done}".rstrip()


@pytest.mark.parametrize("policy", SERVERS)
@pytest.mark.parametrize("method", range(3), ids=["Pod", "Recreate", "Auto"])
def test_a_server_is_restarted_by_its_policy_whatever_the_scope(policy: str, method: int) -> None:
    of_pods, outcomes = SERVERS[policy]
    job = read_job(TF, job_manifest(TF, PS_AND_WORKERS, policy=policy, run_policy=METHODS[method]))
    assert pod_manifest(TF, job, Replica("PS", 0))["spec"]["restartPolicy"] == of_pods[method]
    if method:
        assert tuple(ended(policy, METHODS[method], "PS-0", code) for code in (0, 1, 137)) == outcomes


@pytest.mark.parametrize("method", METHODS[1:], ids=["Recreate", "Auto"])
def test_under_always_what_is_done_is_not_run_again(method: Manifest) -> None:
    """Neither the leader, nor a worker: it may be done before the leader's end is seen."""
    assert ended("Always", method, "Worker-0", 0).startswith("Succeeded 0 None")
    assert ended("Always", method, "Worker-1", 0) == "Running 0 None 1"
    manifest = job_manifest(MXNET, {"Scheduler": 1, "Server": 1, "Worker": 1}, policy="Always", run_policy=method)
    decided = decide(MXNET, manifest, {"Scheduler-0": "running,succeeded", "Server-0": "running", "Worker-0": "running"})
    assert holding(decided)[-1] == "Succeeded", "the scheduler decides, though it serves"
