"""The official Python client lists, watches and patches jobs as on any cluster."""

from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client, config, watch

from tests.cli.commands import PATIENCE, Kubectl, cluster_up
from tests.cli.jobs import shell_job

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

KIND = {"group": "kubeflow.org", "version": "v1", "namespace": "default", "plural": "pytorchjobs"}


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    with cluster_up(tmp_path_factory.mktemp("up")) as kubectl:
        yield kubectl


@pytest.fixture
def api(kubectl: Kubectl) -> Iterator[client.ApiClient]:
    with config.new_client_from_config(str(kubectl.kubeconfig)) as api:
        yield api


def job(name: str, command: str) -> dict[str, Any]:
    manifest = shell_job(command, workers=2, name=name)
    manifest["metadata"] = {"name": name, "labels": {"by": "client"}}
    return manifest


def test_custom_objects(api: client.ApiClient) -> None:
    jobs = client.CustomObjectsApi(api)
    created = jobs.create_namespaced_custom_object(**KIND, body=job("official", "exec sleep 600"))
    assert created["metadata"]["uid"]

    states = []
    stream = watch.Watch()
    for event in stream.stream(jobs.list_namespaced_custom_object, **KIND, timeout_seconds=int(PATIENCE)):
        conditions = event["object"].get("status", {}).get("conditions", [])
        states += [c["type"] for c in conditions if c["type"] not in states]
        if "Running" in states:
            stream.stop()
    assert states == ["Created", "Running"]

    patched = jobs.patch_namespaced_custom_object(**KIND, name="official", body={"spec": {"runPolicy": {"suspend": True}}})
    assert patched["spec"]["runPolicy"]["suspend"] is True
    for event in stream.stream(jobs.list_namespaced_custom_object, **KIND, timeout_seconds=int(PATIENCE)):
        conditions = event["object"].get("status", {}).get("conditions", [])
        if conditions and conditions[-1]["type"] == "Suspended":
            stream.stop()
            break
    else:
        raise AssertionError("the job was not suspended")

    listed = jobs.list_namespaced_custom_object(**KIND, label_selector="by=client")
    assert [item["metadata"]["name"] for item in listed["items"]] == ["official"]
    with pytest.raises(client.ApiException) as conflict:
        jobs.replace_namespaced_custom_object(**KIND, name="official", body=created)
    assert conflict.value.status == 409
    jobs.delete_namespaced_custom_object(**KIND, name="official")
    with pytest.raises(client.ApiException) as missing:
        jobs.get_namespaced_custom_object(**KIND, name="official")
    assert missing.value.status == 404


def test_pods_and_their_logs(api: client.ApiClient) -> None:
    jobs, core = client.CustomObjectsApi(api), client.CoreV1Api(api)
    jobs.create_namespaced_custom_object(**KIND, body=job("logs", "echo hello from $HOSTNAME"))
    stream = watch.Watch()
    for event in stream.stream(core.list_namespaced_pod, "default", label_selector="training.kubeflow.org/job-name=logs"):
        if event["object"].metadata.name == "logs-worker-1" and event["object"].status.phase == "Succeeded":
            stream.stop()
    assert core.read_namespaced_pod_log("logs-worker-1", "default") == "hello from logs-worker-1\n"
    pod = core.read_namespaced_pod("logs-worker-1", "default")
    assert pod.metadata.owner_references[0].kind == "PyTorchJob"
    assert pod.status.container_statuses[0].state.terminated.exit_code == 0
