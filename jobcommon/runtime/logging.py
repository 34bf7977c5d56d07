"""Logs: structlog lines in JSON or for a console, and the first line of an operator.

Text from the cluster cannot forge a line or send control sequences to a terminal (attack case S11); credentials are masked
(S18).
"""

import logging
import re
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, TextIO, cast

import structlog
from structlog.stdlib import BoundLogger
from structlog.typing import Processor

import jobcommon
from jobcommon.api.text import CONTROL
from jobcommon.client.errors import ClientError
from jobcommon.client.request import Request, Transport
from jobcommon.client.responses import answered

Log = BoundLogger

FORMATS = ("json", "console")
MASK = "***"
_SECRET_KEY = re.compile(r"token|password|secret|authorization|private_?key|credential", re.IGNORECASE)
_SECRET_TEXT = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}|\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9._-]+")


def setup(log_format: str = "json", level: str = "info", stream: TextIO | None = None) -> Log:
    """Set up logging for this process and return the root logger. Raises ValueError for an unknown format or level."""
    if log_format not in FORMATS:
        raise ValueError(f'log_format "{log_format}" is unknown; use one of {", ".join(FORMATS)}')
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise ValueError(f'log_level "{level}" is unknown; use one of debug, info, warning, error')
    out = stream or sys.stderr
    logger = structlog.wrap_logger(
        structlog.PrintLogger(out),
        processors=[*_processors(), *_renderers(log_format, out)],
        wrapper_class=structlog.make_filtering_bound_logger(number),
    )
    return cast(Log, logger)


def _processors() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        mask_secrets,
    ]


def _renderers(log_format: str, out: TextIO) -> list[Processor]:
    if log_format == "json":
        return [structlog.processors.JSONRenderer(ensure_ascii=True, default=str)]
    return [
        escape_control,
        structlog.dev.ConsoleRenderer(colors=out.isatty(), exception_formatter=structlog.dev.plain_traceback),
    ]


def mask_secrets(_logger: object, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Mask values whose key names a secret, and credentials inside any text, at any depth."""
    for key, value in line.items():
        line[key] = _masked(key, value)
    return line


def _masked(key: str, value: Any) -> Any:
    if _SECRET_KEY.search(key):
        return MASK
    if isinstance(value, Mapping):
        return {k: _masked(str(k), v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_masked("", v) for v in value]
    if value is None or isinstance(value, int | float):
        return value
    return _SECRET_TEXT.sub(MASK, str(value))


def escape_control(_logger: object, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Escape control characters; JSON does so by itself. Tracebacks are our own and keep their lines."""
    for key, value in line.items():
        if key == "exception" or isinstance(value, int | float | bool | None):
            continue
        text = value if isinstance(value, str) else repr(value)
        line[key] = CONTROL.sub(lambda match: match.group().encode("unicode_escape").decode(), text)
    return line


async def log_start(transport: Transport, frameworks: Sequence[str], log: Log) -> None:
    """Log our version, the server's and the frameworks."""
    try:
        server = answered(await transport.send(Request("GET", "/version"))).get("gitVersion", "unknown")
    except ClientError as error:
        server = f"unknown ({error})"
    log.info("operator started", version=jobcommon.__version__, server=server, frameworks=list(frameworks))
