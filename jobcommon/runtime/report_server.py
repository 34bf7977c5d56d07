"""The HTTPS server to which programs report their progress, in the protocol of Kubeflow Trainer (KEP-2779).

Its answers are those of Trainer's server (pkg/statusserver): 200 with the report, 403 without a good token, 404 for another
path, 413 above 64 KiB, 422 for what is no report. Every replica of the operator answers, from memory, in threads of its own:
the client of transformers waits for them inside the training loop, and must wait neither for the API server nor for a plan.
"""

import asyncio
import re
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec
from pydantic import BaseModel, ValidationError

from jobcommon.api.status import TrainerStatus
from jobcommon.api.timestamp import format_time, parse_time
from jobcommon.framework import Framework
from jobcommon.reconcile.reporting import audience
from jobcommon.runtime.account_tokens import BoundPod, TokenError, UnknownKeyError
from jobcommon.runtime.logging import Log
from jobcommon.runtime.threaded_server import CLIENT_TIMEOUT, Handler, ThreadedServer, serving

MAX_BODY = 1 << 16
MAX_DISCARDED = 1 << 20
MAX_CONNECTIONS = 256
CERTIFICATE, KEY, AUTHORITY = "tls.crt", "tls.key", "ca.crt"
_PATH = re.compile(r"/apis/([^/]+/[^/]+)/namespaces/([^/]+)/([^/]+)/([^/]+)/status")


@dataclass(frozen=True, slots=True)
class ReportedJob:
    """The job that a report is about."""

    framework: Framework
    namespace: str
    name: str


class ReportError(Exception):
    """Why a report is not taken: what is answered instead of 200."""

    def __init__(self, status: HTTPStatus, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason, self.message = status, reason, message


class ForbiddenError(ReportError):
    """The pod may not report about this job."""

    def __init__(self) -> None:
        super().__init__(HTTPStatus.FORBIDDEN, "Forbidden", "Forbidden")


class _Report(BaseModel):
    trainer_status: TrainerStatus | None = None
    model_config = {"alias_generator": lambda _: "trainerStatus", "strict": True}


Verify = Callable[[str, str], BoundPod]
Take = Callable[[ReportedJob, BoundPod, TrainerStatus], None]


def certificate_in(directory: Path) -> str:
    """What clients trust, as PEM: the authority, or without one the certificate itself. Raises OSError."""
    authority = directory / AUTHORITY
    return (authority if authority.exists() else directory / CERTIFICATE).read_text(encoding="ascii")


@asynccontextmanager
async def serve_reports(
    frameworks: Collection[Framework], verify: Verify, refresh: Callable[[], None], take: Take, log: Log,
    *, host: str, port: int, directory: Path,
) -> AsyncIterator[int]:  # fmt: skip
    """Serve inside the context; yields the port, which the system chooses if `port` is 0.

    `verify` gives the pod of a token for an audience, or raises TokenError; `take` takes a report, or raises ReportError. Both
    are called in other threads, `refresh` (the keys may be out of date) in the event loop. The certificate in `directory` is
    read again when it changes. Raises OSError if the address is in use or there is no certificate.
    """
    loop = asyncio.get_running_loop()
    served = {(framework.api_version, framework.plural): framework for framework in frameworks}

    def answer(path: str, authorization: str, body: bytes) -> bytes:
        found = _PATH.fullmatch(path)
        version, namespace, plural, name = map(unquote, found.groups()) if found else ("", "", "", "")
        if (framework := served.get((version, plural))) is None:
            raise ReportError(HTTPStatus.NOT_FOUND, "NotFound", "Not found")
        scheme, _, token = authorization.strip().partition(" ")
        try:
            pod = verify(token.strip() if scheme.lower() == "bearer" else "", audience(version, namespace, plural, name))
        except TokenError as error:
            if isinstance(error, UnknownKeyError):
                loop.call_soon_threadsafe(refresh)
            raise ForbiddenError from None
        if pod.namespace != namespace:
            raise ForbiddenError
        report = _read(body)
        if report is None:
            return b"{}\n"
        take(ReportedJob(framework, namespace, name), pod, report)
        told = report.model_dump(by_alias=True, exclude_none=True)
        return msgspec.json.encode({"trainerStatus": told}) + b"\n"

    async with serving(_Server(answer, _Context(directory), host, port, log), "reports") as bound:
        yield bound


def _read(body: bytes) -> TrainerStatus | None:
    """The report in a body, without fields that the protocol does not know, its time as the API writes times."""
    try:
        report = _Report.model_validate_json(body, extra="ignore").trainer_status
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        path = ".".join(map(str, first["loc"]))
        text = f"{path}: {first['msg']}" if path else "Invalid payload"
        raise ReportError(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid", text) from None
    if report is None:
        return None
    at = parse_time(report.last_updated_time)
    if at is None:
        raise ReportError(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid", "trainerStatus.lastUpdatedTime: must be an RFC 3339 time")
    return report.model_copy(update={"last_updated_time": format_time(at)})


class _Context:
    """The TLS context, made anew when the certificate has changed."""

    def __init__(self, directory: Path) -> None:
        self._files = directory / CERTIFICATE, directory / KEY
        self._lock = threading.Lock()
        self._made_of, self._made = self._stamp(), self._make()

    def current(self) -> ssl.SSLContext:
        """The context to use now. While a new certificate cannot be read, the old one."""
        with self._lock:
            try:
                if (stamp := self._stamp()) != self._made_of:
                    self._made_of, self._made = stamp, self._make()
            except OSError:
                pass
            return self._made

    def _stamp(self) -> tuple[int, ...]:
        return tuple(file.stat().st_mtime_ns for file in self._files)

    def _make(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(*self._files)
        return context


class _Handler(Handler):
    server: "_Server"

    def setup(self) -> None:
        # In this thread, so that a client that does not answer holds up no other.
        self.request.settimeout(CLIENT_TIMEOUT)
        self.request = self.server.context.current().wrap_socket(self.request, server_side=True)
        super().setup()

    def finish(self) -> None:
        super().finish()
        self.request.close()

    def do_POST(self) -> None:  # noqa: N802  the standard library calls it
        try:
            path, authorization = self.path.partition("?")[0], self.headers.get("Authorization", "")
            self._send(HTTPStatus.OK, self.server.answer(path, authorization, self._body()))
        except ReportError as error:
            self._refuse(error)
        except OSError:
            raise
        except Exception:
            self.server.log.exception("could not take a report")
            self._refuse(ReportError(HTTPStatus.INTERNAL_SERVER_ERROR, "InternalError", "Internal error"))

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            raise ReportError(HTTPStatus.LENGTH_REQUIRED, "BadRequest", "Content-Length is needed")
        # A client that is still sending would not read the answer.
        body = self.rfile.read(min(int(length[:20]), MAX_DISCARDED))
        if len(body) > MAX_BODY:
            raise ReportError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "RequestEntityTooLarge", "Payload too large")
        return body

    def _refuse(self, error: ReportError) -> None:
        status = {"metadata": {}, "status": "Failure", "message": error.message, "reason": error.reason}
        self._send(error.status, msgspec.json.encode({**status, "code": error.status.value}) + b"\n")

    def _send(self, status: HTTPStatus, body: bytes) -> None:
        self.answer(status, body, "application/json")

    def send_error(self, code: int, *_: object) -> None:
        # As Trainer's: anything but a POST to that path is not found.
        if code == HTTPStatus.NOT_IMPLEMENTED:
            with suppress(ReportError):
                self._body()
        found = HTTPStatus.NOT_FOUND if code == HTTPStatus.NOT_IMPLEMENTED else HTTPStatus(code)
        self._refuse(ReportError(found, found.phrase.replace(" ", ""), found.phrase.capitalize()))


class _Server(ThreadedServer):
    """Answers `MAX_CONNECTIONS` clients at a time; one that knows no TLS is no error of ours either."""

    request_queue_size = MAX_CONNECTIONS

    def __init__(self, answer: Callable[[str, str, bytes], bytes], context: _Context, host: str, port: int, log: Log) -> None:
        self.answer, self.context, self.log = answer, context, log
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)
        super().__init__(host, port, _Handler)

    def verify_request(self, *_: object) -> bool:
        return self._free.acquire(blocking=False)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()
