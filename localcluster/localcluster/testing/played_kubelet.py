"""A kubelet without processes: pods are scheduled and run at once, and end when a test says so."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

from localcluster.apiserver.storage import Item
from localcluster.controllers.access import Access
from localcluster.kubelet.lifecycle import ContainerState, Run, Settings, decide, is_sidecar
from localcluster.kubelet.node import node_object
from localcluster.kubelet.status import pod_status
from localcluster.pod_backend import ExecOptions, ExecStreams, LogOptions, Pod, PodBackendError, PortForwardStream
from localcluster.request import STRATEGIC_PATCH

NODE = "played"
_CAPACITY = {"cpu": "1000", "memory": "1000Gi", "pods": "10000"}
# Containers that fail again and again are started again without a pause.
_AT_ONCE = Settings(base=0.0, cap=0.0)
#: How most programs end on SIGTERM.
_TERMINATED = 143


class PlayedKubelet:
    """A controller of the embedded cluster, idle until `play` is called. Init containers end with 0 at once."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._states: dict[str, dict[str, ContainerState]] = {}
        self._said: dict[str, Mapping[str, Any]] = {}
        self._playing = False

    def play(self) -> None:
        """Register the node, and run pods from now on, if it does not yet."""
        if self._playing:
            return
        self._access.send("POST", "/api/v1/nodes", node_object(NODE, "127.0.0.1", _CAPACITY, self._access.now))
        self._playing = True

    def exit(self, namespace: str, name: str, container: str, code: int) -> None:
        """End a container of a pod, the first one unless it is named. Raises ValueError for one that does not run."""
        item = self._access.get("pods", namespace, name)
        states = self._states.get(item.uid, {}) if item is not None else {}
        wanted = container or (item.obj["spec"]["containers"][0]["name"] if item is not None else "")
        if wanted not in states or not states[wanted].running:
            raise ValueError(f"pods/{name} in {namespace}: no container {wanted!r} runs there")
        states[wanted] = _ended(states[wanted], self._access.now, code)

    def step(self) -> float | None:
        """See `Controller.step`."""
        if not self._playing:
            return None
        pods = list(self._access.items("pods"))
        gone = self._states.keys() - {item.uid for item in pods}
        for uid in gone:
            del self._states[uid]
            self._said.pop(uid, None)
        due = [wake for item in pods if (wake := self._work(item)) is not None]
        return min(due, default=None)

    def _work(self, item: Item) -> float | None:
        spec, path = item.obj["spec"], f"/api/v1/namespaces/{item.namespace}/pods/{item.name}"
        if not spec.get("nodeName"):
            if not spec.get("schedulingGates") and "deletionTimestamp" not in item.obj["metadata"]:
                self._access.send("POST", f"{path}/binding", {"metadata": {"name": item.name}, "target": {"name": NODE}})
            return None
        if spec["nodeName"] != NODE:
            return None
        inits = spec.get("initContainers") or ()
        short = {one["name"] for one in inits if not is_sidecar(one)}
        states = self._states.setdefault(item.uid, {c["name"]: ContainerState() for c in (*inits, *spec["containers"])})
        now = self._access.now
        while True:
            decision = decide(item.obj, states, now, _AT_ONCE)
            for name in decision.start:
                states[name] = _started(states[name], now)
                if name in short:
                    states[name] = _ended(states[name], now, 0)
            for stop in decision.stop:
                states[stop.container] = _ended(states[stop.container], now, _TERMINATED)
            if not decision.start and not decision.stop:
                break
        status = pod_status(item.obj, states, decision, "127.0.0.1", "127.0.0.1", now)
        if self._said.get(item.uid) != status:
            self._said[item.uid] = status
            self._access.send("PATCH", f"{path}/status", {"metadata": {"uid": item.uid}, "status": status}, STRATEGIC_PATCH)
        elif decision.finish and item.obj["metadata"].get("deletionGracePeriodSeconds") != 0:
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": item.uid}}
            self._access.send("DELETE", path, options)
        return decision.wake_at


class PlayedPods:
    """The backend of played pods: it refuses everything, because they have no processes."""

    async def logs(self, pod: Pod, options: LogOptions) -> AsyncIterator[bytes]:
        """See `PodBackend.logs`."""
        for refusal in (_nothing_there(pod, options.container, "writes no log"),):
            raise refusal
        yield b""

    async def exec(self, pod: Pod, options: ExecOptions, streams: ExecStreams) -> int:  # noqa: ARG002
        """See `PodBackend.exec`."""
        raise _nothing_there(pod, options.container, "runs no commands")

    async def attach(self, pod: Pod, options: ExecOptions, streams: ExecStreams) -> int:  # noqa: ARG002
        """See `PodBackend.attach`."""
        raise _nothing_there(pod, options.container, "has no output")

    async def port_forward(self, pod: Pod, port: int, stream: PortForwardStream) -> None:  # noqa: ARG002
        """See `PodBackend.port_forward`."""
        raise _nothing_there(pod, pod["spec"]["containers"][0]["name"], f"does not listen on port {port}")


def _nothing_there(pod: Pod, container: str, what: str) -> PodBackendError:
    name = pod["metadata"]["name"]
    return PodBackendError(f'container "{container}" in pod "{name}" is only played: it has no process and {what}', 400)


def _started(state: ContainerState, now: float) -> ContainerState:
    before = state.run
    attempt = 0 if before is None else before.attempt + 1
    run = Run(attempt, now, container_id=f"played://{attempt}")
    return ContainerState(run=run, last=before, started=True, ready=True)


def _ended(state: ContainerState, now: float, code: int) -> ContainerState:
    assert state.run is not None
    run = replace(state.run, finished_at=now, exit_code=code, reason="Error" if code else "Completed")
    return replace(state, run=run, ready=False, started=False)
