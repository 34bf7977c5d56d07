"""S14 to S17: what listens, what it tells whom, and that there is no webhook."""

import asyncio
import base64
import os
import re
import ssl
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import aiohttp
import pytest
import yaml

from jobcommon.cli.errors import UserError
from jobcommon.cli.main import app
from jobcommon.cli.operate import token_in
from jobcommon.crd import custom_resource_definition, rbac
from jobcommon.runtime import logging
from jobcommon.runtime.clock import SystemClock
from jobcommon.runtime.health import serve_health
from jobcommon.runtime.logging import Log
from jobcommon.runtime.metrics import Metrics
from jobcommon.runtime.settings import Settings
from tests.charts.charts import CHARTS, FRAMEWORKS, OPERATORS, container, render
from tests.cli.commands import cluster_up
from tests.runtime.fakes import quiet_log

TOKEN = "a-token-for-scraping"


def health_of(metrics: Metrics, *, log: Log | None = None, **options: Any) -> AbstractAsyncContextManager[int]:
    return serve_health(metrics, lambda: True, SystemClock(), log or quiet_log(), **options)


@asynccontextmanager
async def served(token: str | None = TOKEN) -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    server = health_of(Metrics(), host="127.0.0.1", port=0, token=token)
    async with server as port, aiohttp.ClientSession() as client:
        yield client, f"http://127.0.0.1:{port}"


async def test_health_fails_while_the_event_loop_is_blocked() -> None:
    """Asked from another thread, as the kubelet asks from another process."""
    server = health_of(Metrics(), host="127.0.0.1", port=0, stalled_after=1.5)

    def status(url: str) -> int:
        try:
            with urlopen(url, timeout=180) as answer:
                return int(answer.status)
        except HTTPError as error:
            return error.code

    def until(url: str, wanted: int) -> int:
        return next(code for code in iter(lambda: status(url), 0) if code == wanted)

    async with server as port:
        url = f"http://127.0.0.1:{port}/healthz"
        assert await asyncio.to_thread(until, url, 200) == 200
        with ThreadPoolExecutor(1) as pool:
            # The loop does not turn until the answer is there, as with a plan that never ends.
            assert pool.submit(until, url, 503).result(timeout=180) == 503
        assert await asyncio.to_thread(until, url, 200) == 200, "it goes on"


async def test_a_port_that_is_taken_is_an_error() -> None:
    async with health_of(Metrics(), host="127.0.0.1", port=0) as port:
        with pytest.raises(OSError, match=str(port)):
            async with health_of(Metrics(), host="127.0.0.1", port=port):
                pass


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (None, 401),
        ("", 401),
        ("Basic eDp5", 401),
        (TOKEN, 401),
        ("Bearer ", 401),
        ("Bearer wrong", 403),
        (f"Bearer {TOKEN}x", 403),
        (f"Bearer {TOKEN[:-1]}", 403),
        (f"Bearer {TOKEN}", 200),
    ],
)
async def test_s14_metrics_want_the_token(header: str | None, status: int) -> None:
    headers = {} if header is None else {"Authorization": header}
    async with served() as (client, url), client.get(f"{url}/metrics", headers=headers) as answer:
        assert answer.status == status
        text = await answer.text()
    assert ("process_cpu_seconds_total" in text) == (status == 200)
    assert TOKEN not in text


async def test_s14_probes_need_no_token() -> None:
    async with served() as (client, url):
        for path in ("/healthz", "/readyz"):
            async with client.get(url + path) as answer:
                assert (answer.status, await answer.text()) == (200, "ok\n")


def test_s14_the_token_comes_from_a_file_and_never_from_an_argument(tmp_path: Path) -> None:
    operator = next(command.callback for command in app.registered_commands if command.name == "operator")
    assert operator is not None
    assert {name for name in operator.__annotations__ if "token" in name} == {"metrics_token_file"}
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert token_in(file) == TOKEN
    assert TOKEN not in repr(Settings(metrics_token=TOKEN))
    for content in ("", " \n", "two words", "a\nb", "naïve"):
        file.write_text(content)
        with pytest.raises(UserError, match="must hold one token"):
            token_in(file)
    with pytest.raises(UserError, match="cannot be read"):
        token_in(tmp_path / "missing")


def test_s14_without_a_flag_nothing_but_loopback_is_listened_on() -> None:
    assert Settings().metrics_host == "127.0.0.1"
    assert "--metrics-host=0.0.0.0" in container(render("training-operators"))["args"], "there it is said"


@pytest.mark.parametrize(
    "path", ["/", "/debug", "/debug/pprof/", "/debug/vars", "/config", "/env", "/metrics/", "/../etc/passwd"]
)
async def test_s15_there_is_nothing_else_to_be_asked(path: str) -> None:
    async with served(None) as (client, url), client.get(url + path, headers={"Authorization": f"Bearer {TOKEN}"}) as answer:
        assert answer.status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
async def test_s15_nothing_can_be_changed(method: str) -> None:
    async with served(None) as (client, url):
        for path in ("/metrics", "/healthz", "/readyz"):
            async with client.request(method, url + path) as answer:
                assert answer.status == 405


async def test_s15_a_failure_shows_no_traceback_and_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", "environment-canary")

    def breaks() -> bytes:
        raise RuntimeError(os.environ["CANARY"])

    metrics, out = Metrics(), StringIO()
    log = logging.setup("json", "info", out)
    monkeypatch.setattr(metrics, "render", breaks)
    async with (
        health_of(metrics, log=log, host="127.0.0.1", port=0) as port,
        aiohttp.ClientSession() as client,
        client.get(f"http://127.0.0.1:{port}/metrics") as answer,
    ):
        assert answer.status == 500
        text = await answer.text()
    assert "Traceback" not in text
    assert "canary" not in text
    assert "could not serve a page" in out.getvalue()
    assert "RuntimeError" in out.getvalue(), "the log says what has failed"


@cache
def every_manifest() -> list[dict[str, Any]]:
    found = [o for chart in OPERATORS for v in ({}, {"watchNamespace": "a"}, {"mpiExec": True}) for o in render(chart, **v)]
    for path in CHARTS.glob("kustomize/*/*.yaml"):
        found += [o for o in yaml.safe_load_all(path.read_text()) if o]
    return found + [custom_resource_definition(framework) for framework in FRAMEWORKS.values()]


def test_s16_there_is_no_webhook_and_so_no_certificate_to_rotate() -> None:
    for manifest in every_manifest():
        kind = manifest["kind"]
        assert not re.search("Webhook|APIService|CertificateSigningRequest|Issuer", kind)
        assert kind != "Secret"
        if kind == "CustomResourceDefinition":
            assert "webhook" not in str(manifest["spec"].get("conversion", {})).lower()


def test_s17_there_is_no_endpoint_to_call() -> None:
    """Decisions are pure functions besides; the only port of an operator is that of metrics and health (S15)."""
    for manifest in every_manifest():
        if manifest["kind"] == "Service":
            assert [port["name"] for port in manifest["spec"]["ports"]] == ["metrics"]
        if manifest["kind"] == "Deployment":
            containers = manifest["spec"]["template"]["spec"]["containers"]
            assert [port["name"] for c in containers for port in c["ports"]] == ["metrics"]
    groups = {rule.group for rule in rbac.operator_rules(FRAMEWORKS.values(), grants=True)}
    assert "admissionregistration.k8s.io" not in groups


def listening(pid: int) -> set[str]:
    """The addresses, as in /proc/net/tcp, on which a process listens."""
    inodes = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        target = str(link.readlink())
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    found = set()
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[9] in inodes and (fields[3] == "0A" or table.startswith("udp")):
                found.add(fields[1].partition(":")[0])
    return found


@pytest.mark.cluster
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="sockets are looked up in /proc")
async def test_s15_the_embedded_cluster_is_on_loopback_only_and_wants_the_token_of_its_kubeconfig(tmp_path: Path) -> None:
    def up() -> tuple[set[str], dict[str, Any], int]:
        with cluster_up(tmp_path) as kubectl:
            kubectl("run", "p", "--image=any", "--restart=Never", "--command", "--", "sleep", "60")
            kubectl.until("Running", "get", "pod", "p", "-o", "jsonpath={.status.phase}")
            pids = [pid for pid in descendants(os.getpid()) if pid != os.getpid()]
            sockets = {address for pid in pids if Path(f"/proc/{pid}").exists() for address in listening_or_gone(pid)}
            config = yaml.safe_load(kubectl.kubeconfig.read_text())
            mode = kubectl.kubeconfig.stat().st_mode & 0o777
            statuses = asyncio.run(without_a_token(config))
            # Without credentials a request is that of the anonymous user, who may read health and version alone.
            assert statuses == {"none": 403, "wrong": 401, "empty": 403, "right": 200}
            return sockets, config, mode

    sockets, config, mode = await asyncio.to_thread(up)
    assert sockets, "it listens somewhere"
    # 127.0.0.0/8 and ::1 in the byte order of /proc.
    assert {a for a in sockets if not a.endswith("7F") and a != "00000000000000000000000001000000"} == set()
    assert mode == 0o600
    assert config["clusters"][0]["cluster"]["server"].startswith("https://127.0.0.1:")
    assert "insecure-skip-tls-verify" not in config["clusters"][0]["cluster"]


def listening_or_gone(pid: int) -> set[str]:
    try:
        return listening(pid)
    except (FileNotFoundError, ProcessLookupError):
        return set()


def descendants(pid: int) -> set[int]:
    parents: dict[int, int] = {}
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(directory.name)] = int((directory / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has ended meanwhile
    found, before = {pid}, set[int]()
    while found != before:
        before = set(found)
        found |= {child for child, parent in parents.items() if parent in found}
    return found


async def without_a_token(config: dict[str, Any]) -> dict[str, int]:
    cluster, token = config["clusters"][0]["cluster"], config["users"][0]["user"]["token"]
    trusted = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    headers = {"none": {}, "wrong": {"Authorization": "Bearer x"}, "empty": {"Authorization": "Bearer "}}
    headers["right"] = {"Authorization": f"Bearer {token}"}
    found = {}
    async with aiohttp.ClientSession() as client:
        for name, given in headers.items():
            async with client.get(
                f"{cluster['server']}/api/v1/namespaces/default/secrets", headers=given, ssl=trusted
            ) as answer:
                found[name] = answer.status
    return found
