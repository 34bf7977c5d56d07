"""What the conditions and events of a job say of pods that wait or are restarted in place."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobcommon.api.observed import Observed
from jobcommon.api.timestamp import format_time
from jobcommon.reconcile import Plan, plan
from jobcommon.reconcile.waiting import REPORT_AFTER
from jobcommon.spec import read_job
from jobcommon.testutil.builders import START, Manifest, Pod, condition, job_manifest, services_of
from jobcommon.testutil.frameworks import TEST_JOB
from jobcommon.testutil.plans import status_of

GOLDEN = Path(__file__).parent.parent / "golden/waiting.yaml"
CREATED = "TestJob demo is created"
RUNNING = "TestJob default/demo is running"
NOT_FOUND = 'exec: "trainn.sh": executable file not found in $PATH'
BACK_OFF = "back-off 10s restarting failed container=test-container pod=demo-worker-0_default(uid)"


def job_of(workers: int = 1, policy: str = "OnFailure", status: Any = None, **run_policy: Any) -> Manifest:
    return job_manifest(TEST_JOB, {"Worker": workers}, policy=policy, run_policy=run_policy, status=status)


def pods_of(manifest: Manifest, *states: str) -> list[Pod]:
    job = read_job(TEST_JOB, manifest)
    return [getattr(Pod.of(TEST_JOB, job, "Worker", index), state)() for index, state in enumerate(states)]


def decide(manifest: Manifest, *pods: Pod, now: float = START) -> Plan:
    job = read_job(TEST_JOB, manifest)
    return plan(TEST_JOB, job, Observed(tuple(p.view for p in pods), services_of(TEST_JOB, job)), now)


def message(decided: Plan) -> str:
    return status_of(decided).conditions[-1].message


def pod(index: int = 0, **more: Any) -> Pod:
    return Pod.of(TEST_JOB, read_job(TEST_JOB, job_of()), "Worker", index, **more)


def looping(restarts: int, run: Manifest, state: Manifest | None = None) -> Pod:
    """A pod whose main container has ended as `run` and waits for its next start, or is in `state`."""
    container = {
        "name": "test-container",
        "restartCount": restarts,
        "state": state or {"waiting": {"reason": "CrashLoopBackOff", "message": BACK_OFF}},
        "lastState": {"terminated": run},
    }
    return pod().running()._with(status={"containerStatuses": [container]})


#: pods that wait, and after how many seconds the condition says so; tests/golden/waiting.yaml has what it says
WAITING: dict[str, tuple[Pod, float]] = {
    "image": (pod().waiting("ErrImagePull", 'failed to pull "x": not found'), 0),
    "image, backing off": (pod().waiting("ImagePullBackOff", 'Back-off pulling image "x": ErrImagePull: not found'), 0),
    "image, by an older kubelet": (pod().waiting("ImagePullBackOff", 'Back-off pulling image "x"'), 0),
    "Secret in env": (pod().waiting("CreateContainerConfigError", 'secret "missing" not found'), 0),
    "node selector": (pod().unschedulable("0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."), 0),
    "foreign scheduler": (pod(), REPORT_AFTER),
    "volume": (pod().scheduled(), REPORT_AFTER),
    "volume, a clock is ahead": (pod().scheduled()._with(status={"startTime": format_time(START + 9000)}), REPORT_AFTER),
    "slow image": (pod().scheduled()._condition("PodReadyToStartContainers", "True"), REPORT_AFTER),
    "lost node": (pod().running().deleting(at=START - 30), REPORT_AFTER),
}  # fmt: skip


def test_the_condition_says_why_a_pod_waits_while_it_waits() -> None:
    told = {}
    for name, (state, after) in WAITING.items():
        manifest = job_of()
        manifest["spec"][TEST_JOB.replica_specs]["Worker"]["template"]["spec"]["schedulerName"] = "other"
        if after:
            early = decide(manifest, state, now=START + after - 1)
            assert (message(early), early.wake_at) == (f"{CREATED}.", START + after), "it comes back by itself to say so"
        late = decide(manifest, state, now=START + after)
        told[name] = message(late)
        manifest["status"] = status_of(late).to_json()
        assert decide(manifest, state, now=START + 3600).status is None, "nothing is written while it stays so"
        running = decide(manifest, pod().running(), now=START + 3600)
        assert [c.message for c in status_of(running).conditions] == [f"{CREATED}.", f"{RUNNING}."]
    text = yaml.safe_dump(told, sort_keys=False, width=200)
    if os.environ.get("GOLDEN") == "write":
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text(), "if this is meant: make golden"


def test_the_same_cause_of_many_pods_is_told_once() -> None:
    manifest = job_of(workers=60)
    decided = decide(manifest, *pods_of(manifest, *["running"] * 10, *["unschedulable"] * 50))
    assert message(decided) == (
        f"{RUNNING}; waiting: Worker-10, Worker-11, Worker-12 and 47 more: Unschedulable: 0/3 nodes are available."
    )
    assert len(decided.events) == 10


#: The condition that holds, whatever it says; and how it begins and ends.
HOLDS = {
    "Running": (condition("Running", message=f"{RUNNING}."), RUNNING, "."),
    "Restarting": (condition("Restarting", message="again"), "TestJob demo is restarting", ""),
}


@pytest.mark.parametrize(("held", "begins", "ends"), HOLDS.values(), ids=HOLDS)
def test_a_condition_that_holds_on_says_it_too(held: Manifest, begins: str, ends: str) -> None:
    """A replacement that cannot be started leaves the job Restarting, or Running when a user had deleted the pod."""
    manifest = job_of(status={"conditions": [condition("Created"), held]})
    waiting = decide(manifest, pod().unschedulable("no node"))
    assert message(waiting) == f"{begins}; waiting: Worker-0: Unschedulable: no node{ends}"
    manifest["status"] = status_of(waiting).to_json()
    assert decide(manifest, pod().unschedulable("no node"), now=START + 9).status is None
    over = decide(manifest, pod(at=START + 9).scheduled(), now=START + 9)
    assert message(over) == f"{begins}{ends}"


START_ERROR = {"exitCode": 128, "reason": "StartError", "message": NOT_FOUND}


@pytest.mark.parametrize("state", [None, {"running": {}}, {"terminated": START_ERROR}], ids=["backs off", "runs", "has failed"])
def test_restarts_in_place_are_counted_and_told_with_their_cause(state: Manifest | None) -> None:
    decided = decide(job_of(), looping(3, START_ERROR, state))
    assert message(decided) == f"{RUNNING}; Worker-0 restarted 3 times, last: exited with code 128 (StartError): {NOT_FOUND}."
    assert status_of(decided).restarts == 3, "as kubectl get pods has it"


def test_the_event_of_a_crash_loop_says_how_the_run_ended() -> None:
    (event,) = decide(job_of(), looping(3, START_ERROR)).events
    assert event.reason == "CrashLoopBackOff"
    assert event.message == (
        "Pod demo-worker-0, container test-container: restarted with increasing back-off: exited with code 128 (StartError)"
    )
    assert decide(job_of(), looping(4, START_ERROR)).events == (event,), "said once, not at every restart"
    manifest = job_of(status={"attempt": 2}, restartScope="Job", restartMethod="Auto")
    ours = decide(manifest, pod().running().crash_looping(2, 143).in_attempt(2, 3))
    assert "CrashLoopBackOff" not in {event.reason for event in ours.events}, "we have ended the run before"


def test_a_passed_deadline_says_what_the_pods_waited_for() -> None:
    status = {"conditions": [condition("Created")], "startTime": "2023-11-14T22:13:20Z"}
    decided = decide(job_of(status=status, activeDeadlineSeconds=5), pod().unschedulable("no node"), now=START + 6)
    assert message(decided).endswith("than specified deadline (5 s); waiting: Worker-0: Unschedulable: no node")


def _no_nodes(nodes: int, cpu: int, cause: str = "Insufficient nvidia.com/gpu") -> str:
    free = ", ".join(f"{cpu} node(s) had untolerated taint {{team-{name}: 7}}" for name in range(9))
    return f"0/{nodes} nodes are available: {nodes - cpu} {cause}, {free}."


def test_new_numbers_of_the_scheduler_change_no_status() -> None:
    """A cluster in which other jobs come and go: each of its nodes counts, and the message is longer than is kept of it."""
    manifest = job_of(workers=2)
    first = decide(manifest, *pods_of(manifest, "running"), pod(index=1).unschedulable(_no_nodes(99, 3)))
    manifest["status"] = status_of(first).to_json()
    assert "99 nodes are available: 96 Insufficient" in message(first)
    for nodes in (100, 3001):
        assert decide(manifest, *pods_of(manifest, "running"), pod(index=1).unschedulable(_no_nodes(nodes, 17))).status is None
    other = decide(manifest, *pods_of(manifest, "running"), pod(index=1).unschedulable(_no_nodes(3001, 17, "Insufficient cpu")))
    assert "3001 nodes are available: 2984 Insufficient cpu" in message(other)
