"""The first line of an operator's log: what runs, and against which API server."""

from collections.abc import Sequence

import msgspec

import jobcommon
from jobcommon.api.decoding import decoder
from jobcommon.client.errors import ClientError
from jobcommon.client.request import Request, Transport
from jobcommon.runtime.logging import Log


class _Version(msgspec.Struct):
    version: str = msgspec.field(default="unknown", name="gitVersion")


_version = decoder(_Version)


async def log_start(transport: Transport, frameworks: Sequence[str], log: Log) -> None:
    """Log our version, the server's and the frameworks."""
    try:
        response = await transport.send(Request("GET", "/version"))
        server = _version(response.body).version if response.status == 200 else f"unknown ({response.status})"
    except (ClientError, msgspec.DecodeError) as error:
        server = f"unknown ({error})"
    log.info("operator started", version=jobcommon.__version__, server=server, frameworks=list(frameworks))
