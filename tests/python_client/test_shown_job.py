"""What a notebook and a prompt show of a job, which stays a dictionary."""

import copy
import json
import pickle
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest
import yaml
from IPython.core.formatters import DisplayFormatter

from jobcommon.api.timestamp import format_time
from jobcommon.client.request import MERGE_PATCH
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.sdk.async_client import AsyncJobClient
from jobcommon.sdk.build import build_job
from jobcommon.sdk.following import Timing
from jobcommon.sdk.shown import ShownJob
from jobcommon.testutil.builders import START
from tests.runtime.fakes import crd
from tests.runtime.world import World

Call = Callable[[AsyncJobClient], Coroutine[Any, Any, Any]]
JOB = build_job("digits", image="i", command=["x"], replicas=3, namespace="default")


def clock() -> float:
    return START


def job(kind: str = "Failed", message: str = "PyTorchJob digits has failed because <b>", **more: Any) -> ShownJob:
    status = {"conditions": [{"type": kind, "status": "True", "message": message}], "restarts": 1}
    status["replicaStatuses"] = {"Master": {"failed": 1}, "Worker": {"active": 2}}  # type: ignore[assignment]
    metadata = {**JOB["metadata"], "creationTimestamp": format_time(START - 900), "managedFields": [{}]}
    return ShownJob({**JOB, "metadata": metadata, "status": status, **more}, clock)


def test_a_job_prints_as_a_line() -> None:
    counts = "Master 0/1, Worker 2/2; 1 restart"
    expected = f"PyTorchJob default/digits, 15m old: Failed: {counts}; PyTorchJob digits has failed because <b>"
    assert repr(job()) == expected
    assert repr(job("Running")) == f"PyTorchJob default/digits, 15m old: Running: {counts}"
    shown, _ = DisplayFormatter().format(job())
    assert shown["text/plain"] == expected
    assert shown["text/html"].split("<br>") == [
        "<b>digits</b>",
        "PyTorchJob in default, 15m old",
        f"Failed: {counts}",
        "PyTorchJob digits has failed because &lt;b&gt;",
    ]


def test_a_shown_job_has_no_control_sequences() -> None:
    shown, _ = DisplayFormatter().format(job(message="gone \x1b[2J\u202eover\nforged"))
    assert not {"\x1b", "\u202e", "\n"} & set(shown["text/plain"] + shown["text/html"])


def test_an_unreadable_one_is_shown_as_it_is() -> None:
    for body in ({}, {"kind": "Unknown"}, {"kind": "PyTorchJob"}, {"kind": "PyTorchJob", "metadata": 5}, {"kind": 5}):
        assert repr(ShownJob(body)) == repr(body)
        assert list(DisplayFormatter().format(ShownJob(body))[0]) == ["text/plain"]


def test_a_shown_job_is_a_dictionary() -> None:
    body = job()
    plain = dict(body)
    assert body == plain
    assert isinstance(body, dict)
    assert json.loads(json.dumps(body)) == msgspec.json.decode(msgspec.json.encode(body)) == plain
    assert yaml.safe_dump(body) == yaml.dump(body) == yaml.safe_dump(plain)
    assert pickle.loads(pickle.dumps(body)) == copy.deepcopy(body) == plain
    assert {**body, "status": {}}["status"] == {}


async def _first(jobs: AsyncJobClient) -> Any:
    return (await jobs.list())[0]


@pytest.mark.parametrize(
    "call",
    [
        lambda jobs: jobs.get("digits"),
        lambda jobs: jobs.suspend("digits"),
        lambda jobs: jobs.resume("digits"),
        lambda jobs: jobs.wait("digits", progress=False),
        lambda jobs: jobs.submit({**JOB, "metadata": {**JOB["metadata"], "name": "other"}}),
        _first,
    ],
)
async def test_each_method_returns_it(call: Call) -> None:
    world = World()
    world.ok("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd(PYTORCH))
    path = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"
    world.ok("POST", path, JOB)
    status = {"conditions": [{"type": "Succeeded", "status": "True", "message": "m"}]}
    world.ok("PATCH", f"{path}/digits/status", {"status": status}, MERGE_PATCH)
    found = await call(AsyncJobClient(world.transport, timing=Timing(wall=lambda: world.clock.wall() + 900)))
    assert repr(found).startswith(f"PyTorchJob default/{found['metadata']['name']}, 15m old: ")
