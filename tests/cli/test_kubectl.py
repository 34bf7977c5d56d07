"""The real kubectl against `jobcommon up`: what people type, in the order in which they would."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commands import Kubectl, cluster_up

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

JOB = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: {name}
  labels: {{team: vision}}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          terminationGracePeriodSeconds: 1
          containers:
            - name: pytorch
              image: any
              command: [sh, -c, '{command}']
"""


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    with cluster_up(tmp_path_factory.mktemp("up")) as kubectl:
        yield kubectl


def job(name: str, command: str) -> str:
    """A job of two workers."""
    return JOB.format(name=name, command=command)


def test_kubectl_lists_and_explains_our_resources(kubectl: Kubectl) -> None:
    assert "PyTorchJob" in kubectl("api-resources", "--api-group=kubeflow.org")
    assert "ttlSecondsAfterFinished" in kubectl("explain", "pytorchjob.spec.runPolicy")
    assert "restarted" in kubectl("explain", "pytorchjob.spec.runPolicy.backoffLimit")
    assert kubectl("auth", "can-i", "create", "pytorchjobs") == "yes\n"
    assert "local" in kubectl("get", "nodes", "-o", "name")


def test_a_restart_in_place_is_counted_and_told(kubectl: Kubectl, tmp_path: Path) -> None:
    command = f"[ -e {tmp_path}/flag ] && exec sleep 600; touch {tmp_path}/flag; exit 3"
    manifest = job("again", command).replace("replicas: 2", "replicas: 1\n      restartPolicy: OnFailure")
    kubectl("apply", "-f", "-", stdin=manifest)
    kubectl.until("1", "get", "pod", "again-worker-0", "-o", "jsonpath={.status.containerStatuses[0].restartCount}")
    message = "PyTorchJob default/again is running; Worker-0 restarted once, last: exited with code 3 (Error)."
    kubectl.until(message, "get", "pytorchjob", "again", "-o", "jsonpath={.status.conditions[-1:].message}")
    header, row = kubectl("get", "pytorchjob", "again", "-o", "wide").splitlines()
    assert header.split()[-6:] == ["REASON", "RESTARTS", "PROGRESS", "LOST", "STEPS", "WORKERS"]
    assert row.split()[-2:] == ["PyTorchJobRunning", "1"]
    kubectl("delete", "pytorchjob", "again")


def test_the_condition_names_the_missing_secret(kubectl: Kubectl) -> None:
    manifest = job("secretive", "exit 0").replace(
        "image: any", "image: any\n              envFrom: [{secretRef: {name: later}}]"
    )
    kubectl("apply", "-f", "-", stdin=manifest)
    why = 'waiting: Worker-0, Worker-1: CreateContainerConfigError: secret "later" not found'
    path = "jsonpath={.status.conditions[-1:].message}"
    kubectl.until(f"PyTorchJob secretive is created; {why}.", "get", "pytorchjob", "secretive", "-o", path)
    kubectl("create", "secret", "generic", "later", "--from-literal=word=hello")
    kubectl("wait", "--for=condition=Succeeded", "pytorchjob/secretive", "--timeout=180s")
