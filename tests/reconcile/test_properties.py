"""Random input of the decision: no manifest, status or pod makes it raise. The examples are the same every time.

`make fuzz` tries more of the states.
"""

import os
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobcommon.api import labels
from jobcommon.api.gang import NATIVE, VOLCANO
from jobcommon.api.kueue import QUEUE_LABEL
from jobcommon.api.observed import Observed
from jobcommon.api.pod import PodView
from jobcommon.api.status import ConditionType, read_status
from jobcommon.framework import Options, ProgressServer
from jobcommon.reconcile import plan
from jobcommon.spec import read_job
from jobcommon.testutil.builders import START, Pod, condition, job_manifest, services_of
from jobcommon.testutil.frameworks import SCALED_JOB, TEST_JOB
from jobcommon.testutil.invariants import check_plan

BOUNDED = settings(max_examples=120)
FULL = 25 * int(os.environ.get("EXAMPLES", "4000"))
STATES = settings(BOUNDED, max_examples=FULL if os.environ.get("PROFILE") == "full" else 200)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False, allow_infinity=False, width=32)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = {
    "spec": ["runPolicy", "testReplicaSpecs", "suspend"],
    "runPolicy": ["cleanPodPolicy", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit", "suspend", "managedBy"],
    "Worker": ["replicas", "restartPolicy", "template", "overrides"],
    "status": ["conditions", "replicaStatuses", "startTime", "completionTime", "restarts", "failures", "countedPods"],
}


@BOUNDED
@given(data=st.data())
def test_no_manifest_makes_the_decision_raise(data: st.DataObject) -> None:
    manifest: Any = job_manifest(TEST_JOB, {"Master": 1, "Worker": 2}, status={})
    places = {
        "metadata": manifest["metadata"],
        "spec": manifest["spec"],
        "runPolicy": manifest["spec"]["runPolicy"],
        "Worker": manifest["spec"]["testReplicaSpecs"]["Worker"],
        "template": manifest["spec"]["testReplicaSpecs"]["Worker"]["template"],
        "podSpec": manifest["spec"]["testReplicaSpecs"]["Worker"]["template"]["spec"],
        "container": manifest["spec"]["testReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0],
        "status": manifest["status"],
    }
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.sampled_from(sorted(places)))
        keys = sorted(set(FIELDS.get(place, [])) | set(places[place]) | {"env", "ports", "labels", "annotations"})
        places[place][data.draw(st.sampled_from(keys))] = data.draw(JSON)
    job = read_job(TEST_JOB, manifest)
    pods = data.draw(st.lists(POD_VIEWS, max_size=4, unique_by=(lambda pod: pod.name, lambda pod: pod.uid)))
    decided = plan(TEST_JOB, job, Observed(tuple(pods)), START)
    assert decided.reason
    assert isinstance(decided.describe(), str)


@pytest.mark.parametrize("field", ["env", "ports"])
def test_another_error_does_not_hide_that_of_a_template(field: str) -> None:
    manifest: Any = job_manifest(TEST_JOB, {"Worker": 1})
    manifest["spec"]["testReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0][field] = True
    manifest["spec"]["runPolicy"] = {"activeDeadlineSeconds": []}
    job = read_job(TEST_JOB, manifest)
    template = "spec.testReplicaSpecs[Worker].template.spec.containers[0]"
    assert [error.path for error in job.errors] == ["spec.runPolicy.activeDeadlineSeconds", f"{template}.{field}"]
    assert plan(TEST_JOB, job, Observed(begun=True), START).actions == ()


@BOUNDED
@given(raw=JSON | st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS["status"], JSON)))
def test_any_status_is_read_and_written_back_unchanged(raw: Any) -> None:
    once = read_status(raw).to_json()
    assert read_status(once).to_json() == once


UIDS = [f"uid-{name}" for name in ("demo-master-0", "demo-worker-0", "demo-worker-1", "demo-worker-7")]
_JOB = read_job(TEST_JOB, job_manifest(TEST_JOB, {"Master": 1, "Worker": 2}))
PHASES = st.sampled_from(["", "Pending", "Running", "Succeeded", "Failed", "Unknown", "Dancing"])


#: annotations that pods may have, by us or by anyone
MARKS = {
    labels.ATTEMPT: ["0", "1", "2", "999999", "-1", "x"],
    labels.SIZE: ["Master=1,Worker=2", "Worker=2 without 0", "Worker=3", ""],
    labels.SPARE: ["true", "false"],
    labels.EARLIER_RUNS: ["0", "1", "7", "999999", "x"],
    labels.STOP_ORDERED: ["2023-11-14T22:13:20Z", "9999-12-31T23:59:59Z", "x"], labels.TEMPLATE: ["0", "f" * 16],
    labels.IMAGE: ["image", ""],
}  # fmt: skip


@st.composite
def _pod_views(draw: st.DrawFn) -> PodView:
    kind, index = draw(st.sampled_from([("Master", 0), ("Worker", 0), ("Worker", 1), ("Worker", 7)]))
    pod = Pod.of(TEST_JOB, _JOB, kind, index)
    states = {
        "running": pod.running(at=draw(st.floats(-1e12, 1e12))), "failed": pod.failed(draw(st.integers(-(2**31), 2**32))),
        "looping": pod.crash_looping(draw(st.integers(0, 2**31))), "evicted": pod.evicted(draw(st.text(max_size=5))),
        "succeeded": pod.succeeded(), "pending": pod,
    }  # fmt: skip
    pod = states[draw(st.sampled_from(sorted(states)))]
    if draw(st.booleans()):
        pod = pod.deleting(at=draw(st.sampled_from([START - 5, START, START + 5])), grace=draw(st.sampled_from([0, 30, 10**9])))
    if draw(st.booleans()):
        pod = pod._with(status={"phase": draw(PHASES)})
    if draw(st.booleans()):
        pod = pod.labelled(replica_index=draw(st.sampled_from(["-1", "x", "10" * 20, "", "²"]))).renamed(f"pod-{index}")
    if draw(st.booleans()):
        own = draw(st.dictionaries(st.sampled_from(sorted(MARKS)), st.none(), max_size=4))
        pod = pod.with_image("image", {key: draw(st.sampled_from(MARKS[key])) for key in own})
    if draw(st.integers(0, 3)) == 0:
        pod = pod.with_image("image:stopped:attempt-1", {}).waiting("InvalidImageName", "image:stopped:attempt-1")
    return pod.view


POD_VIEWS = _pod_views()


@BOUNDED
@given(
    pods=st.lists(POD_VIEWS, max_size=4, unique_by=(lambda pod: pod.name, lambda pod: pod.uid)),
    policy=st.sampled_from(["Never", "OnFailure", "Always", "ExitCode"]),
    suspend=st.booleans(),
    indexes=st.sampled_from([None, "0", "0-1"]),
    counted=st.booleans(),
)
def test_any_pods_whatever_state_they_claim(
    pods: list[PodView], policy: str, suspend: bool, indexes: str | None, counted: bool
) -> None:
    status = {
        "countedPods": [pod.uid for pod in pods] if counted else [],
        "replicaStatuses": {"Worker": {"succeededIndexes": indexes}} if indexes else {},
    }
    manifest = job_manifest(TEST_JOB, {"Master": 1, "Worker": 2}, policy=policy, run_policy={"suspend": suspend}, status=status)
    job = read_job(TEST_JOB, manifest)
    observed = Observed(tuple(pods), services_of(TEST_JOB, job))
    for _ in range(3):
        decided = plan(TEST_JOB, job, observed, START)
        check_plan(TEST_JOB, job, observed, START, decided)
        if decided.status is None:
            break
        manifest["status"] = decided.status.to_json()
        job = read_job(TEST_JOB, manifest)
    assert decided.status is None, "the status of a world that stands still does not change for ever"


SOME = {"minReplicas": 1, "maxReplicas": 4}
POLICIES: list[dict[str, Any]] = [
    {}, {"restartScope": "Job"}, {"restartScope": "Job", "restartMethod": "Auto"}, {"restartScope": "Job", "elastic": SOME},
    {"restartScope": "Job", "restartMethod": "Auto", "elastic": SOME}, {"backoffLimit": -1}, {"elastic": SOME},
    {"restartScope": "Job", "stallAction": "Restart", "progressDeadlineSeconds": 60, "reportProgress": True},
    {"restartScope": "Job", "pendingDeadlineSeconds": 1, "pendingDeadlineAction": "Restart"},
]  # fmt: skip
MORE: list[dict[str, Any]] = [
    {}, {"suspend": True}, {"nodeLossSeconds": 60}, {"cleanPodPolicy": "All"}, {"cleanPodPolicy": "None"}, {"backoffLimit": 1},
    {"activeDeadlineSeconds": 60}, {"keepFailedLogs": True},
]  # fmt: skip
MOMENTS = st.sampled_from([None, "2023-11-14T22:13:20Z", "2023-11-14T21:00:00Z", "9999-12-31T23:59:59Z", "x"])
STATUSES = st.fixed_dictionaries(
    {},
    optional={
        "attempt": st.sampled_from([0, 1, 2, 999_999]),
        "attemptReplicas": st.sampled_from([{"Master": 1, "Worker": 2}, {"Worker": 3}, {"Robot": 1}, {"Worker": -1}]),
        "conditions": st.lists(st.sampled_from([str(kind) for kind in ConditionType]).map(condition), max_size=3),
        "leftOut": st.sampled_from([{"Worker": "0"}, {"Worker": "1,0-99999"}, {"Robot": "x", "Worker": ",-"}, {"Master": "0"}]),
        "gatheringSince": MOMENTS,
        "startTime": MOMENTS, "lastResizeTime": MOMENTS, "lastRestartTime": MOMENTS, "completionTime": MOMENTS,
        "countedPods": st.lists(st.sampled_from(UIDS), max_size=3), "stoppedPods": st.lists(st.sampled_from(UIDS), max_size=3),
        "awaitedCheckpoint": st.just("1"),
        "restarts": st.integers(0, 9), "nodeFailures": st.just([{"node": "node-1", "failures": 3}]),
        "replicaStatuses": st.sampled_from([{"Worker": {"succeededIndexes": "0"}}, {"Worker": {"failedRuns": 2, "active": 1}}]),
    },
)  # fmt: skip


@STATES
@given(
    pods=st.lists(POD_VIEWS, max_size=4, unique_by=(lambda pod: pod.name, lambda pod: pod.uid)),
    policy=st.sampled_from(["Never", "OnFailure", "Always", "ExitCode"]),
    run_policy=st.tuples(st.sampled_from(POLICIES), st.sampled_from(MORE)),
    counts=st.sampled_from([{"Master": 1, "Worker": 2}, {"Worker": 3}, {"Master": 1}, {"Worker": 0}, {}]),
    broken=st.sampled_from(["", "", "", "image", "type"]),
    options=st.sampled_from([{}, {"kueue": True}, {"gang": VOLCANO}, {"gang": NATIVE}]),
    status=STATUSES,
)
def test_any_state_has_a_plan(
    pods: list[PodView], policy: str, run_policy: Any, counts: Any, broken: str, options: Any, status: Any
) -> None:
    """Whatever the status and the pods say, which others may write, too, no pass raises, and the status comes to rest."""
    framework = replace(SCALED_JOB, options=Options(progress=ProgressServer("https://operator", "certificate"), **options))
    manifest: Any = job_manifest(framework, counts, policy=policy, run_policy={**run_policy[0], **run_policy[1]}, status=status)
    manifest["metadata"]["labels"] = {QUEUE_LABEL: "team"}
    specs = manifest["spec"][framework.replica_specs]
    if broken == "image" and specs:
        next(iter(specs.values()))["template"]["spec"]["containers"][0].pop("image")
    elif broken:
        specs["Robot"] = {}
    for _ in range(8):
        job = read_job(framework, manifest)
        decided = plan(framework, job, Observed(tuple(pods)), START)
        assert decided.describe()
        if decided.status is None:
            return
        manifest["status"] = decided.status.to_json()
    raise AssertionError("the status of a world that stands still changes for ever")
