"""The thin shell around `lifecycle.decide`: one task per pod that carries out the decisions."""

import asyncio
import contextlib
from dataclasses import replace
from math import inf
from typing import Any

from localcluster.kubelet.api import Object, object_path, with_retries
from localcluster.kubelet.container import ContainerProcess
from localcluster.kubelet.environment import ConfigError
from localcluster.kubelet.lifecycle import TERMINAL, Container, ContainerState, Decision, Stop, decide
from localcluster.kubelet.options import Shared
from localcluster.kubelet.probes import Prober
from localcluster.kubelet.sandbox import Sandbox
from localcluster.kubelet.status import pod_status
from localcluster.request import ClientError, StatusError

#: See testutil/sim/assumptions.toml.
ASSUMES = ("last-delete", "missing-volume", "other-image", "variables")
_RETRY = 5.0
_FORCED_GRACE = 1.0


class PodWorker:
    """Runs one pod from its admission to its end."""

    def __init__(self, shared: Shared, pod: Object, address: str) -> None:
        self.pod = pod
        self.address = address
        self.uid: str = pod["metadata"]["uid"]
        self._shared = shared
        self._sandbox = Sandbox(shared, pod)
        self._wake = asyncio.Event()
        self._written: dict[str, Any] | None = None
        self._finished = False
        self._changed_objects: set[tuple[str, str] | None] = set()
        self._reported: dict[str, int] = {}
        self._gone = False
        self._specs = _containers_of(pod)
        self.containers = {
            name: ContainerProcess(name, self.uid, shared.now, self._wake.set, shared.options.restart.reset, self.event)
            for name in self._specs
        }
        self._probers: dict[str, Prober] = {}
        self.task = asyncio.create_task(self._run(), name=f"pod {pod['metadata']['namespace']}/{pod['metadata']['name']}")

    def update(self, pod: Object) -> None:
        """The pod as the server has it has changed."""
        if int(pod["metadata"]["resourceVersion"]) < int(self.pod["metadata"]["resourceVersion"]):
            return  # an older event than our own last write
        self._take(pod)
        self._wake.set()

    def _take(self, pod: Object) -> None:
        if any(pod["metadata"].get(part) != self.pod["metadata"].get(part) for part in ("labels", "annotations")):
            self._changed_objects.add(None)
        self.pod = pod
        before, self._specs = self._specs, _containers_of(pod)
        for name, container in self.containers.items():
            if self._specs[name].get("image") != before[name].get("image"):
                container.seen = replace(container.seen, waiting=None, retry_at=None)

    def object_changed(self, kind: str, name: str) -> None:
        """A config map or secret of the pod's namespace has changed."""
        self._changed_objects.add((kind, name))
        for container in self.containers.values():
            if container.seen.waiting is not None:
                container.seen = replace(container.seen, retry_at=None)
        self._wake.set()

    def vanished(self) -> None:
        """The pod no longer exists on the server: end its processes and forget it."""
        self._gone = True
        self._wake.set()

    @property
    def seen(self) -> dict[str, ContainerState]:
        """The state of each container."""
        return {name: container.seen for name, container in self.containers.items()}

    async def stop(self, grace: float) -> None:
        """End all processes without reporting to the server: the cluster stops."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        for prober in self._probers.values():
            prober.stop()
        for container in self.containers.values():
            container.stop(grace)
            for session in container.sessions:
                session.kill()
        while not all(container.idle for container in self.containers.values()):
            self._wake.clear()
            await self._wake.wait()

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            if self._gone:
                if await self._end_forgotten():
                    return
                continue
            decision = decide(self.pod, self.seen, self._shared.now(), self._shared.options.restart)
            if self._finished:
                await self._wake.wait()
                continue
            try:
                if await self._perform(decision):
                    continue
                await self._write(decision)
                if decision.finish:
                    await self._finish()
                    continue
            except ClientError as error:
                if isinstance(error, StatusError) and error.code in (404, 409, 422):
                    await self._sleep(_RETRY)  # deleted or replaced: a watch event follows
                    continue
                await self._sleep(1.0)
                continue
            except OSError as error:
                # Usually a full disk: running containers go on, the rest waits for space.
                self.event("Warning", "FailedSync", f"error syncing pod: {error}")
                await self._sleep(_RETRY)
                continue
            await self._sleep(None if decision.wake_at is None else decision.wake_at - self._shared.now())

    async def _sleep(self, delay: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if delay is None else max(delay, 0.001)):
                await self._wake.wait()

    async def _end_forgotten(self) -> bool:
        for container in self.containers.values():
            container.stop(_FORCED_GRACE)
        if any(container.process is not None for container in self.containers.values()):
            await self._wake.wait()
            return False
        for prober in self._probers.values():
            prober.stop()
        await asyncio.to_thread(self._sandbox.remove)
        return True

    async def _perform(self, decision: Decision) -> bool:
        """Carry out the decision; true if it has changed the state of a container."""
        changed_objects, self._changed_objects = self._changed_objects, set()
        try:
            for item in changed_objects:
                await self._sandbox.refresh(self.pod, item)
        except OSError:
            self._changed_objects |= changed_objects
            raise
        for stop in decision.stop:
            redefined = stop.container in decision.redefined
            why = f"Container {stop.container} definition changed, will be restarted" if redefined else ""
            self._stop(stop, why)
            container = self.containers[stop.container]
            container.seen = replace(container.seen, redefined=redefined)
        for name in decision.backing_off:
            attempt = self.containers[name].next_attempt
            if self._reported.get(name) != attempt:
                self._reported[name] = attempt
                metadata = self.pod["metadata"]
                where = f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"
                self.event("Warning", "BackOff", f"Back-off restarting failed container {name} in pod {where}", name)
        if not decision.start:
            return self._probe()
        self._admit()
        for name in decision.start:
            await self._start(name)
        return True

    def _admit(self) -> None:
        """Fields of our own status that containers may ask for by the downward API, before they are first written."""
        status = self.pod.setdefault("status", {})
        if status.get("podIP") != self.address:
            host = self._shared.options.host_address
            status |= {"podIP": self.address, "podIPs": [{"ip": self.address}]}
            status |= {"hostIP": host, "hostIPs": [{"ip": host}]}

    async def _start(self, name: str) -> None:
        container, spec = self.containers[name], self._specs[name]
        attempt = container.next_attempt
        try:
            launch = await self._sandbox.launch(self.pod, spec, attempt)
        except (ConfigError, OSError) as error:
            self._hold(container, error if isinstance(error, ConfigError) else ConfigError(str(error)))
        else:
            container.log = launch.log or container.log
            container.message_file = self._sandbox.message_file(spec, attempt)
            container.fall_back = spec.get("terminationMessagePolicy") == "FallbackToLogsOnError"
            started = not spec.get("startupProbe")
            container.launch(launch, spec.get("image") or "", started=started, ready=not spec.get("readinessProbe"))
            self.event("Normal", "Created", f"Created container: {name}", name)

    def _hold(self, container: ContainerProcess, why: ConfigError) -> None:
        # What was missing may have been created in the meantime.
        again = inf if why.final else self._shared.now() + (0.0 if self._changed_objects else _RETRY)
        if container.seen.waiting != (why.reason, why.message):
            self.event("Warning", why.event, why.message, container.name)
        container.seen = replace(container.seen, waiting=(why.reason, why.message), retry_at=again, redefined=False)

    def _stop(self, stop: Stop, why: str = "") -> None:
        container = self.containers[stop.container]
        if container.stop(stop.grace):
            self.event("Normal", "Killing", why or f"Stopping container {stop.container}", stop.container)

    def _probe(self) -> bool:
        """Keep a prober beside each running container that asks for one."""
        for name, container in self.containers.items():
            run = container.seen.run
            prober = self._probers.get(name)
            if prober is not None and (run is None or not run.running or prober.attempt != run.attempt):
                prober.stop()
                del self._probers[name]
            if run is None or not run.running:
                continue
            if self._reported.get(f"started {name}") != run.attempt:
                self._reported[f"started {name}"] = run.attempt
                self.event("Normal", "Started", f"Started container {name}", name)
                if self._specs[name].get("lifecycle"):
                    self.event(
                        "Warning", "LifecycleIgnored", "the embedded cluster does not run postStart and preStop hooks", name
                    )
            if name not in self._probers and any(f"{kind}Probe" in self._specs[name] for kind in Prober.KINDS):
                self._probers[name] = Prober(self, name, run.attempt)
        return False

    def probe_result(self, name: str, *, started: bool | None = None, ready: bool | None = None) -> None:
        """A prober's verdict has changed."""
        container = self.containers[name]
        given: dict[str, Any] = {"started": started, "ready": ready}
        container.seen = replace(container.seen, **{key: value for key, value in given.items() if value is not None})
        self._wake.set()

    def kill(self, name: str, why: str, grace: float | None = None) -> None:
        """A liveness or startup probe has failed: end the container, by default with the pod's grace."""
        if grace is None:
            grace = self.pod["spec"].get("terminationGracePeriodSeconds")
        self._stop(Stop(name, 30.0 if grace is None else float(grace)), why)

    def spec_of(self, name: str) -> Container:
        """The spec of one container."""
        return self._specs[name]

    async def _write(self, decision: Decision) -> None:
        options = self._shared.options
        status = pod_status(self.pod, self.seen, decision, self.address, options.host_address, self._shared.now())
        if status == self._written:
            return
        metadata = self.pod["metadata"]
        path = object_path("pods", metadata["namespace"], metadata["name"], "status")
        body = {"metadata": {"uid": self.uid}, "status": status}
        answer = await with_retries(lambda: self._shared.api.patch(path, body))
        self._written = status
        known = self.pod["metadata"]["resourceVersion"]
        if answer is not None and int(answer["metadata"]["resourceVersion"]) > int(known):
            # It may bring what others have written since; the watch may have brought more while the answer was under way.
            self._take(answer)
            if self._changed_objects:
                self._wake.set()
        if decision.phase in TERMINAL:
            # Its name is free for the pod that replaces it; its files stay for the logs.
            self._shared.names.close(self.uid)
            self._shared.names.set_pod(self.uid, None)

    async def _finish(self) -> None:
        metadata = self.pod["metadata"]
        path = object_path("pods", metadata["namespace"], metadata["name"])
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}}
        options |= {"kind": "DeleteOptions", "apiVersion": "v1"}
        try:
            await with_retries(lambda: self._shared.api.call("DELETE", path, options))
        except StatusError as error:
            if error.code not in (404, 409):
                raise
        self._finished = True

    def event(self, kind: str, reason: str, message: str, container: str = "") -> None:
        """Record an event about the pod."""
        self._shared.recorder.record(self.pod, kind, reason, message, container)


def _containers_of(pod: Object) -> dict[str, Container]:
    spec = pod["spec"]
    return {container["name"]: container for container in (*(spec.get("initContainers") or []), *spec["containers"])}
