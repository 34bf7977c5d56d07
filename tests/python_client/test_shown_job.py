"""What a notebook and a prompt show of a job, which stays a dictionary."""

import copy
import json
import pickle
from typing import Any

import msgspec
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


async def test_each_method_returns_it() -> None:
    world = World()
    world.ok("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd(PYTORCH))
    path = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"
    world.ok("POST", path, JOB)
    status = {"conditions": [{"type": "Succeeded", "status": "True", "message": "m"}]}
    world.ok("PATCH", f"{path}/digits/status", {"status": status}, MERGE_PATCH)
    jobs = AsyncJobClient(world.transport, timing=Timing(wall=lambda: world.clock.wall() + 900))
    found = [await method("digits") for method in (jobs.get, jobs.suspend, jobs.resume)]
    found += [await jobs.wait("digits", progress=False), *await jobs.list()]
    found.append(await jobs.submit({**JOB, "metadata": {**JOB["metadata"], "name": "other"}}))
    assert [repr(one)[:30] for one in found] == ["PyTorchJob default/digits, 15m"] * 5 + ["PyTorchJob default/other, 15m "]


JOB = build_job("digits", image="i", command=["x"], replicas=3, namespace="default")


def clock() -> float:
    return START


def job(kind: str = "Failed", message: str = "PyTorchJob digits has failed because <b>", **more: Any) -> ShownJob:
    status = {"conditions": [{"type": kind, "status": "True", "message": message}], "restarts": 1}
    status["replicaStatuses"] = {"Master": {"failed": 1}, "Worker": {"active": 2}}  # type: ignore[assignment]
    metadata = {**JOB["metadata"], "creationTimestamp": format_time(START - 900), "managedFields": [{}]}
    return ShownJob({**JOB, "metadata": metadata, "status": status, **more}, clock)


def test_a_job_prints_as_a_line_and_stays_a_dictionary() -> None:
    counts = "Master 0/1, Worker 2/2; 1 restart"
    expected = f"PyTorchJob default/digits, 15m old: Failed: {counts}; PyTorchJob digits has failed because <b>"
    assert repr(job()) == expected
    assert repr(job("Running")) == f"PyTorchJob default/digits, 15m old: Running: {counts}"
    shown, _ = DisplayFormatter().format(job())
    assert shown["text/plain"] == expected
    assert "PyTorchJob digits has failed because &lt;b&gt;" in shown["text/html"].split("<br>")
    shown, _ = DisplayFormatter().format(job(message="gone \x1b[2J\u202eover\nforged"))
    assert not {"\x1b", "\u202e", "\n"} & set(shown["text/plain"] + shown["text/html"])
    for body in ({}, {"kind": "Unknown"}, {"kind": "PyTorchJob"}, {"kind": "PyTorchJob", "metadata": 5}, {"kind": 5}):
        assert repr(ShownJob(body)) == repr(body), "as it is, for it cannot be read"
    made, plain = job(), dict(job())
    assert json.loads(json.dumps(made)) == msgspec.json.decode(msgspec.json.encode(made)) == plain
    assert yaml.safe_dump(made) == yaml.safe_dump(plain)
    assert pickle.loads(pickle.dumps(made)) == copy.deepcopy(made) == plain
