"""Jobs are not decided on or read again where nothing can have changed."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import msgspec
import pytest

from jobcommon.api.observed import Observed
from jobcommon.reconcile import plan
from jobcommon.spec import differs_in_status_alone, read_job, reread_job
from jobcommon.spec.at_rest import condition_at_rest
from jobcommon.testutil.builders import START, Manifest, condition, finished_status, job_manifest
from jobcommon.testutil.frameworks import TEST_JOB

WHOLE: Manifest = {
    **finished_status("Failed", "TestJobFailed"),
    "conditions": [condition("Created"), condition("Running", False), condition("Failed", reason="TestJobFailed")],
    "replicaStatuses": {
        "Worker": {"succeeded": 1, "failed": 1, "selector": "a=b", "succeededIndexes": "0", "restarts": 2},
        "Master": {},
    },
    "restarts": 2, "disruptions": 1, "lastReconcileTime": "2026-01-01T00:00:00Z",
    "failures": [
        {
            "replica": "Worker-1", "pod": "demo-worker-1", "node": "n", "reason": "Error", "exitCode": 1,
            "message": "m", "time": "2026-01-01T00:00:00Z",
        },
        {"replica": "Worker-0", "reason": "Evicted"},
    ],
    "countedPods": ["uid-1"], "stoppedPods": ["uid-1"],
}  # fmt: skip
GONE = object()
VALUES: list[Any] = [GONE, None, "", "x", "True", "Failed", 0, 1, 1.0, -(2**70), True, [], ["x"], [None], {}, {"x": 1}]
EXTRA: list[Any] = [None, "x", 0, [], {}]


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every path in a document, its own included."""
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from places(child, (*path, key))


def variants() -> Iterator[Manifest]:
    """The whole status with one value exchanged, one field dropped, or one added."""
    document: Manifest = {"status": WHOLE}
    for path in places(WHOLE, ("status",)):
        for value in VALUES:
            yield _changed(document, path, value)
        found: Any = document
        for key in path:
            found = found[key]
        if isinstance(found, dict):
            for key, value in [*(("added", value) for value in EXTRA), ("active", 0), ("active", 1)]:
                yield _changed(document, (*path, key), value)


def _changed(document: Manifest, path: tuple[str | int, ...], value: Any) -> Manifest:
    result = deepcopy(document)
    at: Any = result
    for key in path[:-1]:
        at = at[key]
    if value is GONE:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return result


def job(parts: Manifest, **run_policy: Any) -> Manifest:
    return {**job_manifest(TEST_JOB, {"Worker": 2}, run_policy=run_policy), **parts}


def test_jobs_at_rest_get_an_empty_plan() -> None:
    """The decision on a job whose status differs from a whole one in any single place."""
    resting = others = 0
    for parts in variants():
        manifest = job(parts)
        if condition_at_rest(msgspec.json.encode(manifest)) is None:
            others += 1
            continue
        resting += 1
        decided = plan(TEST_JOB, read_job(TEST_JOB, manifest), Observed(), START + 1e9)
        assert (decided.actions, decided.events, decided.wake_at) == ((), (), None), parts
    assert resting > 400
    assert others > 100


@pytest.mark.parametrize("manifest", [
    job({"status": WHOLE}, ttlSecondsAfterFinished=60),
    {**job({"status": WHOLE}), "spec": {"ttlSecondsAfterFinished": 60}},
    job({"status": {**WHOLE, "conditions": [condition("Created"), condition("Running")]}}),
    job({"status": {**WHOLE, "conditions": [condition("Succeeded"), condition("Succeeded", False)]}}),
    job({"status": {**WHOLE, "completionTime": "yesterday"}}), job({}),
    job({"status": {**WHOLE, "replicaStatuses": {"Worker": {"active": 1}}}}),
], ids=[
    "time to live", "of an earlier version", "running", "no longer succeeded", "no time", "no status", "a pod is counted",
])  # fmt: skip
def test_a_job_that_may_need_something_is_not_at_rest(manifest: Manifest) -> None:
    assert condition_at_rest(msgspec.json.encode(manifest)) is None


# -- a job that has changed is read by way of the one before --------------------------------------------------------------

Raw = dict[str, Any]


def raw_job() -> Raw:
    raw = job_manifest(TEST_JOB, {"Master": 1, "Worker": 2})
    raw["metadata"] |= {"uid": "u", "resourceVersion": "7", "generation": 1, "labels": {"team": "a"}}
    return raw


def with_status(raw: Raw) -> None:
    raw["metadata"]["resourceVersion"] = "8"
    raw["metadata"]["managedFields"] = [{"manager": "jobcommon", "operation": "Update", "subresource": "status"}]
    raw["status"] = {"startTime": "2026-01-01T00:00:00Z", "replicaStatuses": {"Worker": {"active": 2}}}


def without_spec(raw: Raw) -> None:
    del raw["spec"]


CHANGES: dict[str, tuple[Callable[[Raw], object], bool]] = {
    "nothing": (lambda raw: None, True), "the status": (with_status, True),
    "a status of the wrong form": (lambda raw: raw.update(status=[1]), True),
    "the spec": (lambda raw: raw["spec"]["testReplicaSpecs"]["Worker"].update(replicas=3), False),
    "an invalid spec": (lambda raw: raw["spec"]["testReplicaSpecs"].update(Boss={}), False), "no spec": (without_spec, False),
    "the version": (lambda raw: raw.update(apiVersion="test.kubeflow.org/v2"), False),
    "a label": (lambda raw: raw["metadata"]["labels"].update(team="b"), False),
    "an annotation": (lambda raw: raw["metadata"].update(annotations={"a": "b"}), False),
    "its deletion": (lambda raw: raw["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z"), False),
    "the generation": (lambda raw: raw["metadata"].update(generation=2), False),
    "metadata that is none": (lambda raw: raw.update(metadata="none"), False),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
def test_rereading_a_changed_job_equals_a_fresh_reading(what: str) -> None:
    change, kept = CHANGES[what]
    before = raw_job()
    job = read_job(TEST_JOB, before)
    raw = deepcopy(before)
    change(raw)
    assert differs_in_status_alone(before, raw) == kept
    assert not kept or reread_job(TEST_JOB, job, raw) == read_job(TEST_JOB, raw)
