"""What clients can do to the servers that they reach: nothing that costs memory, or others their answers."""

import asyncio
import gc
import json
import os
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path

import pytest

from jobcommon.reconcile.reports import audience
from jobcommon.runtime.clock import SystemClock
from jobcommon.runtime.health import serve_health
from jobcommon.runtime.metrics import Metrics
from jobcommon.runtime.reports.account_tokens import BoundPod, TokenError
from jobcommon.runtime.reports.bounded_server import Limits
from jobcommon.runtime.reports.server import CERTIFICATE, KEY, serve_reports
from localcluster.client import self_signed
from tests.runtime.fakes import TESTJOB, quiet_log

ROOT = Path(__file__).parents[2]
MIB = 1 << 20
GOOD = "good"
PATH = f"/apis/{audience(TESTJOB.api_version, 'default', TESTJOB.plural, 'train')}"
REPORT = json.dumps({"trainerStatus": {"lastUpdatedTime": "2026-11-24T02:00:00Z"}}).encode()
# A server gives up connections of the first in favour of the second; both may be of one address, as behind a node.
HOSTILE, HONEST = [f"127.0.1.{number}" for number in range(1, 17)], "127.0.0.2"


async def serve(directory: str, limits: Limits) -> None:
    """Both servers; their ports are printed, and they go on until standard input ends.

    An operator collects garbage rarely: what is closed must be free without that.
    """
    gc.disable()

    def verify(token: str, _: str) -> BoundPod:
        if token != GOOD:
            raise TokenError
        return BoundPod("default", "train-worker-0", "uid")

    taken = serve_reports(
        [TESTJOB], verify, lambda: None, lambda *_: None, quiet_log(),
        host="0.0.0.0", port=0, directory=Path(directory), limits=limits,
    )  # fmt: skip
    health = serve_health(Metrics(), lambda: True, SystemClock(), quiet_log(), host="0.0.0.0", port=0, limits=limits)
    async with taken as reports, health as pages:
        print(json.dumps([reports, pages]), flush=True)
        await asyncio.to_thread(sys.stdin.read)


@dataclass
class Servers:
    """The servers in a process of their own."""

    pid: int
    reports: int
    pages: int

    def begin(self) -> None:
        """Forget the largest size so far."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    @property
    def peak(self) -> float:
        """The largest size since then (MiB)."""
        text = Path(f"/proc/{self.pid}/status").read_text()
        return int(text.partition("VmHWM:")[2].split()[0]) / 1024

    def is_answered(self, port: int, address: str) -> bool:
        """Whether an honest request of that address is."""
        if port == self.reports:
            client: HTTPConnection = HTTPSConnection(
                "127.0.0.1", port, timeout=120, source_address=(address, 0), context=trusting()
            )
            client.request("POST", PATH, REPORT, {"Authorization": f"Bearer {GOOD}"})
        else:
            client = HTTPConnection("127.0.0.1", port, timeout=120, source_address=(address, 0))
            client.request("GET", "/metrics")
        try:
            answer = client.getresponse()
            return answer.status == 200 and bool(answer.read())
        finally:
            client.close()


def trusting() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@contextmanager
def servers(directory: Path, *limits: float) -> Iterator[Servers]:
    certificate = self_signed()
    (directory / CERTIFICATE).write_bytes(certificate.pem)
    (directory / KEY).write_bytes(certificate.key)
    command = [sys.executable, __file__, str(directory), *map(str, limits)]
    pythonpath = os.pathsep.join([str(ROOT), str(ROOT / "localcluster")])
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": pythonpath}
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield Servers(process.pid, *json.loads(process.stdout.readline()))
        process.stdin.close()
        assert process.wait() == 0


def head(method: str, path: str, *lines: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: a", *lines, ""]).encode()


def post(*lines: str, token: str = "none") -> bytes:
    return head("POST", PATH, f"Authorization: Bearer {token}", *lines)


_LONG = b"x" * MIB
#: what is sent on each connection, beyond TLS on the report port
KINDS: dict[str, Callable[[str], bytes]] = {
    "slow headers": lambda method: head(method, PATH) + b"A: b",
    "huge header lines": lambda method: b"".join(head(method, PATH)[:-2] + b"\r\nA: " + _LONG for _ in range(4)),
    "many headers": lambda method: head(method, PATH) + b"A: b\r\n" * (1 << 16),
    "a head that is all but too large": lambda method: head(method, PATH) + b"A: b\r\n" * 2700,
    "slow body": lambda _: post("Content-Length: 65536", "", token=GOOD) + _LONG[:65535],
    "huge body": lambda _: post("Content-Length: 1000000000", "", token=GOOD) + _LONG * 4,
    "huge body without a token": lambda _: post("Content-Length: 1000000000", "") + _LONG * 4,
    "chunks without end": lambda _: post("Transfer-Encoding: chunked", "", token=GOOD) + b"1\r\nx\r\n" * (1 << 18),
    "idle keep-alive": lambda method: head(method, "/healthz", "Connection: keep-alive", ""),
    "pipelined": lambda method: head(method, "/metrics", "") * 20_000,
}  # fmt: skip


def connect(port: int, sent: bytes | None, secure: ssl.SSLContext | None, address: str) -> socket.socket:
    """A connection on which as much of `sent` as the server takes is sent; None for the beginning of a handshake."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=120, source_address=(address, 0))
    if sent is None:
        connection.sendall(b"\x16\x03\x01\x02\x00\x01")
        return connection
    with suppress(OSError):
        connection = secure.wrap_socket(connection) if secure is not None else connection
        connection.settimeout(0)
        for start in range(0, len(sent), 1 << 14):
            connection.sendall(sent[start : start + (1 << 14)])
    return connection


def attack(found: Servers, port: int, sent: bytes | None) -> tuple[float, int, int]:
    """The largest size of the servers meanwhile (MiB), honest requests, and answers."""
    found.begin()
    secure = trusting() if port == found.reports else None
    held, asked, answered = [], 0, 0
    for count in range(1, OPENED + 1):
        held.append(connect(port, sent, secure, HOSTILE[count % len(HOSTILE)]))
        if count % (OPENED // 4) == 0:
            for address in (HONEST, HOSTILE[0]):
                asked += 1
                answered += found.is_answered(port, address)
    peak = found.peak
    for connection in held:
        connection.close()
    return peak, asked, answered


def kinds_for(found: Servers) -> Iterator[tuple[str, int, bytes | None]]:
    for port, name, method in ((found.reports, "reports", "POST"), (found.pages, "health", "GET")):
        yield f"{name}: slow handshake", port, None
        for kind, sent in KINDS.items():
            yield f"{name}: {kind}", port, sent(method)


LINUX = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="sizes are read in /proc")
# The connections that are opened, and those that a server keeps in all and of one address.
OPENED, KEPT, OF_ONE = 48, 24, 4


@LINUX
def test_no_kind_of_connection_costs_memory_or_answers(tmp_path: Path) -> None:
    """No deadline passes meanwhile, which is the worst case. A connection that is kept costs at most 1 MiB."""
    with servers(tmp_path, 3600, 3600, KEPT, OF_ONE) as found:
        assert all(found.is_answered(port, HONEST) for port in (found.reports, found.pages))
        at_rest = found.peak
        for kind, port, sent in kinds_for(found):
            peak, asked, answered = attack(found, port, sent)
            assert answered == asked == 8, kind
            assert peak - at_rest < KEPT, kind
        assert at_rest + Limits().connections < 256, "with all connections that an operator keeps; the charts' limit is 512Mi"


@LINUX
def test_a_client_has_its_time_for_the_whole_request(tmp_path: Path) -> None:
    """A byte now and then does not prolong it."""
    with servers(tmp_path, 0.2, 0.2, 256, 64) as found:
        for kind, port, sent in kinds_for(found):
            if sent is not None and len(sent) > MIB:
                continue  # the server has refused it before that
            with connect(port, sent, trusting() if port == found.reports else None, HONEST) as connection:
                connection.settimeout(0.05)
                is_open = True
                while is_open:
                    try:
                        is_open = bool(connection.recv(1 << 16))
                    except TimeoutError:
                        with suppress(OSError):
                            connection.send(b"x")
                    except OSError:
                        is_open = False
            assert not is_open, kind


if __name__ == "__main__":
    handshake, request, in_all, each = map(float, sys.argv[2:])
    bounds = Limits(handshake, request, connections=int(in_all), per_address=int(each))
    asyncio.run(serve(sys.argv[1], bounds))
