"""Another operator for TFJobs as a process of its own, with an account of its own, measured as ours is.

It is started by a command of the user's. ``{kubeconfig}`` and ``{server}`` in it are replaced; in its environment
``KUBECONFIG`` names the same file, and ``KUBEFLOW_NAMESPACE`` the namespace of its account, for its leader election. The
account has all rights to what an operator handles. It has none to CustomResourceDefinitions: the reference's operator asks
for its own in the version v1beta1, which servers have not had since 1.22. It ends if there is none, but starts if it may
not ask.
"""

import asyncio
import hashlib
import json
import os
import shlex
import shutil
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import yaml

from benchmarks.apiserver import Server, prepare
from benchmarks.operator_process import Measured, T
from benchmarks.processes import stop
from benchmarks.workloads import PER_JOB
from jobcommon.client.objects import collection_path
from jobcommon.client.request import Request
from jobcommon.client.transport import HttpTransport

ACCOUNT = "peer"
_RBAC = "rbac.authorization.k8s.io"
_GROUPS = (
    "", "apps", "autoscaling", "batch", "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io", "kubeflow.org",
    "networking.k8s.io", "policy", _RBAC, "scheduling.k8s.io", "scheduling.volcano.sh", "scheduling.x-k8s.io",
)  # fmt: skip
_TOKEN_SECONDS = 6 * 3600
_TAIL = 2000


@dataclass(frozen=True)
class Peer:
    """The operator to compare with: its command, and what it creates a Service for, `PER_JOB` or `PER_POD`."""

    command: str
    services: str = PER_JOB

    @property
    def program(self) -> str:
        """The program. Raises ValueError if it is not there."""
        words = shlex.split(self.command)
        found = shutil.which(words[0]) if words else None
        if found is None:
            raise ValueError(f"{self.command!r} names no program that can be run")
        return found

    @property
    def name(self) -> str:
        """What a table calls it: the command without its directory, and the start of the program's checksum."""
        words = shlex.split(self.command)
        digest = hashlib.sha256(Path(self.program).read_bytes()).hexdigest()[:12]
        return f"{shlex.join([Path(words[0]).name, *words[1:]])} (sha256 {digest})"

    def arguments(self, server: Server, path: Path) -> list[str]:
        """The command for a server, with the kubeconfig at `path`."""
        places = {"{kubeconfig}": str(path), "{server}": server.endpoint.base_url}
        found = shlex.split(self.command)
        for place, value in places.items():
            found = [word.replace(place, value) for word in found]
        return [self.program, *found[1:]]


class PeerProcess(Measured):
    """The peer while it runs. What it prints goes to `log`."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        super().__init__(process.pid)
        self._process = process
        self._log = log

    async def during(self, work: Awaitable[T]) -> T:
        """The result of `work`. Raises RuntimeError if the peer ends before, or if `work` does: with the end of its log."""
        working, ending = asyncio.ensure_future(work), asyncio.ensure_future(self._process.wait())
        await asyncio.wait({working, ending}, return_when=asyncio.FIRST_COMPLETED)
        ended = ending.done()
        ending.cancel()
        working.cancel()
        [found] = await asyncio.gather(working, return_exceptions=True)
        if not isinstance(found, BaseException):
            return found
        what = f"it exited with code {self._process.returncode}" if ended else str(found)
        raise RuntimeError(f"the peer: {what}\n{self._log.read_text(errors='replace')[-_TAIL:]}") from found


@asynccontextmanager
async def peer_process(peer: Peer, server: Server, namespace: str) -> AsyncIterator[PeerProcess]:
    """The peer, started, with an account in `namespace`, which is new: so is its lease."""
    with TemporaryDirectory(prefix="benchmarks-") as work:
        path, log = Path(work) / "kubeconfig", Path(work) / "log"
        path.touch(0o600)
        async with server.connected() as user:
            path.write_text(await _account(server, user, namespace))
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                *peer.arguments(server, path), cwd=work, stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output,
                env={**os.environ, "KUBECONFIG": str(path), "KUBEFLOW_NAMESPACE": namespace},
            )  # fmt: skip
        try:
            yield PeerProcess(process, log)
        finally:
            await stop(process)


async def _account(server: Server, user: HttpTransport, namespace: str) -> str:
    """Make the account; its kubeconfig."""
    await prepare(user, namespace)
    name = f"benchmark-{namespace}"
    rules = [{"apiGroups": list(_GROUPS), "resources": ["*"], "verbs": ["*"]}]
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}
    role = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name}
    for api_version, plural, of, content in (
        ("v1", "serviceaccounts", namespace, {"kind": "ServiceAccount", "metadata": {"name": ACCOUNT}}),
        (f"{_RBAC}/v1", "clusterroles", None, {"kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}),
        (
            f"{_RBAC}/v1", "clusterrolebindings", None,
            {"kind": "ClusterRoleBinding", "metadata": {"name": name}, "roleRef": role, "subjects": [subject]},
        ),
    ):  # fmt: skip
        await _create(user, collection_path(api_version, plural, of), {"apiVersion": api_version, **content})
    path = collection_path("v1", "serviceaccounts", namespace) + f"/{ACCOUNT}/token"
    spec = {"expirationSeconds": _TOKEN_SECONDS}
    body = await _create(user, path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})
    token = msgspec.json.decode(body)["status"]["token"]
    return with_token(server.kubeconfig.read_text(), token, namespace)


def with_token(text: str, token: str, namespace: str) -> str:
    """The kubeconfig `text` with another user, and another namespace, in its current context."""
    content = yaml.safe_load(text)
    [context] = [one["context"] for one in content["contexts"] if one["name"] == content["current-context"]]
    context |= {"user": ACCOUNT, "namespace": namespace}
    return yaml.safe_dump({**content, "users": [{"name": ACCOUNT, "user": {"token": token}}]})


async def _create(user: HttpTransport, path: str, body: dict[str, Any]) -> bytes:
    answer = await user.send(Request("POST", path, body=json.dumps(body).encode()))
    if answer.status not in (200, 201):
        raise RuntimeError(f"{path}: {answer.status} {answer.body[:300]!r}")
    return answer.body
