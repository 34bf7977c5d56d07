"""The HTTPS server to which programs report their progress, in the protocol of Kubeflow Trainer (KEP-2779).

Its answers are those of Trainer's server (pkg/statusserver): 200 with the report, 403 without a good token, 404 for another
path, 413 above 64 KiB, 422 for what is no report. Every replica of the operator answers, from memory, in a thread of its own:
the client of transformers waits for it inside the training loop, and must wait neither for the API server nor for a plan.
"""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from urllib.parse import unquote

import msgspec
from aiohttp import web
from pydantic import BaseModel, ValidationError

from jobcommon.api.status import TrainerStatus
from jobcommon.api.timestamp import format_time, parse_time
from jobcommon.framework import Framework
from jobcommon.reconcile.reports import audience
from jobcommon.runtime.logging import Log
from jobcommon.runtime.reports.account_tokens import BoundPod, TokenError, UnknownKeyError
from jobcommon.runtime.reports.bounded_server import BodyError, Limits, serving

CERTIFICATE, KEY, AUTHORITY = "tls.crt", "tls.key", "ca.crt"
_PATH = re.compile(r"/apis/([^/]+/[^/]+)/namespaces/([^/]+)/([^/]+)/([^/]+)/status")


@dataclass(frozen=True, slots=True)
class ReportedJob:
    """The job that a report is about."""

    framework: Framework
    namespace: str
    name: str

    @property
    def key(self) -> tuple[str, ...]:
        """Its plural, namespace and name."""
        return self.framework.plural, self.namespace, self.name


class ReportError(Exception):
    """Why a report is not taken: what is answered instead of 200."""

    def __init__(self, status: HTTPStatus, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason, self.message = status, reason, message


class ForbiddenError(ReportError):
    """The pod may not report about this job."""

    def __init__(self) -> None:
        super().__init__(HTTPStatus.FORBIDDEN, "Forbidden", "Forbidden")


_BODIES = {
    HTTPStatus.LENGTH_REQUIRED: ("BadRequest", "Content-Length is needed"),
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: ("RequestEntityTooLarge", "Payload too large"),
}


class BusyError(ReportError):
    """More is to be read than can be kept; the program reports again."""

    def __init__(self) -> None:
        super().__init__(HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailable", "Busy")


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
    *, host: str, port: int, directory: Path, limits: Limits | None = None,
    refused: Callable[[ReportedJob | None], object] = lambda _: None,
) -> AsyncIterator[int]:  # fmt: skip
    """Serve inside the context; yields the port, which the system chooses if `port` is 0.

    `verify` gives the pod of a token for an audience, or raises TokenError; `take` takes a report, or raises ReportError. Both
    are called in another thread, as is `refused`: with the job for each report with a good token that is not taken, and with
    None while no connection can be accepted. `refresh` (the keys may be out of date) is called in the event loop. The
    certificate in `directory` is read again when it changes. Raises OSError if the address is in use or there is no
    certificate.
    """
    loop = asyncio.get_running_loop()
    served = {(framework.api_version, framework.plural): framework for framework in frameworks}

    def sender(request: web.BaseRequest) -> tuple[ReportedJob, BoundPod]:
        found = _PATH.fullmatch(request.raw_path.partition("?")[0])
        version, namespace, plural, name = map(unquote, found.groups()) if found else ("", "", "", "")
        # As Trainer's: anything but a POST to that path is not found.
        if request.method != "POST" or (framework := served.get((version, plural))) is None:
            raise ReportError(HTTPStatus.NOT_FOUND, "NotFound", "Not found")
        scheme, _, token = request.headers.get("Authorization", "").strip().partition(" ")
        try:
            bearer = token.strip() if scheme.lower() == "bearer" and token.isascii() else ""
            pod = verify(bearer, audience(version, namespace, plural, name))
        except TokenError as error:
            if isinstance(error, UnknownKeyError):
                loop.call_soon_threadsafe(refresh)
            raise ForbiddenError from None
        if pod.namespace != namespace:
            raise ForbiddenError
        return ReportedJob(framework, namespace, name), pod

    async def answer(request: web.BaseRequest, body: Callable[[], Awaitable[bytes]]) -> web.Response:
        target = None
        try:
            target, pod = sender(request)
            report = _read(await body())
            if report is None:
                return _json(HTTPStatus.OK, {})
            take(target, pod, report)
            return _json(HTTPStatus.OK, {"trainerStatus": report.model_dump(by_alias=True, exclude_none=True)})
        except ReportError as error:
            if isinstance(error, BusyError):
                refused(target)
            return _failure(error)
        except BodyError as error:
            return _failure(ReportError(error.status, *_BODIES[error.status]))
        except (OSError, asyncio.CancelledError):
            # The client has gone, is too slow, or had to give way. Without a token it stands for no job.
            if target is not None:
                refused(target)
            raise
        except Exception:
            log.exception("could not take a report")
            return _failure(ReportError(HTTPStatus.INTERNAL_SERVER_ERROR, "InternalError", "Internal error"))

    context = _Context(directory).current
    async with serving(
        answer, "reports", host=host, port=port, limits=limits or Limits(), context=context, refused=lambda: refused(None)
    ) as bound:
        yield bound


def _json(status: HTTPStatus, body: object) -> web.Response:
    return web.Response(status=status, body=msgspec.json.encode(body) + b"\n", content_type="application/json")


def _failure(error: ReportError) -> web.Response:
    status = {"metadata": {}, "status": "Failure", "message": error.message, "reason": error.reason}
    return _json(error.status, {**status, "code": error.status.value})


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
        self._made_of, self._made = self._stamp(), self._make()

    def current(self) -> ssl.SSLContext:
        """The context to use now. While a new certificate cannot be read, the old one."""
        with suppress(OSError):
            if (stamp := self._stamp()) != self._made_of:
                self._made_of, self._made = stamp, self._make()
        return self._made

    def _stamp(self) -> tuple[int, ...]:
        return tuple(file.stat().st_mtime_ns for file in self._files)

    def _make(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(*self._files)
        return context
