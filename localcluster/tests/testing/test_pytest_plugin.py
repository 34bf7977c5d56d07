"""The fixtures `kubernetes_api` and `shared_kubernetes_api`, as a project that knows nothing else of jobcommon uses them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config
from kubernetes_asyncio import client as async_client
from kubernetes_asyncio import config as async_config

from localcluster.testing.kubernetes_api import ApiServers, KubectlError, KubernetesApi

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

CONFIG_MAP = '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}}'


def test_kubectl(kubernetes_api: KubernetesApi) -> None:
    assert kubernetes_api.kubectl("create", "-f", "-", stdin=CONFIG_MAP) == "configmap/mine created\n"
    with pytest.raises(KubectlError, match=r"kubectl get configmap absent: .*NotFound"):
        kubernetes_api.kubectl("get", "configmap", "absent")
    # The same through the environment that a test's own processes get.
    ran = subprocess.run(["kubectl", "get", "cm", "mine", "-o", "name"], env=kubernetes_api.env, capture_output=True, text=True)
    assert ran.stdout == "configmap/mine\n", ran.stderr


def test_the_official_client_without_a_word_about_the_server(kubernetes_api: KubernetesApi) -> None:
    config.load_kube_config()
    core = client.CoreV1Api()
    names = [item.metadata.name for item in core.list_namespaced_config_map("default").items]
    assert names == ["kube-root-ca.crt"], "each test has a fresh server"
    core.create_namespaced_pod("default", {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    assert core.read_namespaced_pod("p", "default").status.phase == "Pending"


async def test_an_asyncio_test(kubernetes_api: KubernetesApi) -> None:
    await async_config.load_kube_config()
    async with async_client.ApiClient() as api:
        found = await async_client.CoreV1Api(api).list_namespaced_service_account("default")
    assert [item.metadata.name for item in found.items] == ["default"]


def test_the_environment_leads_to_the_test_s_own_server(
    shared_kubernetes_api: KubernetesApi, kubernetes_api: KubernetesApi
) -> None:
    assert shared_kubernetes_api.url != kubernetes_api.url
    assert os.environ["KUBECONFIG"] == str(kubernetes_api.kubeconfig)


def test_clients_do_not_find_the_cluster_that_the_tests_run_in(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    api: KubernetesApi = request.getfixturevalue("kubernetes_api")
    assert "KUBERNETES_SERVICE_HOST" not in os.environ.keys() | api.env.keys()
    config.load_config()
    assert [item.metadata.name for item in client.CoreV1Api().list_namespaced_service_account("default").items] == ["default"]


def test_a_webhook_of_the_test_itself(kubernetes_api: KubernetesApi) -> None:
    def denied(request: dict[str, Any]) -> dict[str, Any] | None:
        bad = request["object"].get("data", {}).get("k") == "bad"
        return {"allowed": False, "status": {"message": "bad data"}} if bad else None

    def labelled(request: dict[str, Any]) -> dict[str, Any]:
        return {"patch": [{"op": "add", "path": "/metadata/labels", "value": {"seen": request["operation"].lower()}}]}

    wrong = json.dumps({**json.loads(CONFIG_MAP), "data": {"k": "bad"}})
    with kubernetes_api.webhook(denied, "configmaps"), kubernetes_api.webhook(labelled, "configmaps", mutating=True):
        with pytest.raises(KubectlError, match="denied the request: bad data"):
            kubernetes_api.kubectl("create", "-f", "-", stdin=wrong)
        kubernetes_api.kubectl("create", "-f", "-", stdin=CONFIG_MAP)
    assert kubernetes_api.kubectl("get", "configmap", "mine", "-o", "jsonpath={.metadata.labels.seen}") == "create"
    assert kubernetes_api.kubectl("replace", "-f", "-", stdin=wrong) == "configmap/mine replaced\n"


def test_a_webhook_that_raises_names_its_exception(kubernetes_api: KubernetesApi) -> None:
    def broken(request: dict[str, Any]) -> None:
        raise KeyError("replicas")

    told = r"denied the request: the review function of the test has raised KeyError: 'replicas'"
    with (
        pytest.raises(KeyError, match="replicas"),
        kubernetes_api.webhook(broken, "configmaps"),
        pytest.raises(KubectlError, match=told),
    ):
        kubernetes_api.kubectl("create", "-f", "-", stdin=CONFIG_MAP)


INNER = """
import pytest
from kubernetes import client, config


def create(name):
    config.load_kube_config()
    client.CoreV1Api().create_namespaced_config_map("default", {"metadata": {"name": name}})


def test_a_fault_that_does_not_happen(kubernetes_api, kubernetes_faults):
    kubernetes_faults.fail(409, path="/secrets$")
    create("a")


def test_a_fault_of_the_shared_server(shared_kubernetes_api, kubernetes_faults, kubernetes_kubelet):
    kubernetes_faults.fail(409, count=2)
    with pytest.raises(client.ApiException, match="409"):
        create("a")


def test_it_is_over_with_its_test(shared_kubernetes_api, kubernetes_kubelet):
    create("a")


def test_faults_of_two_servers(kubernetes_api, shared_kubernetes_api, kubernetes_faults):
    pass


def test_faults_without_a_server(kubernetes_faults):
    kubernetes_faults.fail(409)
    with pytest.raises(client.ApiException, match="409"):
        create("a")
"""


def test_faults_are_at_the_test_s_server_and_must_happen(tmp_path: Path) -> None:
    (tmp_path / "test_inner.py").write_text(INNER)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:warnings"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert "no request of the test met this fault: 409 for POST/PUT/PATCH/DELETE with path '/secrets$'" in ran.stdout
    assert "kubelet and faults are for one server" in ran.stdout
    assert "\n4 passed, 2 errors in " in ran.stdout, ran.stdout + ran.stderr


def test_a_webhook_that_cannot_be_reached(kubernetes_api: KubernetesApi) -> None:
    nowhere = kubernetes_api.webhook(lambda _: None, "configmaps", clientConfig={"url": "https://127.0.0.1:9/"})
    with nowhere, pytest.raises(KubectlError, match="failed to call webhook"):
        kubernetes_api.kubectl("create", "-f", "-", stdin=CONFIG_MAP)
    with (
        pytest.raises(ValueError, match="failurePolicy"),
        kubernetes_api.webhook(lambda _: None, "pods", failurePolicy="Maybe"),
    ):
        raise AssertionError("it was registered")


def test_the_kubeconfig_is_a_secret(kubernetes_api: KubernetesApi) -> None:
    assert kubernetes_api.kubeconfig.stat().st_mode & 0o077 == 0
    assert kubernetes_api.token not in repr(kubernetes_api)


@pytest.mark.slow
def test_the_tests_in_the_documents_pass(tmp_path: Path) -> None:
    """Those of README.md and docs/testing-operators.md, beside the files that they show."""
    pages = [
        (Path(__file__).parents[2] / name).read_text(encoding="utf-8") for name in ("README.md", "docs/testing-operators.md")
    ]
    blocks = re.findall(r"^```(?:python|yaml)\n(?:# (\S+)\n)?(.*?)^```", "\n".join(pages), re.MULTILINE | re.DOTALL)
    for name in {name for name, _ in blocks}:
        (tmp_path / (name or "test_pages.py")).write_text("\n\n".join(text for of, text in blocks if of == name))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert "\n6 passed in " in ran.stdout, ran.stdout + ran.stderr


def test_the_process_ends_with_the_one_that_started_it(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom localcluster.testing.kubernetes_api import ApiServers\n"
        "servers = ApiServers().__enter__()\nservers.fresh(Path(sys.argv[1])).__enter__()\n"
        "print('up', flush=True)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    # The process has inherited the pipe of standard error, which is read until the last one that has it is gone.
    ran = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, timeout=120)
    assert ran.stdout == "up\n"


def test_a_server_that_cannot_start_is_said(tmp_path: Path) -> None:
    with ApiServers() as servers, pytest.raises(RuntimeError, match="has ended"), servers.fresh(tmp_path / "absent"):
        raise AssertionError("it has started")


def test_a_run_of_pytest_that_uses_no_fixture_imports_nothing_of_it() -> None:
    script = (
        "import sys, localcluster.testing.pytest_plugin as p; print([m for m in sys.modules if m.startswith('localcluster')])"
    )
    ran = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=True)
    assert json.loads(ran.stdout.replace("'", '"')) == [
        "localcluster",
        "localcluster.testing",
        "localcluster.testing.pytest_plugin",
    ]
