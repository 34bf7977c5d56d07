"""Reports of progress: what the server answers, what is written, and by whom."""

import asyncio
import http.client
import json
import os
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, HMACAlgorithm, RSAAlgorithm

from jobcommon.api.status import TrainerStatus
from jobcommon.framework import Framework
from jobcommon.runtime.executor import Executor
from jobcommon.runtime.metrics import Metrics
from jobcommon.runtime.reports import server as report_server
from jobcommon.runtime.reports.account_tokens import KEYS, OPENID_CONFIGURATION, AccountTokens, BoundPod, TokenError
from jobcommon.runtime.reports.bounded_server import Limits
from jobcommon.runtime.reports.server import BusyError, ReportedJob
from jobcommon.runtime.reports.writer import MAX_UNKNOWN, ReportWriter
from jobcommon.runtime.settings import Settings
from localcluster.client import self_signed
from localcluster.model import KEY_NAME, KEY_TABLE
from tests.runtime.fakes import TESTJOB, FakeClock, ScriptedTransport, a_job, quiet_log, reply
from tests.runtime.tap import Tap
from tests.runtime.world import JOBS, SETTINGS, Json, World, operating, world_with_testjobs

AUDIENCE = "kubeflow.org/v1/namespaces/default/testjobs/train/status"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


def report(step: int | None = None, percentage: int = 0, **fields: Any) -> Json:
    metrics = [] if step is None else [{"name": "current_step", "value": str(step)}]
    told = {"progressPercentage": percentage, "metrics": metrics, "lastUpdatedTime": "2026-11-24T02:00:00.123456+00:00"}
    return {"trainerStatus": {**told, **fields}}


class Program:
    """What a pod's program knows, and a client of it that follows Trainer's guide."""

    def __init__(self, world: World, pod: str = "train-worker-0") -> None:
        self.world = world
        self.pod = world.pod(pod)
        container = self.pod["spec"]["containers"][0]
        env = {entry["name"]: entry.get("value", "") for entry in container["env"]}
        self.url = urlsplit(env["KUBEFLOW_TRAINER_SERVER_URL"])
        authority = self.pod["metadata"]["annotations"]["training.kubeflow.org/progress-ca"]
        self.context = ssl.create_default_context(cadata=authority)
        self.token = self.fresh_token()

    def fresh_token(self, audience: str = AUDIENCE, seconds: int = 3600) -> str:
        bound = {"apiVersion": "v1", "kind": "Pod", "name": self.pod["metadata"]["name"], "uid": self.pod["metadata"]["uid"]}
        spec = {"audiences": [audience], "expirationSeconds": seconds, "boundObjectRef": bound}
        answer = self.world.ok("POST", f"{ACCOUNTS}/default/token", {"spec": spec})
        return str(answer["status"]["token"])

    async def post(
        self, body: Any, *, token: str | None = None, path: str | None = None, method: str = "POST"
    ) -> tuple[int, Json]:
        """The answer to one report."""
        headers = {"Authorization": f"Bearer {self.token if token is None else token}", "Content-Type": "application/json"}
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()

        def send() -> tuple[int, Json]:
            connection = http.client.HTTPSConnection(str(self.url.hostname), self.url.port, timeout=100, context=self.context)
            connection.request(method, path or self.url.path, payload, headers)
            response = connection.getresponse()
            return response.status, json.loads(response.read())

        return await asyncio.to_thread(send)


@pytest.fixture
def world() -> World:
    world = world_with_testjobs()
    world.ok("POST", ACCOUNTS, {"metadata": {"name": "default"}})
    return world


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    certificate = self_signed()
    (tmp_path / "tls.crt").write_bytes(certificate.pem)
    (tmp_path / "tls.key").write_bytes(certificate.key)
    return replace(SETTINGS, progress_port=0, progress_tls=str(tmp_path))


@asynccontextmanager
async def running(world: World, settings: Settings, *names: str, **run_policy: Any) -> AsyncIterator[Program]:
    """A job that runs, and the program of its pod."""
    for name in names or ("train",):
        world.ok("POST", JOBS, a_job(name, 1, reportProgress=True, **run_policy))
    async with operating(world, TESTJOB, settings):
        await world.clock.until(lambda: len(world.pods()) == len(names or ("train",)))
        world.play_all("Running")
        await world.clock.until(lambda: "Running" in world.conditions())
        yield Program(world)


def status(world: World, name: str = "train") -> Json:
    found: Json = world.job(name).get("status", {})
    return found


def step_on_record(world: World, name: str) -> int | None:
    return status(world, name).get("progress", {}).get("step")


async def settled(world: World, holds: Callable[[], object]) -> None:
    await world.clock.until(holds)


# -- the answers ---------------------------------------------------------------------------------------------------------------


async def test_a_report_is_answered_and_written(world: World, settings: Settings) -> None:
    async with running(world, settings) as program:
        code, answer = await program.post(report(7, 45, estimatedRemainingSeconds=120, unknown="field"))
        wanted = {
            "progressPercentage": 45,
            "estimatedRemainingSeconds": 120,
            "metrics": [{"name": "current_step", "value": "7"}],
            "lastUpdatedTime": "2026-11-24T02:00:00Z",
        }
        assert (code, answer) == (200, {"trainerStatus": wanted})
        await settled(world, lambda: "trainerStatus" in status(world))
        assert status(world)["trainerStatus"] == wanted
        assert status(world)["progress"]["highestStep"] == 7


LOOP = """
import sys, threading
from jobcommon import report_progress
for step in range(1, 401):
    report_progress(step, 500, loss=1 / step)
    if step == 200:
        report_progress(step, 500, checkpoint=step)
print(threading.active_count())
"""


async def test_a_training_loop_reports_by_the_helper(world: World, settings: Settings, tmp_path: Path) -> None:
    """Its last report is sent when the program ends, and a metric keeps its value."""
    async with running(world, settings) as program:
        values = {"CA_CERT": str(tmp_path / "ca.crt"), "TOKEN": str(tmp_path / "token"), "URL": program.url.geturl()}
        (tmp_path / "ca.crt").write_text(program.pod["metadata"]["annotations"]["training.kubeflow.org/progress-ca"])
        (tmp_path / "token").write_text(f"{program.token}\n")
        env = {**os.environ, **{f"KUBEFLOW_TRAINER_SERVER_{name}": value for name, value in values.items()}}
        done = await asyncio.to_thread(
            subprocess.run, [sys.executable, "-c", LOOP], env=env, capture_output=True, text=True, check=True, timeout=180
        )
        assert (done.stdout, done.stderr) == ("2\n", "")
        await settled(world, lambda: step_on_record(world, "train") == 400)
        metrics = {metric["name"]: metric["value"] for metric in status(world)["trainerStatus"]["metrics"]}
        assert metrics == {"current_step": "400", "total_steps": "500", "loss": "0.0025", "checkpoint": "200"}
        assert status(world)["progress"]["summary"].startswith("████████░░ 80% (400/500)")


def padded(size: int) -> bytes:
    body = json.dumps(report(1)).encode()
    return body + b" " * (size - len(body))


MANY = [{"name": "m" * 64, "value": "v" * 64}] * 256
#: what is sent, the code of the answer, and the reason and message of its Status
ANSWERS: dict[str, tuple[dict[str, Any], int, str, str]] = {
    "nothing": ({"body": {}}, 200, "", ""),
    "no report": ({"body": {"trainerStatus": None}}, 200, "", ""),
    "all that is allowed": ({"body": report(1, metrics=MANY)}, 200, "", ""),
    "64 KiB": ({"body": padded(65536)}, 200, "", ""),
    "more": ({"body": padded(65537)}, 413, "RequestEntityTooLarge", "Payload too large"),
    "no JSON": ({"body": b"invalid payload"}, 422, "Invalid", "Invalid payload"),
    "no body": ({"body": b""}, 422, "Invalid", "Invalid payload"),
    "more than all": ({"body": report(1, 101)}, 422, "Invalid", "trainerStatus.progressPercentage"),
    "less than nothing": ({"body": report(1, estimatedRemainingSeconds=-1)}, 422, "Invalid", "estimatedRemainingSeconds"),
    "a number as text": ({"body": report(1, progressPercentage="4")}, 422, "Invalid", "valid integer"),
    "too many metrics": ({"body": report(1, metrics=[*MANY, *MANY[:1]])}, 422, "Invalid", "at most 256 items"),
    "a long name": ({"body": report(1, metrics=[{"name": "m" * 65, "value": "1"}])}, 422, "Invalid", "at most 64 characters"),
    "no time": ({"body": {"trainerStatus": {"progressPercentage": 4}}}, 422, "Invalid", "lastUpdatedTime"),
    "no such time": ({"body": report(1, lastUpdatedTime="now")}, 422, "Invalid", "lastUpdatedTime: must be an RFC 3339 time"),
    "no token": ({"body": report(1), "token": ""}, 403, "Forbidden", "Forbidden"),
    "a false token": ({"body": report(1), "token": "a.b.c"}, 403, "Forbidden", "Forbidden"),
    "another path": ({"body": report(1), "path": "/healthz"}, 404, "NotFound", "Not found"),
    "another kind": ({"body": report(1), "path": "/apis/kubeflow.org/v1/namespaces/a/b/c/status"}, 404, "NotFound", ""),
    "another job": (
        {"body": report(1), "path": "/apis/kubeflow.org/v1/namespaces/default/testjobs/other/status"}, 403, "Forbidden", "",
    ),
    "another method": ({"body": report(1), "method": "PUT"}, 404, "NotFound", "Not found"),
    "a read": ({"body": b"", "method": "GET"}, 404, "NotFound", "Not found"),
}  # fmt: skip


async def test_the_answers_are_those_of_trainer(world: World, settings: Settings) -> None:
    async with running(world, settings) as program:
        for name, (sent, code, reason, message) in ANSWERS.items():
            answered, answer = await program.post(**sent)
            assert answered == code, name
            if code != 200:
                assert (answer["status"], answer["reason"], answer["code"]) == ("Failure", reason, code), name
                assert message in answer["message"], name


async def test_reports_of_others_neither_change_delay_nor_displace_those_of_the_job(world: World, settings: Settings) -> None:
    """Before a pod is known, and after."""
    names = [f"other-{number}" for number in range(3)]
    async with running(world, settings, "train", *names) as program:
        strangers = [Program(world, f"{name}-worker-0") for name in names]
        for step, stranger in enumerate(strangers, 1):
            stranger.url = program.url
            await stranger.post(report(2**31 - 1, 99))
            await program.post(report(step, step))
            await stranger.post(report(2**31 - 1, 98))
            began = world.clock.monotonic()
            await settled(world, lambda step=step: status(world).get("progress", {}).get("step") == step)
            assert world.clock.monotonic() - began < 1
            assert (await stranger.post(report(1)))[0] == 403
            assert status(world)["progress"]["highestStep"] == step
            assert status(world)["trainerStatus"]["progressPercentage"] == step
            await world.clock.advance(10)


async def test_reports_of_unknown_pods_are_kept_until_they_are_too_many() -> None:
    writer = ReportWriter(ScriptedTransport(), _no_executor, FakeClock(), quiet_log(), Metrics())
    target, sent = ReportedJob(TESTJOB, "default", "train"), TrainerStatus(last_updated_time="2026-11-24T02:00:00Z")
    for number in range(MAX_UNKNOWN):
        writer.take(target, BoundPod("default", "pod", f"{number}"), sent)
    with pytest.raises(BusyError):
        writer.take(target, BoundPod("default", "pod", "one more"), sent)


async def test_reports_of_a_job_without_report_progress_are_not_written(world: World, settings: Settings) -> None:
    async with running(world, settings) as program:
        patch = {"spec": {"runPolicy": {"reportProgress": False}}}
        world.ok("PATCH", f"{JOBS}/train", patch, "application/merge-patch+json")
        assert (await program.post(report(3)))[0] == 200
        await world.clock.advance(30)
        assert "trainerStatus" not in status(world)


async def test_reports_that_cannot_be_written_do_not_hold_up_the_end(world: World, settings: Settings) -> None:
    world.transport = tap = Tap(world.transport)
    async with running(world, settings) as program:
        await program.post(report(1))
        await settled(world, lambda: "progress" in status(world))
        await program.post(report(2))
        tap.open.clear()
        asked = world.clock.monotonic()
    assert world.clock.monotonic() - asked <= 30
    assert step_on_record(world, "train") == 1


def _no_executor(_: Framework) -> Executor:
    raise AssertionError("nothing is written")


async def test_the_last_report_is_written_after_the_job_has_finished(world: World, settings: Settings) -> None:
    """Else a job that has succeeded would be at 99 %."""
    async with running(world, settings) as program:
        await program.post(report(1, 10))
        await settled(world, lambda: "trainerStatus" in status(world))
        await program.post(report(9, 99))
        await program.post(report(None, 100))
        world.play_all("Succeeded", 0)
        await settled(world, lambda: "Succeeded" in world.conditions())
        await settled(world, lambda: status(world)["trainerStatus"]["progressPercentage"] == 100)
        assert status(world)["progress"]["highestStep"] == 9
        before = world.job()["metadata"]["resourceVersion"]
        await world.clock.advance(30)
        assert world.job()["metadata"]["resourceVersion"] == before


async def test_a_new_certificate_is_used_without_a_restart(world: World, settings: Settings) -> None:
    async with running(world, settings) as program:
        new = self_signed()
        directory = Path(settings.progress_tls)
        (directory / "tls.key").write_bytes(new.key)
        (directory / "tls.crt").write_bytes(new.pem)
        with pytest.raises(ssl.SSLError):
            await program.post(report(1))
        program.context = ssl.create_default_context(cadata=new.pem.decode())
        assert (await program.post(report(1)))[0] == 200


# -- what is written -----------------------------------------------------------------------------------------------------------


async def test_a_job_is_written_at_most_every_ten_seconds_after_its_beginning(world: World, settings: Settings) -> None:
    async with running(world, settings) as program:
        versions: tuple[set[str], set[str]] = set(), set()
        for step in range(80):
            await program.post(report(step))
            await world.clock.advance(2)
            versions[step >= 50].add(status(world).get("progress", {}).get("lastReportTime"))
        assert len(versions[0]) in range(25, 40)
        assert len(versions[1]) in (6, 7)
        await settled(world, lambda: status(world)["progress"]["step"] == 79)
        assert status(world)["timeSpent"]["progressing"] == pytest.approx(158, abs=2)


async def test_the_replica_that_does_not_lead_takes_reports_as_well(world: World, settings: Settings) -> None:
    first = replace(settings, leader_elect=True, lease_namespace="default")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    second = replace(first, progress_port=port)
    async with running(world, first) as program, operating(world, TESTJOB, second, name="host_2"):
        await world.clock.advance(1)
        assert program.url.port != port
        program.url = urlsplit(f"https://127.0.0.1:{port}{program.url.path}")
        assert (await program.post(report(5)))[0] == 200
        await settled(world, lambda: status(world).get("progress", {}).get("step") == 5)


async def test_what_is_in_memory_is_written_when_the_operator_is_stopped(world: World, settings: Settings) -> None:
    """One write for each job, without waiting for its turn."""
    # A server closes in real time, in which the simulated time goes on.
    elected = replace(settings, leader_elect=True, lease_namespace="default", lease_duration=1e6, renew_deadline=9e5)
    world.transport = tap = Tap(world.transport)
    async with running(world, elected, "train", "other") as program:
        second = Program(world, "other-worker-0")
        second.token = second.fresh_token(AUDIENCE.replace("train", "other"))
        for each in (program, second):
            await each.post(report(1))
        await settled(world, lambda: step_on_record(world, "train") == step_on_record(world, "other") == 1)
        tap.writes.clear()
        for step in (2, 3):
            for each in (program, second):
                await each.post(report(step))
        assert tap.writes == []
    assert (step_on_record(world, "train"), step_on_record(world, "other")) == (3, 3)
    *statuses, lease = [request.path.rsplit("/", 3)[-2:] for request in tap.writes if "events" not in request.path]
    assert sorted(statuses) == [["other", "status"], ["train", "status"]]
    assert lease == ["leases", "jobcommon-operator"]


@pytest.mark.parametrize("stranger", [False, True])
async def test_no_stall_is_concluded_while_reports_of_the_job_are_refused(
    world: World, settings: Settings, monkeypatch: pytest.MonkeyPatch, stranger: bool
) -> None:
    """Connections without a token, and reports of another job, postpone nothing."""
    patient = partial(Limits, handshake_seconds=3600, request_seconds=3600, per_address=1)
    monkeypatch.setattr(report_server, "Limits", patient)
    take, busy = ReportWriter.take, asyncio.Event()

    def full(*report: Any) -> None:
        if busy.is_set():
            raise BusyError
        take(*report)

    monkeypatch.setattr(ReportWriter, "take", full)
    async with running(world, settings, "train", "other", progressDeadlineSeconds=60, stallAction="Fail") as program:
        other = Program(world, "other-worker-0")
        other.token = other.fresh_token(AUDIENCE.replace("train", "other"))
        for step in (0, 1):
            await program.post(report(step))
            await world.clock.advance(10)
        await settled(world, lambda: status(world)["progress"].get("armed"))
        refused = world.clock.wall() - 10
        busy.set()
        for _ in range(1 if stranger else 3):
            await world.clock.advance(45)
            await one_too_many(program)
            assert (await other.post(report(2)))[0] == 503
            if not stranger:
                refused = world.clock.wall()
                assert (await program.post(report(2)))[0] == 503
        assert "Stalled" not in world.conditions()
        note = "its deadline for progress has started again, because reports could not be taken"
        assert (note in status(world)["conditions"][-1]["message"]) == (not stranger)
        await settled(world, lambda: "Stalled" in world.conditions())
        assert 60 <= world.clock.wall() - refused < 72 if stranger else 62
        await settled(world, lambda: "Failed" in world.conditions())


async def one_too_many(program: Program) -> None:
    """A second connection of the address, for which the server gives up the first one."""
    reader, first = await asyncio.open_connection(program.url.hostname, program.url.port)
    _, second = await asyncio.open_connection(program.url.hostname, program.url.port)
    with suppress(ConnectionError):
        assert await reader.read() == b""
    first.close()
    second.close()


#: --progress-host, --progress-url, and where the server listens; None if it cannot work
HOSTS = [
    ("", "", "127.0.0.1"),
    ("", "https://localhost:8443", "127.0.0.1"),
    ("", "https://[::1]:8443", "127.0.0.1"),
    ("", "https://operators.kubeflow.svc:8443", "0.0.0.0"),
    ("", "https://10.0.0.7", "0.0.0.0"),
    ("127.0.0.1", "https://operators.kubeflow.svc:8443", "127.0.0.1"),
    ("10.0.0.7", "", "10.0.0.7"),
    ("::", "https://operators.kubeflow.svc:8443", "::"),
    ("::", "", None),
    ("0.0.0.0", "", None),
]


@pytest.mark.parametrize(("host", "url", "listens"), HOSTS)
def test_the_server_listens_where_its_url_says(host: str, url: str, listens: str | None) -> None:
    if listens is None:
        with pytest.raises(ValueError, match="progress_url is needed"):
            Settings(progress_port=8443, progress_tls="tls", progress_host=host)
    else:
        settings = Settings(progress_port=8443, progress_tls="tls", progress_host=host, progress_url=url)
        assert (settings.report_host, settings.metrics_host) == (listens, "127.0.0.1")


# -- the keys ------------------------------------------------------------------------------------------------------------------


async def test_a_new_key_of_the_cluster_is_read_soon(world: World, settings: Settings) -> None:
    async with running(world, settings) as program:
        old = program.token
        world.server.storage.put(KEY_TABLE, "", KEY_NAME, {"metadata": {"name": KEY_NAME}, "key": "ab" * 32})
        program.token = program.fresh_token()
        await world.clock.advance(60)
        assert (await program.post(report(1)))[0] == 403
        await world.clock.advance(10)
        assert (await program.post(report(1)))[0] == 200
        assert (await program.post(report(1), token=old))[0] == 403


RSA = rsa.generate_private_key(65537, 2048)
P384 = ec.generate_private_key(ec.SECP384R1())
P521 = ec.generate_private_key(ec.SECP521R1())


OTHER = rsa.generate_private_key(65537, 2048)
SECRET = "secret" * 8
PUBLISHED: list[Json] = [
    {**HMACAlgorithm.to_jwk(SECRET, as_dict=True), "kid": "of another kind"},
    {**RSAAlgorithm.to_jwk(RSA.public_key(), as_dict=True), "kid": "rsa"},
    {**ECAlgorithm.to_jwk(P384.public_key(), as_dict=True), "kid": "P-384"},
    {**ECAlgorithm.to_jwk(P521.public_key(), as_dict=True), "kid": "P-521"},
]
CLAIMS: Json = {
    "iss": "https://issuer", "aud": ["a", AUDIENCE], "exp": 2e9, "nbf": 1.7e9, "iat": 1,
    "kubernetes.io": {"namespace": "ns", "pod": {"name": "pod", "uid": "uid"}, "serviceaccount": {"name": "a", "uid": "b"}},
}  # fmt: skip

#: header, key, changes of the claims, whether it is accepted
TOKENS: dict[str, tuple[Json, Any, Json, bool]] = {
    "RS256": ({"alg": "RS256", "kid": "rsa"}, RSA, {}, True),
    "ES384": ({"alg": "ES384", "kid": "P-384"}, P384, {}, True),
    "ES512": ({"alg": "ES512", "kid": "P-521"}, P521, {}, True),
    "another key's": ({"alg": "RS256", "kid": "rsa"}, OTHER, {}, False),
    "the key's type names the algorithm": ({"alg": "HS256", "kid": "rsa"}, SECRET, {}, False),
    "no secret is a key": ({"alg": "HS256", "kid": "of another kind"}, SECRET, {}, False),
    "no algorithm": ({"alg": "none", "kid": "rsa"}, None, {}, False),
    "an unknown key": ({"alg": "RS256", "kid": "new"}, RSA, {}, False),
    "no key": ({"alg": "RS256"}, RSA, {}, False),
    "another issuer": ({"alg": "RS256", "kid": "rsa"}, RSA, {"iss": "https://other"}, False),
    "expired": ({"alg": "RS256", "kid": "rsa"}, RSA, {"exp": 1.7e9}, False),
    "not yet": ({"alg": "RS256", "kid": "rsa"}, RSA, {"nbf": 1.9e9}, False),
    "for others": ({"alg": "RS256", "kid": "rsa"}, RSA, {"aud": ["a"]}, False),
    "of no pod": ({"alg": "RS256", "kid": "rsa"}, RSA, {"kubernetes.io": {"namespace": "ns"}}, False),
    "with no claims": ({"alg": "RS256", "kid": "rsa"}, RSA, {"exp": "never"}, False),
}  # fmt: skip


@pytest.mark.parametrize(("header", "key", "claims", "accepted"), TOKENS.values(), ids=TOKENS)
async def test_tokens(header: Json, key: Any, claims: Json, accepted: bool) -> None:
    clock = FakeClock()
    transport = ScriptedTransport().on("GET", OPENID_CONFIGURATION, reply({"issuer": "https://issuer"}))
    transport.on("GET", KEYS, reply({"keys": PUBLISHED}))
    tokens = AccountTokens(transport, clock, quiet_log())
    reading = asyncio.create_task(tokens.run())
    await clock.advance(1)
    token = jwt.encode({**CLAIMS, **claims}, key, header["alg"], header)
    if accepted:
        pod = tokens.pod_of(token, AUDIENCE)
        assert (pod.namespace, pod.name, pod.uid) == ("ns", "pod", "uid")
    else:
        with pytest.raises(TokenError):
            tokens.pod_of(token, AUDIENCE)
    reading.cancel()
