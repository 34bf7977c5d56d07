"""A whole embedded cluster in the test's event loop, with pods as real processes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from localcluster.apiserver import ADMIN, ApiServer, Env
from localcluster.apiserver.inprocess import InProcessTransport
from localcluster.kubelet.api import Api
from localcluster.kubelet.kubelet import Kubelet
from localcluster.kubelet.lifecycle import Settings
from localcluster.kubelet.options import KubeletOptions
from localcluster.pod_backend import ExecOptions, LogOptions
from tests.polling import polled

Object = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"


def options(data_dir: Path, **changes: Any) -> KubeletOptions:
    """A kubelet that restarts without making a test wait."""
    return replace(KubeletOptions(data_dir, restart=Settings(base=0.05, cap=0.2), stop_grace=1.0), **changes)


def pod(name: str, *command: str, spec: Object | None = None, **container: Any) -> Object:
    """A pod with one container, `main`, that is not restarted unless `spec` says so."""
    main = {"name": "main", "image": "none", "command": list(command), **container}
    whole = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [main], **(spec or {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": whole}


def shell(name: str, script: str, spec: Object | None = None, **container: Any) -> Object:
    """A pod that runs a shell script."""
    return pod(name, "sh", "-c", script, spec=spec, **container)


@dataclass
class Caller:
    """A `kubectl exec` session's end: given input, collected output."""

    given: bytes = b""
    out: bytes = b""
    err: bytes = b""

    async def read_stdin(self) -> bytes:
        piece, self.given = self.given, b""
        return piece

    async def write_stdout(self, data: bytes) -> None:
        self.out += data

    async def write_stderr(self, data: bytes) -> None:
        self.err += data

    async def closed(self) -> None:
        await asyncio.Event().wait()


@dataclass
class Cluster:
    """What a test does to it, and sees of it."""

    kubelet: Kubelet
    api: Api

    async def create(self, item: Object) -> Object:
        path = PODS if item["kind"] == "Pod" else f"/api/v1/namespaces/default/{item['kind'].lower()}s"
        return await self.api.call("POST", path, item)

    async def get(self, name: str) -> Object | None:
        return await self.api.get(f"{PODS}/{name}")

    async def delete(self, name: str) -> None:
        await self.api.call("DELETE", f"{PODS}/{name}")

    async def until(self, name: str, holds: Callable[[Object], Any]) -> Object:
        """The pod once `holds` is true of its status."""
        return await polled(lambda: self.get(name), lambda found: found is not None and holds(found.get("status") or {}))

    async def ended(self, name: str) -> Object:
        """The pod once it has Succeeded or Failed."""
        return await self.until(name, lambda status: status.get("phase") in ("Succeeded", "Failed"))

    async def running(self, name: str) -> Object:
        """The pod once all its containers are ready."""
        ready = {"type": "Ready", "status": "True"}
        return await self.until(name, lambda s: any(ready.items() <= c.items() for c in s.get("conditions") or []))

    async def vanished(self, name: str) -> None:
        await polled(lambda: self.get(name), lambda found: found is None)

    async def logs(self, name: str, container: str = "main", **changes: Any) -> str:
        found = await self.get(name)
        assert found is not None
        pieces = [piece async for piece in self.kubelet.backend.logs(found, LogOptions(container, **changes))]
        return b"".join(pieces).decode()

    async def log_with(self, name: str, text: str, container: str = "main") -> str:
        """The log once `text` is in it."""
        return await polled(lambda: self.logs(name, container), lambda log: text in log)

    async def exec(self, name: str, *command: str, caller: Caller | None = None, **changes: Any) -> tuple[int, Caller]:
        found = await self.get(name)
        assert found is not None
        caller = caller or Caller()
        code = await self.kubelet.backend.exec(found, ExecOptions("main", command, stdout=True, **changes), caller)
        return code, caller

    async def events(self, name: str) -> list[Object]:
        items = (await self.api.call("GET", "/api/v1/namespaces/default/events"))["items"]
        return [item for item in items if item["involvedObject"]["name"] == name]

    async def told(self, name: str, reason: str) -> Object:
        """The event about `name` with this reason, once it is written: events come a moment after what they tell of."""
        events = await polled(lambda: self.events(name), lambda events: any(event["reason"] == reason for event in events))
        return next(event for event in events if event["reason"] == reason)


@contextlib.asynccontextmanager
async def cluster(data_dir: Path, **changes: Any) -> AsyncIterator[Cluster]:
    """A server and a kubelet; what is left running at the end is stopped."""
    transport = InProcessTransport(ApiServer(Env.system()), user=ADMIN)
    async with Kubelet(transport, options(data_dir, **changes)) as kubelet:
        yield Cluster(kubelet, Api(transport))


def state(found: Object, container: str = "main") -> Object:
    """The status of one container."""
    statuses = [*(found["status"].get("initContainerStatuses") or []), *found["status"]["containerStatuses"]]
    return next(status for status in statuses if status["name"] == container)


def processes_with(mark: str) -> list[int]:
    """The processes of this machine whose command line has `mark`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if mark.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found
