"""A CustomResourceDefinition that is older than the operator: the API server drops what it does not know of a status."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import deepcopy
from io import StringIO
from typing import Any

import pytest

from jobcommon.api.model import model_schema
from jobcommon.api.status import JobStatus
from jobcommon.cli.doctor.definitions import missing_fields
from jobcommon.runtime import logging
from tests.runtime.fakes import a_job, crd
from tests.runtime.world import JOBS, Process, World, operating

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
del OLD["properties"]["replicaStatuses"]["additionalProperties"]["properties"]["failedRuns"]
OLD["properties"] = {
    name: OLD["properties"][name]
    for name in ("completionTime", "conditions", "lastReconcileTime", "replicaStatuses", "startTime")
}


@asynccontextmanager
async def operated(status: dict[str, Any]) -> AsyncIterator[tuple[World, Process, StringIO]]:
    """An operator of a kind whose installed definition has this schema for the status, and its log."""
    world, out = World(), StringIO()
    world.ok("POST", DEFINITIONS, crd(status=status))
    async with operating(world, log=logging.setup("json", "debug", out)) as process:
        await world.clock.until(lambda: process.manager.drivers and process.manager.drivers[0].controller.synced)
        yield world, process, out


def install(world: World, status: dict[str, Any]) -> None:
    found = world.ok("GET", f"{DEFINITIONS}/{NAME}")
    world.ok("PUT", f"{DEFINITIONS}/{NAME}", {**found, "spec": crd(status=status)["spec"]})


def unstored(process: Process) -> float | None:
    return process.sample("training_operator_unstored_status_fields")


def message(world: World) -> str:
    return str(world.job()["status"]["conditions"][0]["message"])


async def test_no_action_while_status_fields_are_pruned_then_resume() -> None:
    async with operated(OLD) as (world, process, out):
        world.ok("POST", JOBS, a_job(workers=1, restart="ExitCode", backoffLimit=2))
        await world.clock.until(lambda: len(world.pods()) == 1, step=0.1)
        uid = world.pods()[0]["metadata"]["uid"]
        world.play_all("Running")
        world.play_all("Failed", 139)
        await world.clock.until(lambda: "Restarting" in world.conditions(), step=0.1)
        await world.clock.advance(200)
        assert [pod["metadata"]["uid"] for pod in world.pods()] == [uid], "its failure is not on record"
        assert not process.manager.ready
        assert unstored(process)
        assert "the CustomResourceDefinition testjobs.kubeflow.org is outdated: status." in out.getvalue()
        await world.clock.until(lambda: "testjobs.kubeflow.org is outdated" in message(world), step=1)
        install(world, WHOLE)
        corrected = world.clock.monotonic()
        await world.clock.until(lambda: world.pods()[0]["metadata"]["uid"] != uid, step=0.5)
        assert world.clock.monotonic() - corrected <= 90
        assert world.job()["status"]["restarts"] == 1
        await world.clock.until(lambda: process.manager.ready and not unstored(process), step=0.5)
        await world.clock.until(lambda: "outdated" not in message(world), step=1)
        assert "keeps the whole status again" in out.getvalue()


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
            | {"replicaStatuses.restarts", "replicaStatuses.failedRuns"},
        ),
    ],
)
def test_undeclared_status_fields_are_found(schema: dict[str, Any], fields: set[str]) -> None:
    assert missing_fields(model_schema(JobStatus), schema) == fields
