"""The kubelet's decision, as tables."""

from dataclasses import replace
from typing import Any

import pytest

from localcluster.kubelet.lifecycle import ContainerState, Run, Settings, Stop, decide
from localcluster.kubelet.status import pod_status
from localcluster.timestamps import format_time

SETTINGS = Settings(base=10, cap=300, reset=600)
NOW = 1_000_000.0
NEW = ContainerState()
UP = ContainerState(run=Run(0, NOW - 5), started=True, ready=True)
STARTING = ContainerState(starting=True)
RUN = Run(0, NOW - 5)
NEW_IMAGE = {"containers": [{"name": "c0", "image": "new"}]}
DELETED = {"deletionTimestamp": format_time(NOW), "deletionGracePeriodSeconds": 3}
BEGUN = {"startTime": format_time(NOW - 5), "phase": "Running"}
# Stopped by SIGTERM after it had been restarted twice in a row.
OF_OLD_IMAGE = ContainerState(run=replace(RUN, finished_at=NOW, exit_code=143, image="old"), streak=2)


def done(code: int = 0, attempt: int = 0, ago: float = 1, streak: int = 0) -> ContainerState:
    return ContainerState(
        run=Run(attempt, NOW - ago - 1, finished_at=NOW - ago, exit_code=code), streak=streak, started=code == 0
    )


def pod(policy: str = "Never", inits: int = 0, sidecars: int = 0, mains: int = 1, **changes: Any) -> dict[str, Any]:
    init_specs: list[dict[str, Any]] = [{"name": f"s{i}", "restartPolicy": "Always"} for i in range(sidecars)]
    init_specs += [{"name": f"i{i}"} for i in range(inits)]
    spec = {
        "restartPolicy": policy,
        "initContainers": init_specs,
        "containers": [{"name": f"c{i}"} for i in range(mains)],
        "terminationGracePeriodSeconds": 7,
        **changes.get("spec", {}),
    }
    metadata = {"name": "p", "namespace": "d", "uid": "u", **changes.get("metadata", {})}
    return {"metadata": metadata, "spec": spec, "status": changes.get("status", {})}


CASES: list[tuple[str, dict[str, Any], dict[str, ContainerState], dict[str, Any]]] = [
    ("a new pod starts", pod(), {"c0": NEW}, {"start": ["c0"], "phase": "Pending"}),
    ("all containers start at once", pod(mains=2), {"c0": NEW, "c1": NEW}, {"start": ["c0", "c1"], "phase": "Pending"}),
    ("one is being started", pod(), {"c0": STARTING}, {"start": [], "phase": "Pending"}),
    ("running", pod(), {"c0": UP}, {"start": [], "phase": "Running", "wake_at": None}),
    ("one of two not started yet", pod(mains=2), {"c0": UP, "c1": STARTING}, {"phase": "Pending"}),
    ("Never, success", pod(), {"c0": done()}, {"start": [], "phase": "Succeeded"}),
    ("Never, failure", pod(), {"c0": done(1)}, {"start": [], "phase": "Failed"}),
    ("Never, one failed, one runs", pod(mains=2), {"c0": done(1), "c1": UP}, {"start": [], "phase": "Running"}),
    ("Never, one failed, one done", pod(mains=2), {"c0": done(1), "c1": done()}, {"phase": "Failed"}),
    ("OnFailure, success", pod("OnFailure"), {"c0": done()}, {"start": [], "phase": "Succeeded"}),
    ("OnFailure, failure: at once", pod("OnFailure"), {"c0": done(1)}, {"start": ["c0"], "phase": "Running"}),
    ("Always, success: again", pod("Always"), {"c0": done()}, {"start": ["c0"], "phase": "Running"}),
    ("second restart waits", pod("OnFailure"), {"c0": done(1, 1, ago=4, streak=1)},
        {"start": [], "phase": "Running", "backing_off": {"c0": 10.0}, "wake_at": NOW + 6}),
    ("and is due", pod("OnFailure"), {"c0": done(1, 1, ago=10, streak=1)}, {"start": ["c0"], "backing_off": {}}),
    ("another image: stopped, whatever the policy", pod(spec=NEW_IMAGE), {"c0": replace(UP, run=replace(RUN, image="old"))},
        {"start": [], "stop": [Stop("c0", 7)], "redefined": ["c0"], "phase": "Running"}),
    ("another image: started once more, without the back-off of the old one", pod(spec=NEW_IMAGE),
        {"c0": replace(OF_OLD_IMAGE, redefined=True)}, {"start": ["c0"], "phase": "Running", "backing_off": {}}),
    ("another image that cannot be started: the policy decides, Never",
        pod(spec={"containers": [{"name": "c0", "image": "new:1:2"}]}),
        {"c0": replace(OF_OLD_IMAGE, waiting=("InvalidImageName", ""), retry_at=NOW + 99)}, {"start": [], "phase": "Failed"}),
    ("another image that cannot be started: the policy decides, OnFailure",
        pod("OnFailure", spec={"containers": [{"name": "c0", "image": "new:1:2"}]}),
        {"c0": replace(OF_OLD_IMAGE, waiting=("InvalidImageName", ""), retry_at=NOW + 99)}, {"start": [], "phase": "Running"}),
    ("another image after the end: nothing runs again", pod(spec=NEW_IMAGE),
        {"c0": replace(done(), run=replace(RUN, finished_at=NOW, image="old"))},
        {"start": [], "stop": [], "phase": "Succeeded"}),
    ("init first", pod(inits=2), {"i0": NEW, "i1": NEW, "c0": NEW},
        {"start": ["i0"], "phase": "Pending", "initialized": False}),
    ("then the next", pod(inits=2), {"i0": done(), "i1": NEW, "c0": NEW}, {"start": ["i1"]}),
    ("then the rest", pod(inits=1), {"i0": done(), "c0": NEW}, {"start": ["c0"], "initialized": True}),
    ("init runs", pod(inits=1), {"i0": UP, "c0": NEW}, {"start": [], "phase": "Pending"}),
    ("init fails, Never", pod(inits=1), {"i0": done(1), "c0": NEW}, {"start": [], "phase": "Failed"}),
    ("init fails, OnFailure", pod("OnFailure", inits=1), {"i0": done(1), "c0": NEW}, {"start": ["i0"], "phase": "Pending"}),
    ("init fails, Always", pod("Always", inits=1), {"i0": done(1), "c0": NEW}, {"start": ["i0"], "phase": "Pending"}),
    ("init is not run again for Always", pod("Always", inits=1), {"i0": done(), "c0": UP}, {"start": []}),
    ("a sidecar first", pod(sidecars=1), {"s0": NEW, "c0": NEW}, {"start": ["s0"], "initialized": False}),
    ("a sidecar not started holds", pod(sidecars=1), {"s0": replace(UP, started=False), "c0": NEW}, {"start": []}),
    ("a started sidecar lets go", pod(sidecars=1), {"s0": UP, "c0": NEW}, {"start": ["c0"]}),
    ("a sidecar is restarted under Never", pod(sidecars=1), {"s0": done(1), "c0": UP}, {"start": ["s0"], "phase": "Running"}),
    ("sidecars end after the rest", pod(sidecars=1), {"s0": UP, "c0": done()}, {"stop": [Stop("s0", 7)], "phase": "Running"}),
    ("the last sidecar first", pod(sidecars=2), {"s0": UP, "s1": UP, "c0": done(1)},
        {"stop": [Stop("s1", 7)], "start": [], "phase": "Running"}),
    ("a failed sidecar does not fail the pod", pod(sidecars=1), {"s0": done(137), "c0": done()},
        {"start": [], "phase": "Succeeded"}),
    ("deadline passed", pod(spec={"activeDeadlineSeconds": 5}, status=BEGUN), {"c0": UP},
        {"stop": [Stop("c0", 7)], "phase": "Running", "reason": "DeadlineExceeded"}),
    ("deadline passed and all ended", pod(spec={"activeDeadlineSeconds": 5}, status=BEGUN), {"c0": done(143)},
        {"stop": [], "start": [], "phase": "Failed", "reason": "DeadlineExceeded"}),
    ("deadline ahead", pod(spec={"activeDeadlineSeconds": 9}, status={"startTime": format_time(NOW - 5)}), {"c0": UP},
        {"stop": [], "wake_at": NOW + 4}),
    ("deleted: stop with the grace of the deletion", pod(metadata=DELETED, status={"phase": "Running"}), {"c0": UP},
        {"stop": [Stop("c0", 3)], "finish": False, "phase": "Running"}),
    ("deleted: not restarted, gone with its last exit code", pod("Always", metadata=DELETED), {"c0": done(143)},
        {"start": [], "stop": [], "finish": True, "phase": "Failed"}),
    ("deleted before it began", pod(metadata=DELETED), {"c0": NEW}, {"start": [], "finish": True, "phase": "Failed"}),
    ("deleted while being started: wait for it", pod(metadata=DELETED), {"c0": STARTING}, {"finish": False}),
    ("deleted: sidecars last", pod(sidecars=1, metadata=DELETED), {"s0": UP, "c0": UP},
        {"stop": [Stop("c0", 3)], "finish": False}),
    ("a phase that another client made final stays, and what runs is stopped",
        pod(status={"phase": "Failed", "reason": "Evicted", "message": "m"}), {"c0": UP},
        {"stop": [Stop("c0", 7)], "start": [], "phase": "Failed", "reason": "Evicted", "message": "m"}),
    ("a finished pod is not run again", pod("Always", status={"phase": "Succeeded"}), {"c0": NEW},
        {"start": [], "phase": "Succeeded"}),
    ("what cannot start yet is tried again later", pod(),
        {"c0": ContainerState(waiting=("CreateContainerConfigError", "m"), retry_at=NOW + 2)},
        {"start": [], "wake_at": NOW + 2, "phase": "Pending"}),
]  # fmt: skip


@pytest.mark.parametrize(("item", "seen", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_decision(item: dict[str, Any], seen: dict[str, ContainerState], expected: dict[str, Any]) -> None:
    decision = decide(item, seen, NOW, SETTINGS)
    assert {name: getattr(decision, name) for name in expected} == expected


def status_of(item: dict[str, Any], seen: dict[str, ContainerState]) -> dict[str, Any]:
    return pod_status(item, seen, decide(item, seen, NOW, SETTINGS), "127.0.0.9", "127.0.0.1", NOW)


STATES: list[tuple[str, dict[str, Any], dict[str, ContainerState], dict[str, Any]]] = [
    ("new", pod(), {"c0": NEW}, {"state": {"waiting": {"reason": "ContainerCreating"}}, "restartCount": 0, "ready": False}),
    ("behind init", pod(inits=1), {"i0": UP, "c0": NEW}, {"state": {"waiting": {"reason": "PodInitializing"}}}),
    ("running again", pod("Always"),
        {"c0": ContainerState(run=Run(2, NOW), last=Run(1, NOW - 9, "id", NOW - 8, 3, 0, "Error"), started=True, ready=True)},
        {"restartCount": 2, "ready": True, "started": True, "state": {"running": {"startedAt": format_time(NOW)}}}),
    ("a crash loop waits, with the end as last state", pod("Always"), {"c0": done(1, 3, streak=3)},
        {
            "state": {
                "waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed container=c0 pod=p_d(u)"}},
            "lastState": {
                "terminated": {"exitCode": 1, "reason": "", "containerID": "", "startedAt": format_time(NOW - 2),
                    "finishedAt": format_time(NOW - 1)}}, "restartCount": 3}),
    ("ended by a signal", pod(), {"c0": ContainerState(run=Run(0, NOW - 9, "id", NOW, 137, 9, "OOMKilled", "said"))},
        {
            "state": {
                "terminated": {"exitCode": 137, "signal": 9, "reason": "OOMKilled", "message": "said", "containerID": "id",
                    "startedAt": format_time(NOW - 9), "finishedAt": format_time(NOW)}}}),
]  # fmt: skip


@pytest.mark.parametrize(("item", "seen", "expected"), [case[1:] for case in STATES], ids=[case[0] for case in STATES])
def test_container_status(item: dict[str, Any], seen: dict[str, ContainerState], expected: dict[str, Any]) -> None:
    (status,) = status_of(item, seen)["containerStatuses"]
    assert {name: status[name] for name in expected} == expected
