"""What a framework's functions can change in the decision."""

from dataclasses import replace
from typing import Any

import pytest

from jobcommon.api.observed import Observed, Rejection
from jobcommon.api.replica import Replica
from jobcommon.framework import Companion, CompanionKind, EnvVar, Framework, Job
from jobcommon.reconcile import plan
from jobcommon.spec import read_job
from jobcommon.testutil.builders import START, job_manifest, observe, pod_manifest, replica_spec, view_of
from jobcommon.testutil.cluster_model import ClusterModel
from jobcommon.testutil.frameworks import TEST_JOB
from jobcommon.testutil.plans import status_of


def tolerant(_job: Job, replica: Replica) -> bool:
    return replica.type == "Worker"


TOLERANT = replace(TEST_JOB, tolerates_failure=tolerant)


@pytest.mark.parametrize("policy", ["OnFailure", "ExitCode"])
def test_tolerance_is_for_what_has_failed_for_good(policy: str) -> None:
    """A failure that its restart policy would have restarted is restarted, tolerated or not."""
    world = ClusterModel.of(TOLERANT, {"Master": 1, "Worker": 2}, policy=policy)
    world.settle()
    world.run()
    world.put(world.pods["demo-worker-0"].failed(137, at=world.now))
    world.start()
    assert world.runs["demo-worker-0"] == 2
    assert world.status["restarts"] == 1


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


@pytest.mark.parametrize(("main_only", "expected"), [(True, [True, False]), (False, [True, True])])
def test_variables_go_to_the_main_container_or_to_all(main_only: bool, expected: list[bool]) -> None:
    framework = replace(TEST_JOB, env_in_main_only=main_only, env=lambda _job, _replica: (EnvVar("A", "b"),))
    spec = replica_spec(framework)
    spec["template"]["spec"]["containers"].append({"name": "sidecar", "image": "side"})
    job = read_job(framework, job_manifest(framework, {"Worker": spec}))
    containers = pod_manifest(framework, job, Replica("Worker", 0))["spec"]["containers"]
    assert ["env" in container for container in containers] == expected
    assert ["ports" in container for container in containers] == [True, False]


@pytest.mark.parametrize(("state", "events"), [("running,failed 137", 2), ("unschedulable", 10), ("running,succeeded", 0)])
def test_a_large_job_gets_a_handful_of_events(state: str, events: int) -> None:
    manifest = job_manifest(TEST_JOB, {"Master": 1, "Worker": 100}, policy="ExitCode")
    pods = {f"Worker-{index}": state for index in range(100)}
    decided = plan(TEST_JOB, read_job(TEST_JOB, manifest), observe(TEST_JOB, manifest, pods), START)
    assert len(decided.events) == events
