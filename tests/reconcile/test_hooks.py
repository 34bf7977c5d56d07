"""What a framework's functions, and a feature of a third party, can change in the decision."""

from dataclasses import replace
from typing import Any

import pytest

from jobcommon.api.observed import Observed, Rejection
from jobcommon.api.replica import Replica
from jobcommon.framework import Companion, CompanionKind, Framework
from jobcommon.reconcile import plan
from jobcommon.reconcile.features import FEATURES
from jobcommon.reconcile.rendering import Note, Wait, Why
from jobcommon.reconcile.view import Admission, PodShape
from jobcommon.spec import read_job
from jobcommon.testutil.builders import START, job_manifest, view_of
from jobcommon.testutil.cluster_model import ClusterModel
from jobcommon.testutil.frameworks import TEST_JOB
from jobcommon.testutil.plans import status_of


def with_map(wanted: dict[str, Any] | None, **fields: Any) -> Framework:
    companion = Companion("v1", "ConfigMap", "configmaps", "demo-config", wanted, owned_fields=("data",), **fields)
    return replace(TEST_JOB, companions=lambda _job, _pods: (companion,), companion_kinds=(CONFIG_MAPS,))


CONFIG_MAPS = CompanionKind("v1", "ConfigMap", "configmaps")
KEY = ("configmaps", "demo-config")
DATA = {"data": {"hosts": ["a", "b"], "more": {"x": 1}}}


@pytest.mark.parametrize(("wanted", "found", "action"), [
    pytest.param(DATA, None, "create configmaps/demo-config", id="missing"), pytest.param(DATA, DATA, None, id="as wanted"),
    pytest.param(DATA, {"data": {**DATA["data"], "other": "x"}, "binaryData": {}}, None, id="more than wanted"),
    pytest.param(DATA, {"data": {"hosts": ["a"], "more": {"x": 1}}}, "update configmaps/demo-config", id="a shorter list"),
    pytest.param(DATA, {"data": {"hosts": ["a", "b"], "more": 1}}, "update configmaps/demo-config", id="another kind of value"),
    pytest.param(DATA, {}, "update configmaps/demo-config", id="emptied"),
    pytest.param({"data": {"rules": []}}, {"data": {"rules": None}}, None, id="an empty list comes back as null"),
    pytest.param({"data": {"x": {}}}, {"data": {}}, None, id="an empty object does not come back"),
    pytest.param(None, DATA, "delete configmaps/demo-config (no longer wanted)", id="not wanted"),
    pytest.param(None, None, None, id="neither"),
])  # fmt: skip
def test_companions_are_put_right(wanted: Any, found: Any, action: str | None) -> None:
    job = read_job(TEST_JOB, job_manifest(TEST_JOB, {"Worker": 1}))
    there = (
        {} if found is None else {KEY: view_of({"kind": "ConfigMap", "metadata": {"name": "demo-config"}, **found}, uid="u")}
    )
    decided = plan(with_map(wanted), job, Observed(companions=there), START)
    assert [str(a) for a in decided.actions if a.name == "demo-config"] == ([action] if action else [])


@pytest.mark.parametrize("required", [True, False])
def test_a_refused_companion(required: bool) -> None:
    job = read_job(TEST_JOB, job_manifest(TEST_JOB, {"Worker": 1}))
    refused = {("configmaps", "demo-config"): Rejection("data: too long", required)}
    decided = plan(with_map(DATA, required=required), job, Observed(rejections=refused), START)
    assert status_of(decided).conditions[-1].type == ("Failed" if required else "Created")
    assert [a for a in decided.actions if a.name == "demo-config"] == []


# -- an optional feature of a third party: one class with the methods that it needs ---------------------------------------

LICENSE = "example.com/license"


class Licenses(Admission, PodShape):
    """Holds a job until it has a licence, which its pods then carry."""

    def wait(self) -> Wait | None:
        awaited = self.view.job.annotations.get(LICENSE) == "awaited"
        return Wait(Why.NOT_YET, Note("it waits for a licence")) if awaited else None

    def shape(self, replica: Replica, pod: dict[str, Any]) -> dict[str, Any]:
        annotations = {**(pod["metadata"].get("annotations") or {}), LICENSE: self.view.job.annotations[LICENSE]}
        return {**pod, "metadata": {**pod["metadata"], "annotations": annotations}}


def licensed(world: ClusterModel, value: str) -> None:
    world.manifest["metadata"]["annotations"] = {LICENSE: value}


def licences(world: ClusterModel) -> list[str]:
    return [pod.raw["metadata"]["annotations"][LICENSE] for pod in world.pods.values()]


def message(world: ClusterModel) -> str:
    text: str = world.status["conditions"][-1]["message"]
    return text


def test_a_feature_holds_a_job_and_shapes_its_pods_all_its_life() -> None:
    framework = replace(TEST_JOB, features=(*FEATURES, Licenses))
    world = ClusterModel.of(framework, {"Worker": 2}, policy="ExitCode", run_policy={"restartScope": "Job"})
    licensed(world, "awaited")
    world.settle()
    assert (world.pods, message(world)) == ({}, "TestJob demo is created; it waits for a licence.")
    licensed(world, "granted")
    world.start()
    assert licences(world) == ["granted"] * 2
    licensed(world, "awaited")
    world.exit("demo-worker-1", 137)
    world.settle()
    world.stop_terminating().settle()
    assert world.pods == {}
    assert message(world).endswith("; waiting: it waits for a licence")
    world.edit(suspend=True).settle()
    world.edit(suspend=False).settle()
    assert world.pods == {}
    licensed(world, "renewed")
    world.tick(60)
    world.start()
    assert licences(world) == ["renewed"] * 2
    for name in ("demo-worker-0", "demo-worker-1"):
        world.exit(name, 0)
    world.settle()
    assert world.current == "Succeeded"
