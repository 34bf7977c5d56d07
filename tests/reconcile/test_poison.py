"""Bad input: every manifest is read, says where and what is wrong, and fails its job once, not the operator."""

import os
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from jobcommon.api.observed import Observed
from jobcommon.reconcile import plan
from jobcommon.spec import read_job
from jobcommon.testutil.builders import GONE, START, Manifest, condition, job_manifest, observe, put
from jobcommon.testutil.frameworks import TEST_JOB
from jobcommon.testutil.plans import status_of

GOLDEN = Path(__file__).parent.parent / "golden/errors.txt"
W = "spec.testReplicaSpecs.Worker"
C = f"{W}.template.spec.containers"
R = "spec.runPolicy"
CONTAINER = {"name": "test-container", "image": "image"}


def poisoned(path: str, value: Any) -> Manifest:
    manifest = job_manifest(TEST_JOB, {"Worker": 2})
    put(manifest, path, value)
    return manifest


def override(*entries: tuple[list[Any], Any]) -> list[Manifest]:
    return [{"indices": indices, "template": {"spec": {"containers": containers}}} for indices, containers in entries]


#: by place, what stands there; tests/golden/errors.txt has the error of each
BAD: dict[str, list[Any]] = {
    "spec": [GONE, ["x"]],
    "spec.testReplicaSpecs": [GONE, None, {}, [{}]],
    W: [None, {}],
    f"{W}.replicas": [-1, 1.5, "3", True, 10**9],
    f"{W}.restartPolicy": ["Sometimes", ["Never"]],
    f"{W}.template": [None, "x"],
    f"{W}.template.spec": [GONE, None, [1]],
    C: [GONE, None, [], {"a": 1}, [None]],
    f"{C}.0.image": ["", 3],
    f"{C}.0.name": ["tensorfow", ["test-container"]],
    f"{C}.0.env": [{"A": "b"}, [1], [{"name": ["A"]}]],
    f"{C}.0.ports": [[None]],
    f"{C}.0.command": ["sleep 3", ["sleep", 3]],
    f"{C}.0.args": [["a", None, "b"]],
    f"{C}.0.volumeMounts": [True],
    # What operators add to.
    f"{W}.template.spec.volumes": [[7]],
    f"{W}.template.spec.initContainers": [{}],
    f"{W}.template.spec.dnsConfig": [[], {"searches": "a"}],
    f"{W}.template.spec.terminationGracePeriodSeconds": ["30s", -1],
    f"{W}.template.metadata": [[], {"labels": ["a"]}, {"labels": {"a": 1}}, {"annotations": {"a": None}}],
    "spec.testReplicaSpecs.Robot": [{}],
    "spec.testReplicaSpecs.worker": [{}],
    f"{W}.overrides": [
        {}, [{"indices": [0]}], override(([], [])), override(([-1], [])), override((["0"], [])), override(([0, 10_000], [])),
        override(([0] * 10_001, [])), override(*[([0], [])] * 1001), override(([0, 1], None), ([0], [CONTAINER])),
        override(*(([n], [{**CONTAINER, "args": ["x"] * 600}]) for n in range(1000))),
    ],
    R: [[], "x"],
    f"{R}.cleanPodPolicy": ["Some"],
    f"{R}.ttlSecondsAfterFinished": [-1, 2**31],
    f"{R}.activeDeadlineSeconds": [0, 10**18],
    f"{R}.backoffLimit": [-1, "3"],
    f"{R}.suspend": ["true"],
    f"{R}.managedBy": [3],
    f"{R}.schedulingPolicy": [[], {"minAvailable": 0}, {"queue": 7}],
    "metadata.name": ["00test", "démo", "demo\n", None, "a" * 64, "a" * 55],
}  # fmt: skip


def test_a_bad_manifest_says_what_is_wrong() -> None:
    told = []
    for path, value in ((path, value) for path, values in BAD.items() for value in values):
        manifest = poisoned(path, value)
        kept = deepcopy(manifest)
        job = read_job(TEST_JOB, manifest)
        (error,) = map(str, job.errors)
        told.append(f"{path} {'is missing' if value is GONE else repr(value)[:60]}\n    {error!r}\n")
        assert manifest == kept
        decided = plan(TEST_JOB, job, Observed(), START)
        assert decided.actions == ()
        last = status_of(decided).conditions[-1]
        assert (last.type, last.reason, last.message) == ("Failed", "InvalidSpec", error)
        assert [event.reason for event in decided.events] == ["TestJobFailed"]
        manifest["status"] = status_of(decided).to_json()
        again = plan(TEST_JOB, read_job(TEST_JOB, manifest), Observed(), START + 99)
        assert (again.actions, again.status, again.events) == ((), None, ())
    if os.environ.get("GOLDEN") == "write":
        GOLDEN.write_text("".join(told), encoding="utf-8")
    assert "".join(told) == GOLDEN.read_text(encoding="utf-8"), "if this is meant: make golden"


def test_deep_nesting_never_raises() -> None:
    deep: Manifest = {}
    for _ in range(3000):
        deep = {"a": deep}
    for path in ("spec.deep", f"{W}.deep", "status", f"{W}.template.spec.deep"):
        job = read_job(TEST_JOB, poisoned(path, deep))
        plan(TEST_JOB, job, Observed(), START)


STATUSES: list[Any] = [
    None, [], "done", 7, {"conditions": None}, {"conditions": {}}, {"conditions": [None, 1, {"type": 3}]},
    {"conditions": [condition("Dancing")]}, {"conditions": [condition("Running", False)]},
    {"conditions": [condition("Running"), condition("Running"), condition("Created")]},
    {"replicaStatuses": []}, {"replicaStatuses": {"Worker": None, "Robot": {"active": "x"}}},
    {"replicaStatuses": {"Worker": {"succeededIndexes": "0-,x,9-1,-3,99999999999999999999999,1-1000000000"}}},
    {"replicaStatuses": {"Worker": {"succeededIndexes": 3, "restarts": -5}}},
    {"startTime": 3}, {"startTime": "9999-12-31T23:59:59Z"},
    {"completionTime": "tomorrow"}, {"restarts": -1, "disruptions": -7}, {"restarts": 2**70}, {"restarts": "many"},
    {"countedPods": [1, None]}, {"countedPods": "uid"}, {"failures": [{}, {"replica": "Worker-0", "reason": "x"}, 3]},
    {"unknown": {"kept": [None]}, "start_time": "x"},
]  # fmt: skip


@pytest.mark.parametrize("status", STATUSES, ids=range(len(STATUSES)))
@pytest.mark.parametrize("suspend", [False, True])
def test_a_forged_status_is_read_as_far_as_it_can_be(status: Any, suspend: bool) -> None:
    """The job goes on, its status is put right in one write, and then there is peace."""
    manifest = job_manifest(
        TEST_JOB, {"Worker": 2}, policy="OnFailure", run_policy={"suspend": suspend, "activeDeadlineSeconds": 10**8}
    )
    manifest["status"] = status
    observed = observe(TEST_JOB, manifest, {} if suspend else {"Worker-0": "running", "Worker-1": "running"})
    decided = plan(TEST_JOB, read_job(TEST_JOB, manifest), observed, START)
    assert status_of(decided).conditions[-1].type == ("Suspended" if suspend else "Running")
    manifest["status"] = status_of(decided).to_json()
    assert plan(TEST_JOB, read_job(TEST_JOB, manifest), observed, START).status is None
