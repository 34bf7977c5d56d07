"""The fixtures `kubernetes_kubelet` and `kubernetes_faults`."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client, config, watch

from localcluster.testing.kubernetes_api import Faults, KubectlError, Kubelet, KubernetesApi

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def core(kubernetes_api: KubernetesApi) -> client.CoreV1Api:
    config.load_kube_config()
    return client.CoreV1Api()


def pod(name: str, policy: str = "Never") -> dict[str, Any]:
    spec = {
        "restartPolicy": policy,
        "initContainers": [{"name": "before", "image": "i"}],
        "containers": [{"name": "main", "image": "i"}],
    }
    return {"metadata": {"name": name}, "spec": spec}


def until(api: KubernetesApi, name: str, path: str, value: str) -> None:
    api.kubectl("wait", f"pod/{name}", f"--for=jsonpath={{.status.{path}}}={value}", "--timeout=60s")


def test_a_played_pod_runs_until_the_test_ends_it(
    kubernetes_api: KubernetesApi, core: client.CoreV1Api, kubernetes_kubelet: Kubelet
) -> None:
    core.create_namespaced_pod("default", pod("p"))
    kubernetes_api.kubectl("wait", "pod/p", "--for=condition=Ready", "--timeout=60s")
    assert core.read_namespaced_pod("p", "default").spec.node_name == "played"
    kubernetes_kubelet.exit("p", 3)
    until(kubernetes_api, "p", "phase", "Failed")
    found = core.read_namespaced_pod("p", "default").status.container_statuses[0]
    assert found.state.terminated.exit_code == 3
    with pytest.raises(ValueError, match="no container 'main' runs"):
        kubernetes_kubelet.exit("p")


@pytest.mark.parametrize(
    ("arguments", "what"), [(("logs", "p"), "writes no log"), (("exec", "p", "--", "true"), "runs no commands")]
)
def test_a_played_pod_says_that_it_has_no_process(
    kubernetes_api: KubernetesApi, kubernetes_kubelet: Kubelet, arguments: tuple[str, ...], what: str
) -> None:
    kubernetes_api.kubectl("run", "p", "--image=any")
    kubernetes_api.kubectl("wait", "pod/p", "--for=condition=Ready", "--timeout=60s")
    with pytest.raises(KubectlError, match=rf'container "p" in pod "p" is only played: it has no process and {what}'):
        kubernetes_api.kubectl(*arguments)


def test_a_played_container_is_restarted_by_its_policy(
    kubernetes_api: KubernetesApi, core: client.CoreV1Api, kubernetes_kubelet: Kubelet
) -> None:
    core.create_namespaced_pod("default", pod("p", "OnFailure"))
    until(kubernetes_api, "p", "phase", "Running")
    kubernetes_kubelet.exit("p", 1)
    until(kubernetes_api, "p", "containerStatuses[0].restartCount", "1")
    kubernetes_kubelet.exit("p", 0, container="main")
    until(kubernetes_api, "p", "phase", "Succeeded")


def test_a_played_pod_that_is_deleted_is_gone_before_its_grace_period_is_over(
    kubernetes_api: KubernetesApi, core: client.CoreV1Api, kubernetes_kubelet: Kubelet
) -> None:
    core.create_namespaced_pod("default", pod("p"))
    until(kubernetes_api, "p", "phase", "Running")
    kubernetes_api.kubectl("delete", "pod", "p", "--grace-period=3000", "--timeout=60s")


def test_a_request_fails_as_often_as_asked(core: client.CoreV1Api, kubernetes_faults: Faults) -> None:
    kubernetes_faults.fail(409, methods=["POST"], path="/configmaps$", count=2)
    for _ in range(2):
        with pytest.raises(client.ApiException) as refused:
            core.create_namespaced_config_map("default", {"metadata": {"name": "a"}})
        assert (refused.value.status, json.loads(refused.value.body)["reason"]) == (409, "Conflict")
        core.list_namespaced_config_map("default")
    core.create_namespaced_config_map("default", {"metadata": {"name": "a"}})


@pytest.mark.parametrize(
    "fault",
    [
        {"methods": "POST"}, {"methods": ["post"]}, {"count": 0}, {"path": "("}, {"query": "("}, {"code": 200},
        {"code": "500"}, {"stored": True, "watch": True},
    ],
    ids=lambda fault: " ".join(fault),
)  # fmt: skip
def test_a_fault_that_can_never_happen_is_refused(kubernetes_faults: Faults, fault: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(fault))):
        kubernetes_faults.fail(**{"code": 500, **fault})


def test_an_answer_is_lost_and_the_write_is_not(core: client.CoreV1Api, kubernetes_faults: Faults) -> None:
    kubernetes_faults.fail(504, stored=True)
    with pytest.raises(client.ApiException):
        core.create_namespaced_config_map("default", {"metadata": {"name": "a"}})
    assert core.read_namespaced_config_map("a", "default")


def test_a_fault_can_be_for_some_queries(core: client.CoreV1Api, kubernetes_faults: Faults) -> None:
    kubernetes_faults.fail(500, methods=["GET"], query="labelSelector=app=x(&|$)")
    assert core.list_namespaced_config_map("default", label_selector="app=y")
    with pytest.raises(client.ApiException, match="500"):
        core.list_namespaced_config_map("default", label_selector="app=x")


def test_a_fault_can_be_for_watches(core: client.CoreV1Api, kubernetes_faults: Faults) -> None:
    version = core.list_namespaced_config_map("default").metadata.resource_version
    kubernetes_faults.fail(503, watch=True, path="/configmaps$")
    core.create_namespaced_config_map("default", {"metadata": {"name": "a"}})
    with pytest.raises(client.ApiException, match="503"):
        next(watched(core, version))
    assert next(watched(core, version))["object"].metadata.name == "a"


def test_faults_that_have_not_happened_are_told_once(core: client.CoreV1Api, kubernetes_faults: Faults) -> None:
    kubernetes_faults.fail(409, methods=["POST"], count=9)
    kubernetes_faults.fail(500, methods=["PUT"], path="/pods", query="force")
    kubernetes_faults.fail(410, watch=True)
    with pytest.raises(client.ApiException):
        core.create_namespaced_config_map("default", {"metadata": {"name": "a"}})
    assert kubernetes_faults.end() == ["500 for PUT with path '/pods' with query 'force'", "410 for watches"]
    assert kubernetes_faults.end() == []
    core.create_namespaced_config_map("default", {"metadata": {"name": "a"}})


def test_throttling_says_when_to_come_back(core: client.CoreV1Api, kubernetes_faults: Faults) -> None:
    kubernetes_faults.fail(429, retry_after=1)
    # The client itself repeats reads.
    with pytest.raises(client.ApiException) as refused:
        core.create_namespaced_config_map("default", {"metadata": {"name": "a"}})
    assert refused.value.headers["Retry-After"] == "1"


def watched(core: client.CoreV1Api, version: str) -> Iterator[Any]:
    return iter(watch.Watch().stream(core.list_namespaced_config_map, "default", resource_version=version))


def test_watches_end_and_begin_again_where_they_were(core: client.CoreV1Api, kubernetes_faults: Faults) -> None:
    version = core.list_namespaced_config_map("default").metadata.resource_version
    seen: list[str] = []
    first, done = threading.Event(), threading.Event()

    def follow() -> None:
        for event in watched(core, version):
            seen.append(event["object"].metadata.name)
            first.set()
            if len(seen) == 2:
                done.set()
                return

    thread = threading.Thread(target=follow)
    thread.start()
    core.create_namespaced_config_map("default", {"metadata": {"name": "a"}})
    assert first.wait(60)
    kubernetes_faults.drop_watches()
    core.create_namespaced_config_map("default", {"metadata": {"name": "b"}})
    assert done.wait(60)
    thread.join()
    assert seen == ["a", "b"]


def test_after_a_compaction_clients_have_to_list_again(core: client.CoreV1Api, kubernetes_faults: Faults) -> None:
    version = core.list_namespaced_config_map("default").metadata.resource_version
    core.create_namespaced_config_map("default", {"metadata": {"name": "a"}})
    kubernetes_faults.compact()
    with pytest.raises(client.ApiException) as refused:
        next(watched(core, version))
    assert refused.value.status == 410
