"""The views of pods and other objects: what they hold, and what garbage costs."""

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from jobcommon.api.labels import ATTEMPT, JOB_NAME, PREFIX, REPLICA_INDEX, SIZE
from jobcommon.api.pod import ContainerView, PodView, Running, Terminated, Waiting, pod_view
from jobcommon.api.view import Identity, ObjectView, Owner, identity, object_view

T0 = datetime(2026, 11, 21, 10, 0, tzinfo=UTC).timestamp()

OWNERS = [
    {"kind": "Other", "name": "o", "uid": "o-uid"},
    {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "digits", "uid": "job-uid", "controller": True},
]
FULL = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "namespace": "team",
        "name": "digits-worker-0",
        "uid": "pod-uid",
        "resourceVersion": "77",
        "creationTimestamp": "2026-11-21T10:00:00Z",
        "deletionTimestamp": "2026-11-21T10:05:30Z",
        "deletionGracePeriodSeconds": 30,
        "finalizers": ["training.kubeflow.org/job-tracking"],
        "labels": {JOB_NAME: "digits", REPLICA_INDEX: "0", "app": "mine"},
        "annotations": {ATTEMPT: "3", "other/annotation": "x"},
        "ownerReferences": OWNERS,
        "managedFields": [{"manager": "x"}],
    },
    "spec": {"nodeName": "node-1", "containers": [{"name": "pytorch", "image": "i"}]},
    "status": {
        "phase": "Failed",
        "reason": "Evicted",
        "message": "low on memory",
        "startTime": "2026-11-21T10:00:01Z",
        "podIP": "10.0.0.1",
        "conditions": [
            {"type": "PodScheduled", "status": "True"},
            {"type": "Ready", "status": "False", "lastTransitionTime": "2026-11-21T10:00:09Z"},
            {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"},
        ],
        "initContainerStatuses": [
            {"name": "init", "ready": True, "restartCount": 0, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
        ],
        "containerStatuses": [
            {
                "name": "pytorch",
                "ready": False,
                "restartCount": 2,
                "state": {
                    "terminated": {
                        "exitCode": 137,
                        "signal": 9,
                        "reason": "OOMKilled",
                        "message": "killed",
                        "startedAt": "2026-11-21T10:00:02Z",
                        "finishedAt": "2026-11-21T10:00:08.5Z",
                    }
                },
                "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": "2026-11-21T12:00:00+02:00"}},
            },
            {"name": "sidecar", "ready": True, "state": {"running": {"startedAt": "2026-11-21T10:00:03Z"}}},
            {"name": "late", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}},
            {"name": "fresh", "state": {}},
        ],
    },
}


def view(document: Any) -> PodView:
    return pod_view(json.dumps(document).encode())


def a_pod(status: Any = None, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "team", "name": "p", "uid": "u", **metadata}, "status": status}


def test_a_full_pod() -> None:
    assert view(FULL) == PodView(
        namespace="team",
        name="digits-worker-0",
        uid="pod-uid",
        resource_version="77",
        creation_time=T0,
        deletion_time=T0 + 330,
        deletion_grace_seconds=30,
        finalizers=("training.kubeflow.org/job-tracking",),
        owner=Owner("PyTorchJob", "digits", "job-uid"),
        labels={JOB_NAME: "digits", REPLICA_INDEX: "0"},
        annotations={ATTEMPT: "3"},
        node_name="node-1",
        phase="Failed",
        reason="Evicted",
        message="low on memory",
        start_time=T0 + 1,
        ready=False,
        disruption="EvictionByEvictionAPI",
        scheduled=True,
        unschedulable="",
        init_containers=(ContainerView("init", True, 0, Terminated(0, 0, "Completed")),),
        containers=(
            ContainerView(
                "pytorch",
                False,
                2,
                Terminated(137, 9, "OOMKilled", "killed", T0 + 2, T0 + 8.5),
                Terminated(1, 0, "Error", "", None, T0),
                image="i",
            ),
            ContainerView("sidecar", True, 0, Running(T0 + 3)),
            ContainerView("late", False, 0, Waiting("ImagePullBackOff", "no such image")),
            ContainerView("fresh"),
        ),
    )


def test_what_others_write_into_a_pod_is_bounded() -> None:
    long = "1 " * 200_000
    run = {"terminated": {"exitCode": 1, "reason": long, "message": long, "containerID": long}}
    waits = {"waiting": {"reason": long, "message": f'couldn\'t parse image "i" {long}'}}
    statuses = [{"name": name, "state": waits, "lastState": run, "imageID": long} for name in ("pytorch", "sidecar")]
    conditions = [{"type": kind, "status": "False", "reason": long, "message": long} for kind in ("PodScheduled", "Ready")]
    pod = a_pod(
        {"phase": long, "reason": long, "message": long, "conditions": conditions, "containerStatuses": statuses},
        annotations={ATTEMPT: "2", SIZE: long, **{f"{PREFIX}{n}": "x" * 1000 for n in range(200)}},
    )
    pod["spec"] = {"containers": [{"name": name, "image": long} for name in ("pytorch", "sidecar")]}
    seen = view(pod)
    assert len(repr(seen)) < 49_152
    assert seen.annotations == {ATTEMPT: "2"}
    assert 'image "i"' in seen.containers[0].state.message  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([], {"scheduled": False, "unschedulable": "", "disruption": None, "ready": False}),
        (
            [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}],
            {"scheduled": False, "unschedulable": "0/1 nodes"},
        ),
        (
            [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}],
            {"scheduled": False, "unschedulable": "SchedulingGated"},
        ),
        ([{"type": "DisruptionTarget", "status": "False", "reason": "x"}], {"disruption": None}),
        ([{"type": "DisruptionTarget", "status": "True"}], {"disruption": ""}),
        ([{"type": "Ready", "status": "True"}], {"ready": True}),
        ([{"type": "Ready", "status": "Unknown"}], {"ready": False}),
        ([None, 3, {"type": 5}, {"type": "Ready", "status": "True"}], {"ready": True}),
    ],
)
def test_conditions(conditions: Any, expected: dict[str, Any]) -> None:
    found = view(a_pod({"conditions": conditions}))
    assert {name: getattr(found, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("status", "field", "expected"),
    [
        ({"phase": 5}, "phase", ""),
        ({"startTime": "yesterday", "reason": "kept"}, "reason", "kept"),
        ({"startTime": "2026-11-21T10:00:00"}, "start_time", None),
        ({"startTime": "10000-01-01T00:00:00Z"}, "start_time", None),
        ([], "phase", ""),
        (
            {"containerStatuses": [{"name": "c", "restartCount": 2**31, "state": {"terminated": {"exitCode": 2**70}}}]},
            "containers",
            (ContainerView("c", state=Terminated()),),
        ),
        ({"containerStatuses": [None, "x", {"name": "c"}]}, "containers", (ContainerView("c"),)),
        ({"containerStatuses": [{"name": "c", "restartCount": 1.5, "ready": True}]}, "containers", (ContainerView("c", True),)),
        (
            {"containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": "1", "reason": "Error"}}}]},
            "containers",
            (ContainerView("c", state=Terminated(None, reason="Error")),),
        ),
        (
            {"containerStatuses": [{"name": "c", "state": {"terminated": None, "running": {"startedAt": None}}}]},
            "containers",
            (ContainerView("c", state=Running()),),
        ),
    ],
)
def test_garbage_in_a_field_costs_that_field_only(status: Any, field: str, expected: Any) -> None:
    found = view(a_pod(status))
    assert getattr(found, field) == expected
    assert (found.namespace, found.name, found.uid) == ("team", "p", "u")


@pytest.mark.parametrize(
    ("metadata", "field", "expected"),
    [
        ({"labels": {JOB_NAME: None, REPLICA_INDEX: "1"}}, "labels", {REPLICA_INDEX: "1"}),
        ({"labels": None, "annotations": None, "finalizers": None, "ownerReferences": None}, "owner", None),
        ({"finalizers": ["a", 1, None]}, "finalizers", ("a",)),
        ({"deletionGracePeriodSeconds": "30"}, "deletion_grace_seconds", None),
        ({"ownerReferences": [None, {"controller": "true", "uid": "x"}]}, "owner", None),
        ({"ownerReferences": [5, {"controller": True, "uid": "x"}]}, "owner", Owner("", "", "x")),
        ({"uid": 7}, "uid", ""),
    ],
)
def test_garbage_in_the_metadata_costs_that_field_only(metadata: Any, field: str, expected: Any) -> None:
    document = a_pod({"phase": "Running"}, **metadata)
    assert getattr(view(document), field) == expected
    assert view(document).phase == "Running"
    if field in ("labels", "owner", "uid", "creation_time"):
        assert getattr(object_view(json.dumps(document).encode()), field) == expected


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"5",
        b"{}",
        b'{"metadata": null}',
        b'{"metadata": []}',
        b'{"metadata": {}}',
        b'{"metadata": {"name": ""}}',
        b'{"metadata": {"name": 5}}',
        b"\xff\xfe",
        b'{"metadata": {"name": "p"}, "deep": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_data_without_a_named_object_raises_decode_error(data: bytes) -> None:
    for decode in (pod_view, object_view, identity):
        with pytest.raises(msgspec.DecodeError):
            decode(data)


def test_an_object_view_keeps_all_but_managed_fields_and_cannot_be_changed_through() -> None:
    kept = {**FULL, "metadata": {key: value for key, value in FULL["metadata"].items() if key != "managedFields"}}
    found = object_view(json.dumps(FULL).encode())
    data = json.dumps(kept).encode()
    assert found == ObjectView(
        namespace="team",
        name="digits-worker-0",
        uid="pod-uid",
        resource_version="77",
        creation_time=T0,
        deletion_time=T0 + 330,
        owner=Owner("PyTorchJob", "digits", "job-uid"),
        labels={JOB_NAME: "digits", REPLICA_INDEX: "0"},
        data=found.data,
    )
    raw = found.raw
    assert raw == kept
    raw["metadata"]["name"] = "changed"
    assert found.raw == kept
    assert b"managedFields" not in found.data
    assert object_view(data).data is data, "nothing is to be left out"
    assert identity(data) == Identity("team", "digits-worker-0", "pod-uid", "77")
