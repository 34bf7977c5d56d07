"""Startup, liveness and readiness probes of one container run."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp

from localcluster.kubelet.container import run_quietly
from localcluster.kubelet.lifecycle import Container
from localcluster.pod_backend import PodBackendError

Probe = Mapping[str, Any]


class Prober:
    """Runs the probes of one run of a container and reports to its pod worker."""

    KINDS = ("startup", "liveness", "readiness")

    def __init__(self, worker: Any, name: str, attempt: int) -> None:
        self.attempt = attempt
        self._worker = worker
        self._name = name
        self._task = asyncio.create_task(self._run(), name=f"probes of {name}")

    def stop(self) -> None:
        """End probing."""
        self._task.cancel()

    async def _run(self) -> None:
        spec = self._worker.spec_of(self._name)
        if startup := spec.get("startupProbe"):
            if not await self._until(startup, "Startup"):
                return
            self._worker.probe_result(self._name, started=True, ready="readinessProbe" not in spec)
        async with asyncio.TaskGroup() as group:
            if liveness := spec.get("livenessProbe"):
                group.create_task(self._until(liveness, "Liveness", good_is_enough=False))
            if readiness := spec.get("readinessProbe"):
                group.create_task(self._watch(readiness))

    async def _verdicts(self, probe: Probe, kind: str) -> AsyncIterator[bool]:
        """Probe for ever: the result each time that it has come often enough in a row."""
        await asyncio.sleep(probe.get("initialDelaySeconds") or 0)
        last, streak = None, 0
        while True:
            if problem := await self._check(probe):
                self._worker.event("Warning", "Unhealthy", f"{kind} probe failed: {problem}", self._name)
            good = not problem
            last, streak = good, streak + 1 if good is last else 1
            if streak >= ((probe.get("successThreshold") or 1) if good else (probe.get("failureThreshold") or 3)):
                yield good
            await asyncio.sleep(probe.get("periodSeconds") or 10)

    async def _until(self, probe: Probe, kind: str, *, good_is_enough: bool = True) -> bool:
        """Probe until good (true), or until bad: then the container is killed (false)."""
        async for good in self._verdicts(probe, kind):
            if not good:
                self._kill(probe, kind)
                return False
            if good_is_enough:
                return True
        raise AssertionError("unreachable")

    async def _watch(self, probe: Probe) -> None:
        ready = False
        async for good in self._verdicts(probe, "Readiness"):
            if good is not ready:
                ready = good
                self._worker.probe_result(self._name, ready=ready)

    def _kill(self, probe: Probe, kind: str) -> None:
        own = self._worker.spec_of(self._name).get("restartPolicy")
        spec = self._worker.pod["spec"]
        again = (own or spec.get("restartPolicy")) != "Never"
        text = f"Container {self._name} failed {kind.lower()} probe{', will be restarted' if again else ''}"
        # Without a container that goes on, the pod is ended as a whole, and no event says why.
        whole = not again and len(spec["containers"]) == 1
        self._worker.kill(self._name, "" if whole else text, probe.get("terminationGracePeriodSeconds"))

    async def _check(self, probe: Probe) -> str:
        """One probe: "" when good, else the problem."""
        seconds = float(probe.get("timeoutSeconds") or 1)
        container, address = self._worker.spec_of(self._name), self._worker.address
        try:
            async with asyncio.timeout(seconds):
                if "httpGet" in probe:
                    return await _get(probe["httpGet"], container, address)
                # gRPC would need its library; this only checks that the port is open.
                if target := probe.get("tcpSocket") or probe.get("grpc"):
                    port = _port_number(target["port"], container)
                    _, writer = await asyncio.open_connection(target.get("host") or address, port)
                    writer.close()
                    return ""
                code = await run_quietly(self._worker.containers[self._name], probe["exec"]["command"])
                return "" if code == 0 else f"command exited with {code}"
        except TimeoutError:
            return f"timed out after {seconds:g}s"
        except (aiohttp.ClientError, OSError, ValueError, PodBackendError) as error:
            return str(error) or type(error).__name__


async def _get(target: Mapping[str, Any], container: Container, address: str) -> str:
    """An httpGet probe; "" when the status is 200 to 399."""
    scheme, host = (target.get("scheme") or "HTTP").lower(), target.get("host") or address
    url = f"{scheme}://{host}:{_port_number(target['port'], container)}/{(target.get('path') or '/').lstrip('/')}"
    headers = {header["name"]: header["value"] for header in target.get("httpHeaders") or []}
    # The real kubelet does not verify a probed certificate either.
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers, ssl=False) as response:
        return "" if 200 <= response.status < 400 else f"HTTP probe failed with statuscode: {response.status}"


def _port_number(port: int | str, container: Container) -> int:
    """A port given by number or by the name of one of the container's ports. Raises ValueError."""
    named = {entry.get("name"): int(entry["containerPort"]) for entry in container.get("ports") or []}
    return named[port] if port in named else int(port)
