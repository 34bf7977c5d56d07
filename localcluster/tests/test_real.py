"""What stands beside a real API server: the kubelet's own server; and all of it, where there is one."""

import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from localcluster import envtest
from localcluster.cluster import REAL, local_cluster
from localcluster.credentials import self_signed
from localcluster.kubelet.api import Api
from localcluster.kubelet.server import serve_node
from localcluster.pod_backend import ExecOptions, LogOptions, Pod, PodBackendError
from localcluster.request import Request, Response
from tests.polling import polled

Obj = dict[str, Any]
CORE = "/api/v1/namespaces"
POD: Obj = {
    "metadata": {"name": "web", "namespace": "team"},
    "spec": {"nodeName": "local", "containers": [{"name": "main"}]},
    "status": {"phase": "Running"},
}


async def test_a_real_server_refuses_in_plain_text_what_it_does_not_serve() -> None:
    class Real:
        async def send(self, _: Request) -> Response:
            return Response(404, b"404 page not found\n")

    assert await Api(Real()).get("/apis/none/v1") is None  # type: ignore[arg-type]


class Played:
    """A pod that has printed its name."""

    async def logs(self, pod: Pod, options: LogOptions) -> AsyncIterator[bytes]:
        if options.previous:
            raise PodBackendError("previous terminated container not found", 400)
        yield f"{pod['metadata']['name']} {options.container} {options.tail_lines}".encode()

    async def exec(self, pod: Pod, options: ExecOptions, streams: Any) -> int:
        await streams.write_stdout(b"".join([await streams.read_stdin(), options.command[0].encode()]))
        return 3


async def test_a_kubelet_answers_the_holder_of_its_certificate(tmp_path: Path) -> None:
    certificate = self_signed()
    async with serve_node(certificate, envtest.LOOPBACK) as node, aiohttp.ClientSession() as session:
        node.find = lambda namespace, name: POD if (namespace, name) == ("team", "web") else None
        node.backend = Played()  # type: ignore[assignment]
        root = f"https://{envtest.LOOPBACK}:{node.port}"
        trusted = ssl.create_default_context(cadata=certificate.pem.decode())
        (tmp_path / "client.pem").write_bytes(certificate.key + certificate.pem)
        trusted.load_cert_chain(tmp_path / "client.pem")
        answer = await session.get(f"{root}/containerLogs/team/web/main?tailLines=2", ssl=trusted)
        assert (answer.status, await answer.text()) == (200, "web main 2")
        for path, status in (("team/web/main?previous=true", 400), ("team/other/main", 404), ("team/web/side", 400)):
            assert (await session.get(f"{root}/containerLogs/{path}", ssl=trusted)).status == status, path
        query = "command=ls&input=1&output=1"
        async with session.ws_connect(
            f"{root}/exec/team/web/main?{query}", ssl=trusted, protocols=("v5.channel.k8s.io",)
        ) as socket:
            await socket.send_bytes(b"\0in ")
            assert await socket.receive_bytes() == b"\1in ls"
            assert b'"ExitCode","message":"3"' in await socket.receive_bytes()
        stranger = ssl.create_default_context(cadata=certificate.pem.decode())
        with pytest.raises(aiohttp.ClientError):
            await session.get(f"{root}/containerLogs/team/web/main", ssl=stranger)


async def test_a_real_server_needs_its_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, text in (
        ("etcd", "echo no room here; exit 3"),
        ("kube-apiserver", "exec sleep 600"),
        (envtest.CONTROLLERS, "true"),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv(envtest.ASSETS, str(tmp_path))
    with pytest.raises(envtest.StartError, match="etcd ended with exit code 3:\nno room here"):
        async with local_cluster(server=REAL):
            raise AssertionError("started")
    monkeypatch.delenv(envtest.ASSETS)
    with pytest.raises(envtest.StartError, match=f"set {envtest.ASSETS} to a directory with etcd, kube-apiserver, kube-"):
        async with local_cluster(server=REAL):
            raise AssertionError("started")


@pytest.mark.cluster
@pytest.mark.skipif(envtest.assets() is None, reason=f"no real API server: set {envtest.ASSETS}")
async def test_a_real_server_runs_pods_as_processes() -> None:
    body = {"metadata": {"name": "one"}, "spec": {
        "restartPolicy": "Never", "containers": [{"name": "main", "image": "none", "command": ["echo", "hello"]}],
    }}  # fmt: skip
    async with local_cluster(server=REAL) as cluster:
        api = Api(cluster.transport)
        await api.call("POST", f"{CORE}/default/pods", body)
        await polled(lambda: api.get(f"{CORE}/default/pods/one"), lambda pod: pod["status"]["phase"] == "Succeeded")
        assert (await cluster.transport.send(Request("GET", f"{CORE}/default/pods/one/log"))).body == b"hello\n"
