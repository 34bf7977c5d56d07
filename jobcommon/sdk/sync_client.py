"""The synchronous client of jobs, on the official `kubernetes` package."""

import os
import time
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, TypeVar, cast

from jobcommon.client.config import SERVICE_ACCOUNT, ConfigError
from jobcommon.client.errors import TransportError
from jobcommon.client.list_watch import SILENCE_SECONDS
from jobcommon.client.request import Request, Response
from jobcommon.client.responses import response_error
from jobcommon.sdk.async_client import AsyncJobClient, JobOrName, Object, Objects
from jobcommon.sdk.build import KIND
from jobcommon.sdk.following import Timing

CONNECT_SECONDS, READ_SECONDS = 10.0, 65.0
T = TypeVar("T")


class JobClient:
    """Submits and follows jobs; for scripts and notebooks.

    The cluster is that of `kubeconfig` and `context`, else of $KUBECONFIG, else of the pod this runs in, else of
    ``~/.kube/config``; or of `api_client`, a `kubernetes.client.ApiClient`. `namespace`: without it that of the context.

    A job is named ``digits`` (of the client's `kind`), ``mpijob/digits``, or by its manifest. All methods raise `StatusError`
    for a refusal (404: there is no such job), `TransportError` without a response, and ValueError for an unknown kind. The
    constructor raises `ConfigError` when no cluster is configured, and ImportError without the extra ``jobcommon[sdk]``.
    """

    def __init__(
        self, kubeconfig: str | None = None, context: str | None = None, *, namespace: str | None = None,
        kind: str = KIND, api_client: Any = None,
    ) -> None:  # fmt: skip
        api_client, found = (api_client, "default") if api_client is not None else _configured(kubeconfig, context)
        self.namespace = namespace or found
        self._client = AsyncJobClient(_Blocking(api_client), self.namespace, kind=kind, timing=Timing(_sleep, nullcontext))

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
            with suppress(StopAsyncIteration):
                while True:
                    yield _done(anext(lines))
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


class _Blocking:
    """A `Transport` over an `ApiClient`: its pool, TLS and credentials. It blocks, so its coroutines never suspend."""

    def __init__(self, api_client: Any) -> None:
        self._api = api_client

    async def send(self, request: Request) -> Response:
        with self._answer(request, READ_SECONDS) as answer:
            return Response(answer.status, answer.data)

    async def stream(self, request: Request) -> AsyncIterator[bytes]:
        lasts = dict(request.query).get("timeoutSeconds")
        with self._answer(request, float(lasts) + SILENCE_SECONDS if lasts else None) as answer:
            if answer.status >= 400:
                raise response_error(Response(answer.status, answer.data))
            for line in answer:
                yield line.rstrip(b"\r\n")

    async def close(self) -> None:
        self._api.close()

    @contextmanager
    def _answer(self, request: Request, seconds: float | None) -> Iterator[Any]:
        """The answer, which is not read yet; errors of reading it are ours, too."""
        from urllib3 import Timeout
        from urllib3.exceptions import HTTPError

        config, pool = self._api.configuration, self._api.rest_client.pool_manager
        headers = {**self._api.default_headers, "accept": "application/json, */*", "content-type": request.content_type}
        headers |= {one["key"]: one["value"] for one in config.auth_settings().values()}
        options = {"headers": headers, "timeout": Timeout(connect=CONNECT_SECONDS, read=seconds), "preload_content": False}
        try:
            with pool.request(request.method, config.host.rstrip("/") + request.target, body=request.body, **options) as answer:
                yield answer
        except (HTTPError, OSError) as error:
            raise TransportError(f"{request.method} {request.path}: {error}") from error


def _configured(kubeconfig: str | None, context: str | None) -> tuple[Any, str]:
    """An `ApiClient` and its namespace. Raises ConfigError and ImportError."""
    try:
        config: Any  # without types
        from kubernetes import client, config
    except ModuleNotFoundError as error:
        raise ImportError(f"JobClient needs the package kubernetes: pip install 'jobcommon[sdk]' ({error})") from error
    file = kubeconfig or os.environ.get("KUBECONFIG")
    configuration = client.Configuration()
    try:
        if not file and not context and os.environ.get("KUBERNETES_SERVICE_HOST"):
            config.load_incluster_config(client_configuration=configuration)
            return client.ApiClient(configuration), (SERVICE_ACCOUNT / "namespace").read_text().strip()
        file = file or str(Path("~/.kube/config").expanduser())
        config.load_kube_config(file, context, configuration)
        contexts, current = config.list_kube_config_contexts(file)
    except (config.ConfigException, OSError) as error:
        raise ConfigError(f"{file or SERVICE_ACCOUNT}: {error}; name a kubeconfig, see: kubectl config view") from error
    used = next((one for one in contexts if one["name"] == context), current)
    return client.ApiClient(configuration), used["context"].get("namespace") or "default"


async def _sleep(seconds: float) -> None:
    time.sleep(seconds)  # noqa: ASYNC251  nothing else runs beside it


def _done(work: Awaitable[T]) -> T:
    """The result of a coroutine that never suspends, because its transport blocks."""
    try:
        next(work.__await__())
    except StopIteration as ended:
        return cast(T, ended.value)
    raise RuntimeError("a coroutine of the synchronous client was suspended")
