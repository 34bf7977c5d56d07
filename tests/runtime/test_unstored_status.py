"""A CustomResourceDefinition that is older than the operator: the API server drops what it does not know of a status."""

import asyncio
from copy import deepcopy
from io import StringIO
from random import Random
from typing import Any

import pytest

from jobcommon.api.status import JobStatus, TrainerStatus
from jobcommon.api.structural import model_schema
from jobcommon.client.request import Request, Response
from jobcommon.controller.unstored import missing_fields
from jobcommon.runtime import logging
from jobcommon.runtime.account_tokens import BoundPod
from jobcommon.runtime.manager import Env, Manager
from jobcommon.runtime.report_server import ReportedJob
from tests.runtime.fakes import TESTJOB, a_job, crd, refusal
from tests.runtime.tap import Passing
from tests.runtime.world import JOBS, SETTINGS, World

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAME = "testjobs.kubeflow.org"
WHOLE = model_schema(JobStatus)


def without(*path: str) -> dict[str, Any]:
    found = deepcopy(WHOLE)
    place = found
    for step in path[:-1]:
        place = place[step]
    del place[path[-1]]
    return found


#: the status of training-operator 1.9
OLD = without("properties", "replicaStatuses", "additionalProperties", "properties", "restarts")
OLD["properties"] = {
    name: OLD["properties"][name]
    for name in ("completionTime", "conditions", "lastReconcileTime", "replicaStatuses", "startTime")
}


async def may_not_read_the_schema(request: Request) -> Response | None:
    return refusal(403, "Forbidden") if request.path.startswith("/openapi") else None


class Bench(World):
    """An operator of a kind whose installed definition has this schema for the status."""

    def __init__(self, status: dict[str, Any], *, openapi: bool) -> None:
        super().__init__()
        self.ok("POST", DEFINITIONS, crd(status=status))
        if not openapi:
            self.transport = Passing(self.transport, may_not_read_the_schema)  # type: ignore[assignment]
        self.log = StringIO()
        env = Env(self.clock, Random(3).random, "host_1")
        log = logging.setup("json", "debug", self.log)
        self.manager = Manager(self.transport, [TESTJOB], SETTINGS, env=env, log=log)

    def install(self, status: dict[str, Any]) -> None:
        found = self.ok("GET", f"{DEFINITIONS}/{NAME}")
        self.ok("PUT", f"{DEFINITIONS}/{NAME}", {**found, "spec": crd(status=status)["spec"]})

    async def __aenter__(self) -> "Bench":
        self.task = asyncio.create_task(self.manager.run())
        await self.clock.until(lambda: self.manager.drivers and self.manager.drivers[0].controller.synced)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.manager.stop()
        await self.clock.until(self.task.done, step=0.5)
        self.task.result()

    @property
    def unstored(self) -> float | None:
        name = "training_operator_unstored_status_fields"
        return self.manager.metrics.registry.get_sample_value(name, {"framework": TESTJOB.name})

    def message(self) -> str:
        return str(self.job()["status"]["conditions"][0]["message"])


@pytest.mark.parametrize("openapi", [True, False], ids=["schema readable", "by writes alone"])
async def test_no_action_while_status_fields_are_pruned_then_resume(openapi: bool) -> None:
    async with Bench(OLD, openapi=openapi) as world:
        await world.clock.advance(1)
        assert world.manager.ready is not openapi, "the schema is checked before there is a job"
        world.ok("POST", JOBS, a_job(workers=1, restart="ExitCode", backoffLimit=2))
        await world.clock.until(lambda: len(world.pods()) == 1, step=0.1)
        uid = world.pods()[0]["metadata"]["uid"]
        world.play_all("Running")
        world.play_all("Failed", 139)
        await world.clock.until(lambda: "Restarting" in world.conditions(), step=0.1)
        await world.clock.advance(200)
        assert [pod["metadata"]["uid"] for pod in world.pods()] == [uid], "its failure is not on record"
        assert not world.manager.ready
        assert world.unstored
        assert "the CustomResourceDefinition testjobs.kubeflow.org is outdated: status." in world.log.getvalue()
        await world.clock.until(lambda: "testjobs.kubeflow.org is outdated" in world.message(), step=1)
        world.install(model_schema(JobStatus))
        mended = world.clock.monotonic()
        await world.clock.until(lambda: world.pods()[0]["metadata"]["uid"] != uid, step=0.5)
        assert world.clock.monotonic() - mended <= (20 if openapi else 90)
        assert world.job()["status"]["restarts"] == 1
        await world.clock.until(lambda: world.manager.ready and not world.unstored, step=0.5)
        await world.clock.until(lambda: "outdated" not in world.message(), step=1)
        assert "keeps the whole status again" in world.log.getvalue()


async def test_a_definition_that_is_replaced_by_an_older_one_is_noticed_by_the_next_write() -> None:
    async with Bench(model_schema(JobStatus), openapi=True) as world:
        await world.clock.until(lambda: world.manager.ready)
        world.ok("POST", JOBS, a_job(workers=1, restart="ExitCode", backoffLimit=2))
        await world.clock.until(lambda: len(world.pods()) == 1, step=0.1)
        world.install(OLD)
        assert world.manager.ready
        world.play_all("Failed", 139)
        await world.clock.until(lambda: not world.manager.ready, step=0.1)


@pytest.mark.parametrize(
    ("schema", "fields"),
    [
        (WHOLE, set()),
        ({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, set()),
        (without("properties", "restarts"), {"restarts"}),
        (without("properties", "failures", "items", "properties", "exitCode"), {"failures.exitCode"}),
        (
            without("properties", "replicaStatuses", "additionalProperties", "properties", "restarts"),
            {"replicaStatuses.restarts"},
        ),
        (
            OLD,
            {field.alias or name for name, field in JobStatus.model_fields.items()} - {*OLD["properties"]}
            | {"replicaStatuses.restarts"},
        ),
    ],
)
def test_undeclared_status_fields_are_found(schema: dict[str, Any], fields: set[str]) -> None:
    assert missing_fields(model_schema(JobStatus), schema) == fields


async def test_a_report_of_progress_that_was_dropped_does_not_count_as_recorded() -> None:
    async with Bench(OLD, openapi=True) as world:
        world.ok("POST", JOBS, a_job(workers=1, reportProgress=True))
        await world.clock.until(lambda: len(world.pods()) == 1, step=0.1)
        writer = world.manager.report_writer()
        writing = asyncio.create_task(writer.run())
        await world.clock.advance(1)
        pod, job = world.pods()[0]["metadata"], world.job()["metadata"]
        report = TrainerStatus(progress_percentage=50, last_updated_time="2026-11-24T02:00:00Z")
        target = ReportedJob(TESTJOB, "default", job["name"])
        writer.take(target, BoundPod("default", pod["name"], pod["uid"]), report)
        await world.clock.until(lambda: "the API server dropped status.progress, status.trainerStatus" in world.log.getvalue())
        world.install(model_schema(JobStatus))
        await world.clock.until(lambda: "trainerStatus" in world.job()["status"], step=1)
        writing.cancel()
