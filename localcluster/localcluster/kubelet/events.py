"""Events about pods: posted in the background, repeats counted instead of repeated."""

import asyncio
import hashlib
from collections.abc import Callable
from typing import Any

from localcluster.kubelet.api import Api, object_path
from localcluster.kubelet.lifecycle import Pod
from localcluster.request import ClientError
from localcluster.timestamps import format_time

_REMEMBERED = 4096


class EventRecorder:
    """Writes core/v1 events. Never waits and never raises: losing an event loses nothing else."""

    def __init__(self, api: Api, source: str, host: str, now: Callable[[], float]) -> None:
        self._api = api
        self._component = source
        self._host = host
        self._now = now
        self._queue: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue(1000)
        self._counts: dict[str, int] = {}

    def record(self, pod: Pod, kind: str, reason: str, message: str, container: str = "", source: str = "") -> None:
        """Note that something happened; `kind` is ``Normal`` or ``Warning``, `source` the component if it is another one."""
        component = source or self._component
        metadata = pod["metadata"]
        identity = "\0".join((metadata["uid"], kind, reason, message, container))
        if len(self._counts) > _REMEMBERED:
            self._counts.clear()
        count = self._counts[identity] = self._counts.get(identity, 0) + 1
        moment = format_time(self._now())
        name = f"{metadata['name']}.{hashlib.sha256(identity.encode()).hexdigest()[:16]}"
        involved = {"apiVersion": "v1", "kind": "Pod", **{key: metadata[key] for key in ("namespace", "name", "uid")}}
        if container:
            involved["fieldPath"] = f"spec.containers{{{container}}}"
        event = {
            "apiVersion": "v1", "kind": "Event", "metadata": {"namespace": metadata["namespace"], "name": name},
            "involvedObject": involved, "type": kind, "reason": reason, "message": message,
            "source": {"component": component} if source else {"component": component, "host": self._host},
            "reportingComponent": component, "reportingInstance": "" if source else self._host,
            "firstTimestamp": moment, "lastTimestamp": moment, "count": count,
        }  # fmt: skip
        if not self._queue.full():
            self._queue.put_nowait((object_path("events", metadata["namespace"], name), event))

    async def run(self) -> None:
        """Write events until cancelled."""
        while True:
            path, event = await self._queue.get()
            try:
                await self._write(path, event)
            except ClientError:
                continue

    async def _write(self, path: str, event: dict[str, Any]) -> None:
        if event["count"] > 1:
            fresh = {"count": event["count"], "lastTimestamp": event["lastTimestamp"]}
            try:
                await self._api.patch(path, fresh)
                return
            except ClientError:
                # Expired in the meantime: it is created again.
                pass
        await self._api.call("POST", path.rpartition("/")[0], event)
