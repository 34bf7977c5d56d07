"""A job that has changed is read by way of the one before."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from jobcommon.spec import differs_in_status_alone, read_job, reread_job
from jobcommon.testutil.builders import job_manifest
from jobcommon.testutil.frameworks import TEST_JOB

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
