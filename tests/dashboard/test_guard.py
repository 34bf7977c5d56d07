"""Who sees the dashboard, and what a page of a stranger can make of it: nothing."""

import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
import yaml
from yarl import URL

from jobcommon.cli.dashboard.guard import HEADERS, is_loopback
from jobcommon.cli.dashboard.server import serve_dashboard
from tests.cli.commands import PATIENCE, answered, started
from tests.runtime.fakes import TESTJOB
from tests.runtime.world import world_with_testjobs

TOKEN = "a-token-for-this-test"


@asynccontextmanager
async def served() -> AsyncIterator[tuple[aiohttp.ClientSession, URL]]:
    jar = aiohttp.CookieJar(unsafe=True)  # "unsafe" are cookies of IP addresses
    dashboard = serve_dashboard(world_with_testjobs().transport, [TESTJOB], where="here", token=TOKEN)
    async with dashboard as address, aiohttp.ClientSession(cookie_jar=jar) as client:
        yield client, URL(address)


async def test_the_token_of_the_address_becomes_a_cookie() -> None:
    async with served() as (client, address):
        async with client.get(address, allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (303, "/"), "no later address has the token"
            cookie = answer.headers["Set-Cookie"]
            assert "HttpOnly" in cookie
            assert "SameSite=Strict" in cookie
        async with client.get(address.with_query(None)) as answer:
            assert answer.status == 200
            assert TOKEN not in await answer.text()


PATHS = ("/", "/jobs/testjobs/default/a", "/pods/default/a/log", "/pods/default/a/log/stream", "/static/live.js", "/no")
OUT_OF_STATIC = ("/static/../server.py", "/static/%2e%2e/server.py", "/static/..%2fserver.py", "/static/")
ELSEWHERE = ("//evil.example/", "/%2fevil.example", "/\\evil.example")
# DNS rebinding: the browser takes the page for the stranger's own and would let it read the answer.
HOSTS = ("evil.example", "127.0.0.1.evil.example", "169.254.169.254", "")
REFUSED: list[tuple[str, str, dict[str, str], tuple[int, ...]]] = [
    *(("GET", path, {}, (403,)) for path in (*PATHS, "/?token=guessed")),
    *((method, f"/?token={TOKEN}", {}, (405,)) for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS")),
    *(("GET", f"/?token={TOKEN}", {"Host": host}, (400, 421)) for host in HOSTS),
]


@pytest.mark.parametrize(("method", "path", "headers", "codes"), REFUSED)
async def test_a_stranger_is_refused(method: str, path: str, headers: dict[str, str], codes: tuple[int, ...]) -> None:
    async with served() as (client, address):
        url = URL(f"{address.origin()}{path}", encoded=True)
        async with client.request(method, url, headers=headers, allow_redirects=False) as answer:
            assert answer.status in codes
            assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize("path", OUT_OF_STATIC)
async def test_only_what_is_served_is_read(path: str) -> None:
    async with served() as (client, address):
        async with client.get(address):
            pass
        async with client.get(URL(f"{address.origin()}{path}", encoded=True)) as answer:
            assert answer.status in (403, 404)


@pytest.mark.parametrize("path", ELSEWHERE)
async def test_no_address_leads_out(path: str) -> None:
    async with served() as (client, address):
        url = URL(f"{address.origin()}{path}?token={TOKEN}", encoded=True)
        async with client.get(url, allow_redirects=False) as answer:
            target = answer.headers.get("Location", "/")
            assert target.startswith("/")
            assert not target.startswith(("//", "/\\"))


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("127.0.0.1", True), ("localhost:8080", True), ("[::1]:99", True), ("LOCALHOST", True), ("0.0.0.0", False),
        ("localhost.evil.example", False), ("evil@127.0.0.1.example", False), ("[::1", False), ("", False),
    ],
)  # fmt: skip
def test_hosts(host: str, allowed: bool) -> None:
    assert is_loopback(host) is allowed


async def test_every_answer_has_the_headers_of_a_safe_page() -> None:
    async with served() as (client, address):
        for path in ("/", "/no", "/static/style.css", "/pods/default/a/log/stream"):
            for wanted in (address.with_path(path), address.with_path(path).with_query(None)):
                async with client.get(wanted, allow_redirects=False) as answer:
                    assert HEADERS.items() <= dict(answer.headers).items(), path
                    assert "Server" not in answer.headers
    policy = HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'")


# -- `jobcommon dashboard` as a process: what it prints, and how it ends


def test_the_dashboard_starts_without_a_cluster_and_stops_cleanly(tmp_path: Path) -> None:
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")
    arguments = ("dashboard", "--kubeconfig", str(kubeconfig), "--framework", "pytorch")
    with started(*arguments, until="Ctrl-C stops it") as process:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            refused = answered(*arguments, "--port", str(taken.getsockname()[1]))
        assert refused.returncode == 2
        assert "the port is in use; choose another" in refused.stderr
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=PATIENCE)
        assert out == "The dashboard is stopped.\n"
        assert process.returncode == 0
