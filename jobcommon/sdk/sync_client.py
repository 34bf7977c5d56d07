"""The synchronous client of jobs: the asynchronous one, on an event loop in a thread of its own."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from functools import cache
from threading import Thread
from typing import Any, TypeVar

from jobcommon.sdk.async_client import AsyncJobClient, JobOrName, Object, Objects
from jobcommon.sdk.build import KIND

T = TypeVar("T")


class JobClient:
    """Submits and follows jobs; for scripts and notebooks.

    The cluster is that of `kubeconfig` and `context`, else of $KUBECONFIG, else of the pod this runs in, else of
    ``~/.kube/config``; or of `api_client`, a ``kubernetes.client.ApiClient``. `namespace`: without it that of the context.

    A job is named ``digits`` (of the client's `kind`), ``mpijob/digits``, or by its manifest. All methods raise `StatusError`
    for a refusal (404: there is no such job), `TransportError` without a response, and ValueError for an unknown kind. The
    constructor raises `ConfigError` when no cluster is configured.
    """

    def __init__(
        self, kubeconfig: str | None = None, context: str | None = None, *, namespace: str | None = None,
        kind: str = KIND, api_client: Any = None,
    ) -> None:  # fmt: skip
        # The connection is open as long as this is there.
        self._connection = AsyncJobClient.connect(kubeconfig, context, namespace=namespace, kind=kind, api_client=api_client)
        self._client = _done(self._connection.__aenter__())
        self.namespace = self._client.namespace

    def submit(self, job: Mapping[str, Any]) -> Object:
        """Create a job from its manifest, as `build_job` makes it; the job as the API server stored it.

        Raises ValueError for an invalid manifest, as `build_job` does, and `StatusError` with code 409 when there is a job of
        that name.
        """
        return _done(self._client.submit(job))

    def get(self, job: JobOrName) -> Object:
        """The job as it is now."""
        return _done(self._client.get(job))

    def list(self, *, kind: str | None = None, selector: str = "") -> Objects:
        """The jobs of a kind (None: the client's) in the client's namespace; `selector` is a label selector."""
        return _done(self._client.list(kind=kind, selector=selector))

    def wait(self, job: JobOrName, *, timeout: float | None = None, progress: bool = True, interval: float = 10.0) -> Object:
        """Wait until the job has succeeded, and return it. It is watched or, if it may only be read, read every 2 seconds.

        Raises `JobFailed` when it has failed or is deleted; the text says why and what to do. Raises TimeoutError after
        `timeout` seconds (None: never); the job continues, the text says what it does or waits for, and `wait` can be called
        again. A suspended job is waited for. While the API server does not answer, the wait continues.

        `progress`: a notebook or a terminal shows one line, updated at each change and after `interval` seconds; else each
        change is a line on standard error.
        """
        return _done(self._client.wait(job, timeout=timeout, progress=progress, interval=interval))

    def logs(
        self, job: JobOrName, *, replica: str | None = None, follow: bool = False, tail: int | None = None
    ) -> Iterator[str]:
        """The lines of a replica, as in ``Worker-1`` (None: the first, that is the Master, Chief or Launcher).

        With `follow` they come as they are printed, across restarts, until the job has finished. `tail`: only the last lines of
        what there is. Without `follow` raises `StatusError` when the replica has no pod or has not started.
        """
        lines = self._client.logs(job, replica=replica, follow=follow, tail=tail)
        try:
            while (line := _done(_next(lines))) is not None:
                yield line
        finally:
            _done(lines.aclose())

    def suspend(self, job: JobOrName) -> Object:
        """Stop the job's pods until it is resumed; nothing counts as a failure."""
        return _done(self._client.suspend(job))

    def resume(self, job: JobOrName) -> Object:
        """Start a suspended job."""
        return _done(self._client.resume(job))

    def delete(self, job: JobOrName) -> None:
        """Delete the job. Its pods are deleted by the cluster afterwards."""
        _done(self._client.delete(job))


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, name="jobcommon-client", daemon=True).start()
    return loop


def _done(work: Coroutine[Any, Any, T]) -> T:
    """The result. Whatever interrupts the wait for it, as Ctrl-C does, ends the work, too."""
    future = asyncio.run_coroutine_threadsafe(work, _loop())
    try:
        return future.result()
    finally:
        future.cancel()


async def _next(lines: AsyncIterator[str]) -> str | None:
    return await anext(lines, None)
