"""The kubelet of the embedded cluster: one node, whose pods are processes of this machine."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Self

from localcluster.kubelet import node, scheduler
from localcluster.kubelet.addresses import LOOPBACK, AddressPool
from localcluster.kubelet.api import Api, Informer, Object, object_path, with_retries
from localcluster.kubelet.backend import Backend
from localcluster.kubelet.events import EventRecorder
from localcluster.kubelet.hosts import Names
from localcluster.kubelet.lifecycle import TERMINAL
from localcluster.kubelet.options import KubeletOptions, Shared
from localcluster.kubelet.process import detect
from localcluster.kubelet.worker import PodWorker
from localcluster.request import ClientError, StatusError, Transport
from localcluster.timestamps import format_time

_RETRY = 5.0


class Kubelet:
    """Schedules and runs pods. ``async with Kubelet(transport, options)`` is ready on entry and leaves no process on exit.

    `backend` answers the server's pods/log and exec. `now` is the clock decisions depend on, in Unix
    seconds.
    """

    def __init__(self, transport: Transport, options: KubeletOptions, now: Callable[[], float] = time.time) -> None:
        self.options = options
        self._api = Api(transport)
        self._now = now
        self._workers: dict[str, PodWorker] = {}
        self._tasks: list[asyncio.Task[Any]] = []
        self._binding: set[asyncio.Task[None]] = set()
        self._reported: set[str] = set()  # kinds of devices
        self._assumed: set[str] = set()  # pods being bound: their resources count before the watch event arrives
        self.backend = Backend(self._workers.get, self._log_path, now)

    async def __aenter__(self) -> Self:
        """Detect the possible isolation, register the node, and take over the pods that are bound to it. Raises ClientError."""
        options = self.options
        isolation = options.isolation or await detect()
        self._pool = AddressPool(options.cluster, shared=not isolation.namespaces)
        self._names = Names(asyncio.get_running_loop().call_soon)
        self._recorder = EventRecorder(self._api, "kubelet", options.node_name, self._now)
        self._shared = Shared(options, isolation, self._api, self._names, self._recorder, self._now)
        self._node = await node.register(self._api, self._fresh_node())
        self._pods = Informer(self._api, "/api/v1/pods", self._pod_changed)
        self._claims = Informer(self._api, "/api/v1/persistentvolumeclaims", self._claim_changed)
        informers = [
            Informer(self._api, "/api/v1/nodes", self._node_changed),
            Informer(self._api, "/api/v1/services", self._service_changed),
            Informer(self._api, "/api/v1/configmaps", lambda old, new: self._object_changed("ConfigMap", old, new)),
            Informer(self._api, "/api/v1/secrets", lambda old, new: self._object_changed("Secret", old, new)),
            self._pods,
        ]
        # They are asked for when pods are scheduled.
        self._tasks = [asyncio.create_task(self._claims.run())]
        await self._claims.synced.wait()
        self._tasks += [asyncio.create_task(informer.run()) for informer in informers]
        self._tasks.append(asyncio.create_task(self._recorder.run()))
        beating = node.heartbeat(self._api, lambda: self._node, self._fresh_node, self._now, options.heartbeat)
        self._tasks.append(asyncio.create_task(beating))
        for informer in informers:
            await informer.synced.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        """End every pod's processes, with `options.stop_grace` seconds of grace; the pods on the server are not changed."""
        for task in [*self._tasks, *self._binding]:
            task.cancel()
        await asyncio.gather(*self._tasks, *self._binding, return_exceptions=True)
        await asyncio.gather(*(worker.stop(self.options.stop_grace) for worker in self._workers.values()))
        self._pool.close()

    def _fresh_node(self) -> Object:
        options = self.options
        return node.node_object(options.node_name, options.host_address, options.capacity, self._now(), options.port)

    def pod(self, namespace: str, name: str) -> Object | None:
        """The pod of that name, wherever it is bound."""
        return self._pods.objects.get((namespace, name))

    def _log_path(self, uid: str, container: str, attempt: int) -> Any:
        return self._shared.log_path(uid, container, attempt)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if old is not None and (new is None or new["metadata"]["uid"] != old["metadata"]["uid"]):
            self._pod_gone(old)
        if new is None:
            self._reschedule()
            return
        uid = new["metadata"]["uid"]
        finished = (new.get("status") or {}).get("phase") in TERMINAL
        worker = self._workers.get(uid)
        if worker is not None:
            worker.update(new)
        else:
            address = self._address(new, finished)
            if new["spec"].get("nodeName") == self.options.node_name:
                worker = self._workers[uid] = PodWorker(self._shared, new, address)
                worker.task.add_done_callback(lambda task: self._worker_ended(uid, task))
            elif scheduler.is_ours(new):
                self._schedule(new)
        if new["spec"].get("nodeName"):
            self._assumed.discard(uid)
        if finished and (old is None or (old.get("status") or {}).get("phase") not in TERMINAL):
            self._pool.release(uid)
            self._names.set_pod(uid, None)
            self._reschedule()

    def _worker_ended(self, uid: str, task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is None:
            self._workers.pop(uid, None)
            return
        # A bug: the pod is kept, so that its processes end with the cluster.
        text = f"The kubelet failed on this pod and has given up: {task.exception()!r}"
        self._recorder.record(self._workers[uid].pod, "Warning", "FailedSync", text)

    def _address(self, pod: Object, finished: bool) -> str:
        """The pod's address, given before it is scheduled: its name then resolves before any of its peers starts."""
        if finished:
            return str((pod.get("status") or {}).get("podIP") or "")
        uid = pod["metadata"]["uid"]
        address = LOOPBACK if pod["spec"].get("hostNetwork") else self._pool.acquire(uid)
        self._names.set_pod(uid, pod, address)
        return address

    def _pod_gone(self, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        self._assumed.discard(uid)
        self._names.set_pod(uid, None)
        self._pool.release(uid)
        worker = self._workers.get(uid)
        if worker is not None:
            worker.vanished()

    def _service_changed(self, old: Object | None, new: Object | None) -> None:
        metadata = (new or old or {})["metadata"]
        self._names.set_service((metadata["namespace"], metadata["name"]), new)

    def _object_changed(self, kind: str, old: Object | None, new: Object | None) -> None:
        metadata = (new or old or {})["metadata"]
        for worker in self._workers.values():
            if worker.pod["metadata"]["namespace"] == metadata["namespace"]:
                worker.object_changed(kind, metadata["name"])

    def _claim_changed(self, old: Object | None, new: Object | None) -> None:
        if old is None and new is not None:
            for pod in list(self._pods.objects.values()):
                if scheduler.is_ours(pod) and new["metadata"]["name"] in scheduler.claims(pod):
                    self._schedule(pod)

    def _reschedule(self) -> None:
        """Resources may be free now for pods that wait."""
        if self.options.enforce_resources:
            self._schedule_all()

    def _schedule_all(self) -> None:
        for pod in list(self._pods.objects.values()):
            if scheduler.is_ours(pod):
                self._schedule(pod)

    def _node_changed(self, _: Object | None, new: Object | None) -> None:
        if new is None or new["metadata"]["name"] != self.options.node_name:
            return
        before, self._node = self._node, new
        if before["spec"] != new["spec"] or before["metadata"].get("labels") != new["metadata"].get("labels"):
            self._schedule_all()

    def _schedule(self, pod: Object) -> None:
        running = [
            other
            for other in self._pods.objects.values()
            if (other["spec"].get("nodeName") or other["metadata"]["uid"] in self._assumed)
            and other["metadata"]["uid"] != pod["metadata"]["uid"]
            and (other.get("status") or {}).get("phase") not in TERMINAL
        ]
        capacity = self.options.capacity if self.options.enforce_resources else None
        why = scheduler.unschedulable(pod, running, self._node, capacity, self._claims.objects)
        uid = pod["metadata"]["uid"]
        if not why and uid in self._assumed:
            return
        if not why:
            self._assumed.add(uid)
        task = asyncio.create_task(self._bind(pod, why))
        self._binding.add(task)
        task.add_done_callback(self._binding.discard)

    async def _bind(self, pod: Object, why: str) -> None:
        metadata = pod["metadata"]
        path = object_path("pods", metadata["namespace"], metadata["name"], "binding")
        target = {"apiVersion": "v1", "kind": "Node", "name": self.options.node_name}
        named = {key: metadata[key] for key in ("name", "namespace", "uid")}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": named, "target": target}
        try:
            if why:
                await self._report_unschedulable(pod, why)
                return
            for name in scheduler.claims(pod):
                await self._bind_claim(metadata["namespace"], name)
            await with_retries(lambda: self._api.call("POST", path, body))
        except ClientError as error:
            if isinstance(error, StatusError) and error.code in (404, 409):
                return  # gone, or bound already: the watch says so
            await asyncio.sleep(_RETRY)
            self._assumed.discard(metadata["uid"])
            current = self._pods.objects.get((metadata["namespace"], metadata["name"]))
            if current is not None and scheduler.is_ours(current):
                self._schedule(current)
            return
        text = f"Successfully assigned {metadata['namespace']}/{metadata['name']} to {self.options.node_name}"
        self._recorder.record(pod, "Normal", "Scheduled", text, source=scheduler.DEFAULT_SCHEDULER)
        self._report_devices(pod)

    async def _bind_claim(self, namespace: str, name: str) -> None:
        """Mark a claim as bound, as for its first consumer: its volume is a directory of the node."""
        claim = self._claims.objects.get((namespace, name))
        if claim is None or (claim.get("status") or {}).get("phase") == "Bound":
            return
        spec = claim.get("spec") or {}
        status = {
            "phase": "Bound",
            "accessModes": spec.get("accessModes") or [],
            "capacity": (spec.get("resources") or {}).get("requests") or {},
        }
        path = object_path("persistentvolumeclaims", namespace, name, "status")
        try:
            await with_retries(lambda: self._api.patch(path, {"status": status}))
        except StatusError as error:
            # One that has just been deleted is missed when it is to be mounted.
            if error.code != 404:
                raise

    def _report_devices(self, pod: Object) -> None:
        """Report once for each kind of device that this machine does not have it: on another cluster the pod would wait."""
        asked = {} if self.options.enforce_resources else scheduler.requests(pod)
        for name in sorted(node.devices_not_here(asked) - self._reported):
            self._reported.add(name)
            text = f"this machine has no {name}: the pod runs without it; on a cluster it would wait for a node with it"
            self._recorder.record(pod, "Warning", "NoSuchDevice", text)

    async def _report_unschedulable(self, pod: Object, why: str) -> None:
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why}
        condition["lastTransitionTime"] = format_time(self._now())
        known = (pod.get("status") or {}).get("conditions") or []
        if any(c["type"] == "PodScheduled" and c.get("message") == why for c in known):
            return
        path = object_path("pods", pod["metadata"]["namespace"], pod["metadata"]["name"], "status")
        await self._api.patch(path, {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"conditions": [condition]}})
        self._recorder.record(pod, "Warning", "FailedScheduling", why, source=scheduler.DEFAULT_SCHEDULER)
