"""Every oracle fires on what it is for, and on nothing else: each bad deed is done by hand, as an operator might do it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from jobcommon.api.timestamp import format_time
from jobcommon.client.request import JSON, MERGE_PATCH, Request
from jobcommon.framework import FINALIZER
from jobcommon.manifests.children import pod_manifest, service_manifests
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.spec import read_job
from jobcommon.testutil.builders import START, job_manifest
from jobcommon.testutil.sim import user
from jobcommon.testutil.sim.oracles import Watchdog
from jobcommon.testutil.sim.scenario import Scenario
from localcluster import ApiServer, Env
from localcluster.client import ADMIN

Obj = dict[str, Any]
OPERATOR = "operator-0"
JOB = user.path_of(PYTORCH, "demo")
PODS = user.path_of("pods")
MASTER = f"{PODS}/demo-master-0"


def job_of(name: str, run: Obj | None = None) -> Obj:
    job = job_manifest(PYTORCH, {"Master": 1, "Worker": 1}, policy="ExitCode", run_policy=run)
    return {**job, "metadata": {"name": name, "namespace": user.NAMESPACE}}


class World:
    """A server whose every change the watchdog sees, with one job of two replicas."""

    def __init__(self, run: Obj | None = None) -> None:
        self.at = 0.0
        self.server = ApiServer(Env.seeded(1, lambda: START + self.at))
        user.install(self.server, PYTORCH)
        self.feed = self.server.storage.feed()
        self.watchdog = Watchdog(Scenario("test", (PYTORCH,), ()))
        self.do("user", "POST", user.path_of(PYTORCH), job_of("demo", run))

    def do(self, writer: str, method: str, path: str, body: Any = None, kind: str = JSON) -> Obj:
        data = None if body is None else msgspec.json.encode(body)
        response = self.server.handle(Request(method, path, body=data, content_type=kind), ADMIN)
        assert response.status < 300, response.body
        while self.feed:
            self.watchdog.see(self.at, self.feed.popleft(), writer)
        answer: Obj = msgspec.json.decode(response.body)
        return answer

    def merge(self, writer: str, path: str, patch: Obj) -> Obj:
        return self.do(writer, "PATCH", path, patch, MERGE_PATCH)

    def status(self, writer: str = OPERATOR, *conditions: str, reason: str = "R", **fields: Any) -> None:
        moment = format_time(START + self.at)
        shown = [
            {"type": c.rstrip("-"), "status": "False" if c.endswith("-") else "True", "reason": reason, "message": "m",
             "lastUpdateTime": moment, "lastTransitionTime": moment}
            for c in conditions
        ]  # fmt: skip
        ended = {"completionTime": moment} if {"Succeeded", "Failed"} & set(conditions) else {}
        start = format_time(START)
        status = {"conditions": shown, "replicaStatuses": {}, "startTime": start, **ended, **fields}
        job = self.do("user", "GET", JOB)
        self.do(writer, "PUT", f"{JOB}/status", {**job, "status": status})

    def pod(self, kind: str = "Master", index: int = 0, writer: str = OPERATOR, **metadata: Any) -> Obj:
        job = read_job(PYTORCH, self.do("user", "GET", JOB))
        replica = next(r for r in replace_count(job, 5) if r.type == kind and r.index == index)
        manifest = pod_manifest(PYTORCH, job, replica)
        return self.do(writer, "POST", PODS, {**manifest, "metadata": {**manifest["metadata"], **metadata}})

    def phase(self, phase: str, path: str = MASTER) -> None:
        self.merge("world", f"{path}/status", {"status": {"phase": phase}})

    @property
    def rules(self) -> list[str]:
        return [violation.partition(" ")[0] for violation in self.watchdog.violations]


def replace_count(job: Any, count: int) -> Iterator[Any]:
    """The slots of the job, as if it had that many of each type."""
    specs = {kind: spec.model_copy(update={"replicas": count}) for kind, spec in job.replica_specs.items()}
    return iter(replace(job, replica_specs=specs).replicas)


@pytest.fixture
def world() -> World:
    return World()


def test_a_good_life_is_not_complained_of(world: World) -> None:
    job = read_job(PYTORCH, world.do("user", "GET", JOB))
    world.do(OPERATOR, "POST", user.path_of("services"), service_manifests(PYTORCH, job)[0])
    first = world.pod()
    world.status(OPERATOR, "Created")
    world.phase("Running")
    world.status(OPERATOR, "Created", "Running")
    world.phase("Failed")
    world.status(OPERATOR, "Created", "Restarting", restarts=1, countedPods=[first["metadata"]["uid"]])
    world.merge(OPERATOR, MASTER, {"metadata": {"finalizers": None}})
    world.do(OPERATOR, "DELETE", MASTER)
    world.pod()
    world.phase("Succeeded")
    world.at = 10
    done = {"Master": {"succeeded": 1, "succeededIndexes": "0"}}
    world.status(OPERATOR, "Created", "Succeeded", restarts=1, replicaStatuses=done)
    world.merge(OPERATOR, MASTER, {"metadata": {"finalizers": None}})
    world.do(OPERATOR, "DELETE", MASTER)
    assert world.watchdog.violations == []
    assert world.watchdog.summary["ADDED", "pods", "demo-master-0"] == 2


def test_two_live_pods_of_one_slot(world: World) -> None:
    world.pod()
    world.pod(name="demo-master-0-again")
    assert world.rules == ["two-live-pods"]


def test_a_pod_without_a_job(world: World) -> None:
    world.pod(ownerReferences=[])
    assert world.rules == ["stranger-created"]


def test_another_owners_pod_is_touched(world: World) -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "other", "uid": "other", "controller": True}
    world.pod(writer="user", ownerReferences=[owner])
    world.do(OPERATOR, "DELETE", MASTER)
    assert "stranger-touched" in world.rules


def test_another_owners_service_is_touched(world: World) -> None:
    world.do("user", "POST", user.path_of("services"), {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}})
    world.do(OPERATOR, "DELETE", user.path_of("services", "web"))
    assert world.rules == ["stranger-touched"]


@pytest.mark.parametrize("phase", ["Pending", "Running"])
def test_a_healthy_pod_is_deleted(world: World, phase: str) -> None:
    world.pod()
    world.phase(phase)
    world.do(OPERATOR, "DELETE", MASTER)
    assert world.rules[0] == "healthy-deleted"


def test_a_healthy_pod_may_go_with_a_reason(world: World) -> None:
    world.pod("Worker", 0)
    world.merge("user", JOB, {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 2}}}})
    world.pod("Worker", 1)
    world.merge("user", JOB, {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 1}}}})
    world.do(OPERATOR, "DELETE", f"{PODS}/demo-worker-1")
    world.merge("user", JOB, {"spec": {"runPolicy": {"suspend": True}}})
    world.do(OPERATOR, "DELETE", f"{PODS}/demo-worker-0")
    assert world.rules == []


@pytest.mark.parametrize(
    ("run", "at", "rules"),
    [
        ({}, 58.5, ["stopped-early"]),
        ({}, 59, []),
        ({"cleanPodPolicy": "Running"}, 0, []),
        ({"suspend": True}, 0, []),
    ],
)
@pytest.mark.parametrize("end", ["Succeeded", "Failed"])
def test_a_pod_that_may_end_by_itself_is_deleted(run: Obj, at: float, rules: list[str], end: str) -> None:
    world = World(run)
    world.pod("Worker", 0)
    path = f"{PODS}/demo-worker-0"
    world.do("user", "POST", f"{path}/binding", {"target": {"name": "node-1"}})
    world.phase("Running", path)
    world.status(OPERATOR, "Created", end)
    world.at = at
    world.do(OPERATOR, "DELETE", path)
    assert [rule for rule in world.rules if rule == "stopped-early"] == (rules if end == "Succeeded" else [])


def test_a_scale_up_long_ago_is_no_reason(world: World) -> None:
    world.merge("user", JOB, {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 2}}}})
    world.pod("Worker", 1)
    world.at = 500
    world.do(OPERATOR, "DELETE", f"{PODS}/demo-worker-1")
    assert world.rules[0] == "healthy-deleted"


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_evidence_is_destroyed(world: World, phase: str) -> None:
    world.pod()
    world.phase(phase)
    world.merge(OPERATOR, MASTER, {"metadata": {"finalizers": None}})
    assert world.rules == ["evidence-destroyed"]


def test_evidence_is_destroyed_without_finalizers(world: World) -> None:
    world.pod(finalizers=[])
    world.phase("Failed")
    world.do(OPERATOR, "DELETE", MASTER)
    assert "evidence-destroyed" in world.rules


def test_a_slot_is_run_again_after_its_success(world: World) -> None:
    world.status(OPERATOR, "Created", replicaStatuses={"Master": {"succeeded": 1, "succeededIndexes": "0"}})
    world.pod()
    assert world.rules == ["rerun-after-success"]


def test_a_pod_for_a_finished_job(world: World) -> None:
    world.status(OPERATOR, "Created", "Failed")
    world.pod("Worker", 0)
    assert world.rules == ["pod-for-finished-job"]


def test_a_job_is_created_or_its_spec_changed(world: World) -> None:
    world.do(OPERATOR, "POST", user.path_of(PYTORCH), job_of("other"))
    world.merge(OPERATOR, JOB, {"spec": {"runPolicy": {"suspend": True}}})
    assert world.rules == ["job-created", "spec-changed"]


@pytest.mark.parametrize(
    ("conditions", "rule"),
    [
        (("Created", "Running", "Restarting"), "conditions-exclusive"),
        (("Succeeded", "Failed"), "conditions-exclusive"),
        (("Running", "Succeeded"), "conditions-exclusive"),
        (("Created", "Running-"), "current-condition"),
        (("Created", "Created"), "conditions-unique"),
    ],
)
def test_conditions(world: World, conditions: tuple[str, ...], rule: str) -> None:
    world.status(OPERATOR, *conditions)
    assert rule in world.rules


def test_an_end_without_its_time_or_before_its_beginning(world: World) -> None:
    world.status(OPERATOR, "Failed", completionTime=None)
    assert world.rules == ["completion-time"]
    other = World()
    other.status(OPERATOR, "Failed", completionTime=format_time(START - 100))
    assert other.rules == ["times-ordered"]


def test_an_end_is_taken_back(world: World) -> None:
    world.status(OPERATOR, "Succeeded")
    world.status(OPERATOR, "Created", "Running")
    assert world.rules == ["terminal-for-ever", "terminal-for-ever"]
    other = World()
    other.status(OPERATOR, "Succeeded")
    other.status(OPERATOR, "Succeeded-", "Failed", completionTime=format_time(START))
    assert other.rules == ["terminal-for-ever"]


def test_an_end_that_a_user_forged_is_not_held_against_anybody(world: World) -> None:
    world.status("user", "Succeeded")
    world.status(OPERATOR, "Created", "Running")
    assert world.rules == []


def test_counters_go_back(world: World) -> None:
    failure = {"replica": "Worker-0", "reason": "Error"}
    done = {"Worker": {"succeeded": 1, "succeededIndexes": "0"}}
    for index in (3, 4):
        world.pod("Worker", index)
        world.phase("Failed", f"{PODS}/demo-worker-{index}")
    world.status(OPERATOR, "Created", restarts=2, disruptions=1, failures=[failure], replicaStatuses=done)
    world.status(OPERATOR, "Created", restarts=1)
    assert world.rules == ["counters-grow", "counters-grow", "counters-grow", "success-durable"]


@pytest.mark.parametrize(
    ("fields", "conditions", "rules"),
    [
        ({"disruptions": 1}, ("Created",), ["stopped-on-purpose"]),
        ({"restarts": 1}, ("Created",), ["stopped-on-purpose"]),
        ({"reason": "PyTorchJobFailed"}, ("Created", "Failed"), ["stopped-on-purpose"]),
        ({}, ("Created", "Suspended"), []),
    ],
)
@pytest.mark.parametrize("deleted_by", [OPERATOR, "user"])
def test_pods_stopped_on_purpose_are_counted(
    world: World, fields: Obj, conditions: tuple[str, ...], rules: list[str], deleted_by: str
) -> None:
    """The operator suspends the job: that its pod ends with an error is nothing. What others delete is a disruption."""
    world.pod()
    world.merge("user", MASTER, {"metadata": {"labels": {"bound": "yes"}}})
    world.do("user", "POST", f"{MASTER}/binding", {"target": {"name": "node-1"}})
    world.phase("Running")
    world.merge("user", JOB, {"spec": {"runPolicy": {"suspend": True}}})
    world.status(OPERATOR, "Created", "Suspended")
    world.do(deleted_by, "DELETE", MASTER)
    world.phase("Failed")
    world.status(OPERATOR, *conditions, **fields)
    by_others = deleted_by == "user" and not fields.get("restarts")
    assert world.rules == ([] if by_others else rules)


def test_the_job_is_deleted_without_or_before_its_time() -> None:
    world = World()
    world.do(OPERATOR, "DELETE", JOB)
    assert world.rules == ["job-deleted"]
    early = World({"ttlSecondsAfterFinished": 30})
    early.status(OPERATOR, "Succeeded")
    early.at = 25
    early.do(OPERATOR, "DELETE", JOB)
    assert early.rules == ["expired-early"]
    due = World({"ttlSecondsAfterFinished": 30})
    due.status(OPERATOR, "Succeeded")
    due.at = 30
    due.do(OPERATOR, "DELETE", JOB)
    assert due.rules == []


def test_the_finalizer_is_ours() -> None:
    world = World()
    assert world.pod()["metadata"]["finalizers"] == [FINALIZER]
