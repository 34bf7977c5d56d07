"""In-cluster configuration of pods: kubectl and the official Python client inside a pod act as its ServiceAccount."""

import shutil
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from localcluster.cluster import Cluster, local_cluster
from localcluster.kubelet import kubelet
from localcluster.kubelet.api import Api
from localcluster.kubelet.options import host_environment
from localcluster.kubelet.process import Isolation, detect
from localcluster.kubelet.service_account import MOUNT_PATH
from localcluster.pod_backend import LogOptions
from tests.kubelet.process_cluster import shell, state
from tests.polling import polled

RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
READ_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}
ENDS = ("Succeeded", "Failed")
ACCOUNTS = ("reader", "stranger")
KUBECTL = shutil.which("kubectl") or str(Path(sys.executable).parent / "kubectl")
LIST_PODS = f"{KUBECTL} get pods -o name"
OMPI = "OMPI_MCA_btl_tcp_port_min_v4"


def test_pods_inherit_neither_the_way_to_another_cluster_nor_how_python_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "PYTHONUNBUFFERED", "KUBEFLOW"):
        monkeypatch.setenv(name, "1")
        assert (name in host_environment()) is (name == "KUBEFLOW")


@dataclass(frozen=True)
class Running:
    """A cluster, seen from one namespace."""

    cluster: Cluster
    isolation: Isolation
    namespace: str = "default"

    @property
    def api(self) -> Api:
        return Api(self.cluster.transport)

    def path(self, plural: str, name: str = "") -> str:
        return f"/api/v1/namespaces/{self.namespace}/{plural}/{name}".rstrip("/")

    async def ended(self, item: dict[str, Any]) -> tuple[dict[str, Any], str]:
        """The pod once it has come to an end, and what it printed."""
        item["metadata"]["namespace"] = self.namespace
        await self.api.call("POST", self.path("pods"), item)
        path = self.path("pods", item["metadata"]["name"])
        found = await polled(lambda: self.api.call("GET", path), lambda found: found["status"].get("phase") in ENDS)
        pieces = self.cluster.pods.logs(found, LogOptions("main"))
        return found, b"".join([piece async for piece in pieces]).decode()


@pytest.fixture(params=["namespaces", "fallback"])
async def running(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[Running]:
    """A cluster with a ServiceAccount that may read pods and one that may not, run by a user with a kubeconfig of their own."""
    isolation = await detect() if request.param == "namespaces" else Isolation(namespaces=False)
    if request.param == "namespaces" and not isolation.namespaces:
        pytest.skip("this machine has no namespaces")

    async def given() -> Isolation:
        return isolation

    monkeypatch.setattr(kubelet, "detect", given)
    production = {"server": "https://127.0.0.1:1"}
    context = {"name": "p", "context": {"cluster": "p", "user": ""}}
    (tmp_path / ".kube").mkdir()
    own = {"clusters": [{"name": "p", "cluster": production}], "contexts": [context], "current-context": "p"}
    (tmp_path / ".kube/config").write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **own}))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    async with local_cluster(stop_grace=1.0) as cluster:
        found = Running(cluster, isolation)
        for name in ACCOUNTS:
            await found.api.call("POST", found.path("serviceaccounts"), {"metadata": {"name": name}})
        await found.api.call("POST", f"{RBAC}/roles", {"metadata": {"name": "reader"}, "rules": [READ_PODS]})
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
        subjects = [{"kind": "ServiceAccount", "name": "reader", "namespace": "default"}]
        binding = {"metadata": {"name": "reader"}, "roleRef": reference, "subjects": subjects}
        await found.api.call("POST", f"{RBAC}/rolebindings", binding)
        yield found


async def test_kubectl_in_a_pod_acts_as_its_service_account(running: Running) -> None:
    found, said = await running.ended(shell("allowed", LIST_PODS, {"serviceAccountName": "reader"}))
    assert (found["status"]["phase"], said) == ("Succeeded", "pod/allowed\n")
    found, said = await running.ended(shell("refused", LIST_PODS, {"serviceAccountName": "stranger"}))
    assert state(found)["state"]["terminated"]["exitCode"] == 1
    assert 'pods is forbidden: User "system:serviceaccount:default:stranger" cannot list resource "pods"' in said


async def test_what_a_pod_finds(running: Running) -> None:
    """The files of its account, no way to the user's own cluster, and a volume wherever it is written."""
    namespaces = running.isolation.namespaces
    script = (
        f"cd {MOUNT_PATH} && echo $(ls) $(cat namespace) && cat ca.crt && echo ${{{OMPI}-none}}"
        " && (stat -c %a ${KUBECONFIG-/no/such/file} 2>/dev/null || echo none)"
        " && echo x > /jobcommon-one/f && cat /jobcommon-two/f"
    )
    mounts = [{"name": "v", "mountPath": path} for path in ("/jobcommon-one", "//jobcommon-two/")]
    item = shell("p", script, {"volumes": [{"name": "v", "emptyDir": {}}]}, volumeMounts=mounts)
    found, said = await running.ended(item)
    first, *authority, ports, mode, through = said.splitlines()
    assert first == "ca.crt namespace token default"
    assert "\n".join([*authority, ""]) == running.cluster.credentials.certificate.pem.decode()
    # A kubeconfig is for the user alone; with namespaces there is none: the token is mounted.
    assert (ports, mode, through) == (("0", "none", "x") if namespaces else ("none", "600", "x"))
    assert [one["name"] for one in found["spec"]["volumes"]] == ["v"], "the spec stays as it was written"


async def test_no_token_where_it_is_not_wanted(running: Running) -> None:
    """The account's namespace is as new as the pod, which waits for it."""
    await running.api.call("POST", "/api/v1/namespaces", {"metadata": {"name": "fresh"}})
    fresh = Running(running.cluster, running.isolation, "fresh")
    item = shell("p", f"ls {MOUNT_PATH}/token 2>&1; echo ${{KUBECONFIG-none}}", {"automountServiceAccountToken": False})
    _, said = await fresh.ended(item)
    assert said.endswith("none\n")
    assert "No such file" in said
