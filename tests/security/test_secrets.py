"""S18, S23: secrets stay where they belong, and no man in the middle is trusted."""

import base64
import json
import ssl
from io import StringIO
from pathlib import Path

import pytest
import yaml

from jobcommon.client.errors import ClientError
from jobcommon.client.request import Request
from jobcommon.client.transport import HttpTransport, StaticEndpoint
from jobcommon.operators.mpi import MPI
from jobcommon.runtime import logging
from jobcommon.runtime.settings import Settings
from jobcommon.testutil.builders import job_manifest
from localcluster import ApiServer, Env, serve
from localcluster.client import ADMIN, self_signed
from tests.cli.commands import answered
from tests.runtime.test_unwatched_companions import ALL, CORE, LAUNCHER, SECRET, Watched
from tests.runtime.world import operating

TOKEN = "canary-token-6f1d"
ENVIRONMENT = "canary-environment-77ab"
METRICS = "canary-metrics-90cc"


async def test_s18_canaries_are_in_no_log_event_status_or_metric() -> None:
    """The life of a job with keys, at the most talkative level, with a failure and a conflict in it."""
    world, out = Watched(), StringIO()
    template = json.loads(json.dumps(LAUNCHER))
    template["template"]["spec"]["containers"][0]["env"] = [{"name": "PASSWORD", "value": ENVIRONMENT}]
    settings = Settings(metrics_port=None, metrics_token=METRICS, log_level="debug")
    async with operating(world, MPI, settings, log=logging.setup("json", "debug", out)) as process:
        world.submit({"Launcher": template, "Worker": 2}, run_policy={"backoffLimit": 1})
        await world.clock.until(lambda: ALL <= world.named(), step=0.5)  # noqa: SIM300
        secret = world.ok("GET", SECRET)["data"]
        world.play_all("Running")
        world.ok("DELETE", f"{CORE}/configmaps/train-config")
        world.play("train-worker-1", "Failed", 137)
        await world.clock.advance(30)
        world.play("train-launcher", "Failed", 1)
        await world.clock.advance(60)
        metrics = process.manager.metrics.render().decode()
    logs = out.getvalue()
    assert "train" in logs
    assert '"level": "debug"' in logs
    events = json.dumps(world.ok("GET", f"{CORE}/events")["items"])
    status = json.dumps(world.job()["status"])
    private = base64.b64decode(secret["ssh-privatekey"]).decode()
    # Any line of the key, and the whole in the form of the Secret.
    key = {line for line in private.splitlines() if len(line) > 40} | {secret["ssh-privatekey"]}
    for place in (logs, events, status, metrics, repr(settings), repr(process.manager.settings)):
        for canary in (ENVIRONMENT, METRICS, *key):
            assert canary not in place


def test_s18_plan_shows_no_key(tmp_path: Path) -> None:
    manifest = job_manifest(MPI, {"Launcher": 1, "Worker": 1})
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(manifest))
    for form in ("text", "yaml"):
        done = answered("plan", "-f", str(path), "-o", form)
        assert done.returncode == 0, done.stderr
        assert "create secrets/demo-ssh" in done.stdout
        assert "PRIVATE" not in done.stdout
        assert "ssh-privatekey:" not in done.stdout


async def test_s23_a_certificate_of_another_authority_is_refused_before_anything_is_said() -> None:
    server, ours, theirs = ApiServer(Env.system(), tokens={TOKEN: ADMIN}), self_signed(), self_signed()
    async with serve(server, ssl_context=theirs.server_context()) as front:
        trusted = ssl.create_default_context(cadata=ours.pem.decode())
        wrong = HttpTransport(StaticEndpoint(front.url, TOKEN, trusted))
        with pytest.raises(ClientError):
            await wrong.send(Request("POST", "/api/v1/pods"))  # which is not tried again
        await wrong.close()
        right = HttpTransport(StaticEndpoint(front.url, TOKEN, ssl.create_default_context(cadata=theirs.pem.decode())))
        assert (await right.send(Request("GET", "/api/v1/pods"))).status == 200
        await right.close()
