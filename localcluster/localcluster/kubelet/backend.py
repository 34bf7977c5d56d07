"""The kubelet's answers to the API server: logs and exec."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

from localcluster.kubelet.container import ContainerProcess, run_exec
from localcluster.kubelet.logs import read_log
from localcluster.kubelet.worker import PodWorker
from localcluster.pod_backend import ExecOptions, ExecStreams, LogOptions, Pod, PodBackendError


class Backend:
    """Implements `localcluster.pod_backend.PodBackend` over the pod workers; `find` gives a pod's by uid."""

    def __init__(
        self, find: Callable[[str], PodWorker | None], log_path: Callable[[str, str, int], Path], now: Callable[[], float]
    ) -> None:
        self._find = find
        self._log_path = log_path
        self._now = now

    def _container(self, pod: Pod, name: str) -> ContainerProcess:
        worker = self._find(pod["metadata"]["uid"])
        if worker is None:
            raise PodBackendError(f'pod "{pod["metadata"]["name"]}" does not run on this node', 400)
        return worker.containers[name]

    async def logs(self, pod: Pod, options: LogOptions) -> AsyncIterator[bytes]:
        """See `PodBackend.logs`."""
        container = self._container(pod, options.container)
        run = container.seen.run
        name = pod["metadata"]["name"]
        if run is None:
            reason = container.seen.waiting[0] if container.seen.waiting else _waiting_reason(pod, options.container)
            raise PodBackendError(f'container "{options.container}" in pod "{name}" is waiting to start: {reason}', 400)
        attempt = run.attempt
        if options.previous:
            # While the next one is awaited, the latest run is the last state.
            attempt -= _last_state(pod, options.container) != run.container_id
            if attempt < 0:
                raise PodBackendError(f'previous terminated container "{options.container}" in pod "{name}" not found', 400)
        path = self._log_path(pod["metadata"]["uid"], options.container, attempt)

        def ended() -> bool:
            latest = container.seen.run
            return latest is None or latest.attempt != attempt or not latest.running

        async for piece in read_log(path, options, self._now(), ended):
            yield piece

    async def exec(self, pod: Pod, options: ExecOptions, streams: ExecStreams) -> int:
        """See `PodBackend.exec`."""
        return await run_exec(self._container(pod, options.container), options, streams)


def _last_state(pod: Pod, container: str) -> str:
    """The container ID of the run that the pod's status shows as the last state; "" without one."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    last = next((status.get("lastState") or {} for status in statuses if status.get("name") == container), {})
    return str((last.get("terminated") or {}).get("containerID") or "")


def _waiting_reason(pod: Pod, container: str) -> str:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    waiting = (one["state"].get("waiting") or {} for one in statuses if one["name"] == container)
    return str(next(waiting, {}).get("reason") or "ContainerCreating")
