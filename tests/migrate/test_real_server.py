"""A real API server takes the batch Jobs that a JobSet makes of the runtimes of `jobcommon migrate`."""

import msgspec
import pytest

from jobcommon.client.request import Request
from localcluster.conformance import real
from tests.migrate.test_migrate import CARRIED, forward

JOBS = "/apis/batch/v1/namespaces/default/jobs"
DRY = (("dryRun", "All"), ("fieldValidation", "Strict"))


@pytest.mark.skipif(not real.available(), reason=real.WHY_NOT)
async def test_the_jobs_are_valid() -> None:
    async with real.real() as target:
        assert target is not None
        for name, body in CARRIED.items():
            runtime, _ = forward(body).objects
            for group in runtime["spec"]["template"]["spec"]["replicatedJobs"]:
                job = {"metadata": {"name": "one"}, "spec": group["template"]["spec"]}
                answer = await target.transport.send(Request("POST", JOBS, DRY, msgspec.json.encode(job)))
                assert answer.status == 201, (name, group["name"], answer.body)
