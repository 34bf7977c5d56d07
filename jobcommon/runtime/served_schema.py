"""Checks the schema that the API server serves for a kind: whether it has every field of the status.

It is read from OpenAPI, which every client may read, unlike the CustomResourceDefinition itself.
"""

import asyncio
from typing import Any

import msgspec

from jobcommon.api.decoding import decoder
from jobcommon.client.errors import ClientError
from jobcommon.client.pruning import undeclared
from jobcommon.client.request import Request, Transport
from jobcommon.controller.job_controller import JobController
from jobcommon.framework import Framework
from jobcommon.runtime.clock import Clock
from jobcommon.runtime.logging import Log

#: How often a schema that drops fields is read again, and how often that is logged.
CHECK_SECONDS = 10.0
REPEAT_SECONDS = 600.0


class _Kind(msgspec.Struct):
    group: str = ""
    version: str = ""
    kind: str = ""


class _Schema(msgspec.Struct):
    kinds: list[_Kind] = msgspec.field(default=[], name="x-kubernetes-group-version-kind")
    properties: dict[str, msgspec.Raw] = {}


class _Components(msgspec.Struct):
    schemas: dict[str, _Schema] = {}


class _Document(msgspec.Struct):
    components: _Components = msgspec.field(default_factory=_Components)


_document = decoder(_Document)
_status = decoder(dict[str, Any])


async def undeclared_status_fields(transport: Transport, framework: Framework) -> frozenset[str] | None:
    """The status fields that the served schema of the framework's kind drops; None if the schema cannot be read."""
    group, _, version = framework.api_version.partition("/")
    try:
        response = await transport.send(Request("GET", f"/openapi/v3/apis/{framework.api_version}"))
        if response.status != 200:
            return None
        for schema in _document(response.body).components.schemas.values():
            if any((k.group, k.version, k.kind) == (group, version, framework.kind) for k in schema.kinds):
                return undeclared(_status(schema.properties["status"])) if "status" in schema.properties else None
    except (ClientError, msgspec.DecodeError, AttributeError):
        return None
    return None


class ServedSchema:
    """Informs `controller` when the served schema of its kind begins or ceases to drop status fields.

    Each kind's schema is in one document of megabytes with those of all others of the group: with a `turn` in common they are
    read one after the other, and the process does not keep the memory for all at once.
    """

    def __init__(
        self, controller: JobController, transport: Transport, clock: Clock, log: Log, turn: asyncio.Lock | None = None
    ) -> None:
        self._controller = controller
        self._transport = transport
        self._clock = clock
        self._log = log
        self._turn = turn or asyncio.Lock()
        self._changed = asyncio.Event()
        self._said: tuple[str, float] = ("", 0.0)
        controller.on_pruned = self._changed.set

    async def run(self) -> None:
        """Run until cancelled: read the schema once, and repeatedly while fields are dropped."""
        while True:
            self._changed.clear()
            async with self._turn:
                found = await undeclared_status_fields(self._transport, self._controller.framework)
            if found is not None:
                self._controller.served(found)
            self._changed.clear()
            self._say()
            again = self._clock.monotonic() + CHECK_SECONDS if self._controller.pruned.fields else None
            await self._clock.wait(self._changed, again)

    def _say(self) -> None:
        text, now = self._controller.pruned.text, self._clock.monotonic()
        last, said_at = self._said
        if text == last and (not text or now - said_at < REPEAT_SECONDS):
            return
        self._said = (text, now)
        if text:
            self._log.warning(text)
        else:
            self._log.info(f"the CustomResourceDefinition {self._controller.pruned.definition} keeps the whole status again")
