"""A plugin for the end-to-end tests of client libraries: `localcluster serve` for a session, commands in place of images."""

import base64
import contextlib
import importlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from localcluster.testing.kubernetes_api import KubernetesApi

HTML = "/usr/share/nginx/html"
NGINX = f"echo '<h1>Welcome to nginx!</h1>' > {HTML}/index.html; exec python3 -m http.server 80 -d {HTML}"
_ended = contextlib.ExitStack()


def _commands(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """The webhook: what containers without a command would run, by the name of their image."""
    patch: list[Mapping[str, Any]] = []
    for index, container in enumerate(request["object"]["spec"]["containers"]):
        image = container["image"].rpartition("/")[2].partition(":")[0]
        commands = {"busybox": container.get("args"), "nginx": ["sh", "-c", NGINX], "pause": ["sleep", "infinity"]}
        if not container.get("command") and commands.get(image):
            fields: dict[str, Any] = {"command": commands[image], "args": []}
            if image == "nginx":
                fields["volumeMounts"] = [{"name": "html", "mountPath": HTML}]
                patch.append({"op": "add", "path": "/spec/volumes", "value": [{"name": "html", "emptyDir": {}}]})
            patch += [{"op": "add", "path": f"/spec/containers/{index}/{key}", "value": value} for key, value in fields.items()]
    return {"patch": patch}


def _cluster(directory: Path) -> KubernetesApi:
    path = directory / "kubeconfig"
    command = [sys.executable, "-m", "localcluster", "serve", "--kubeconfig", str(path)]
    process = _ended.enter_context(subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, text=True))
    _ended.callback(process.terminate)
    assert process.stdout is not None
    assert "is up" in process.stdout.readline()
    content = yaml.safe_load(path.read_text())
    cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
    certificate = directory / "ca.crt"
    certificate.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    return KubernetesApi(cluster["server"], user["token"], certificate, path)


class _Kind:
    """In place of a cluster of pytest-kind."""

    kubectl_path = "kubectl"

    def __init__(self, **_: object) -> None:
        self.kubeconfig_path = Path(os.environ["KUBECONFIG"])

    def create(self) -> None:
        """It is there."""

    def delete(self) -> None:
        """It ends with the session."""

    def kubectl(self, *arguments: str) -> str:
        return subprocess.check_output([self.kubectl_path, *arguments], text=True)


# Before kr8s imports it.
importlib.import_module("pytest_kind.cluster").KindCluster = _Kind  # type: ignore[attr-defined]


def pytest_configure() -> None:
    directory = Path(_ended.enter_context(tempfile.TemporaryDirectory()))
    api = _cluster(directory)
    os.environ |= api.variables
    _ended.enter_context(api.webhook(_commands, "pods", operations=("CREATE",), mutating=True))
    # The suites look for pods that a cluster brings.
    system = ("--namespace", "kube-system")
    api.kubectl("wait", *system, "--for=create", "serviceaccount/default")
    api.kubectl("run", *system, "metrics-server", "--image=pause")


def pytest_unconfigure() -> None:
    _ended.close()
