"""The real kubectl against `jobcommon up`: what people type, in the order in which they would."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commands import PATIENCE, Kubectl, cluster_up

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
WAITING = "echo started; while [ ! -e {flag} ]; do sleep 0.05; done; echo finished"


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    with cluster_up(tmp_path_factory.mktemp("up")) as kubectl:
        yield kubectl


def job(name: str, command: str) -> str:
    """A job of two workers."""
    return JOB.format(name=name, command=command)


def read_until(process: subprocess.Popen[str], wanted: str) -> list[str]:
    """The lines up to the one that contains `wanted`."""
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if wanted in line:
            return lines
    raise AssertionError(f"{wanted!r} was not printed: {lines}")


def test_a_job_by_hand(kubectl: Kubectl, tmp_path: Path) -> None:
    manifest, flag = tmp_path / "job.yaml", tmp_path / "flag"
    manifest.write_text(job("mnist", WAITING.format(flag=flag)))
    assert kubectl("apply", "-f", str(manifest)) == "pytorchjob.kubeflow.org/mnist created\n"
    assert kubectl("apply", "-f", str(manifest)) == "pytorchjob.kubeflow.org/mnist unchanged\n"
    refused = kubectl.run("create", "-f", str(manifest))
    assert refused.returncode == 1
    assert "AlreadyExists" in refused.stderr

    kubectl("wait", "--for=condition=Running", "pytorchjob/mnist", f"--timeout={PATIENCE:.0f}s")
    header, row = kubectl("get", "pytorchjob", "mnist").splitlines()
    assert header.split() == ["NAME", "STATE", "AGE"]
    assert row.split()[:2] == ["mnist", "Running"]
    # The first worker makes it Running; the count of the second is written up to a second later.
    kubectl.until("2", "get", "pytorchjob/mnist", "-o", "jsonpath={.status.replicaStatuses.Worker.active}")
    assert "kind: PyTorchJob" in kubectl("get", "pytorchjob", "mnist", "-o", "yaml")
    assert kubectl("get", "pytorchjob", "mnist", "-o", "wide").splitlines()[1].split()[0] == "mnist"
    assert kubectl("get", "pytorchjobs", "-l", "team=vision", "-o", "name") == "pytorchjob.kubeflow.org/mnist\n"
    assert kubectl("get", "pytorchjobs", "-l", "team=sound", "-o", "name") == ""
    pods = "training.kubeflow.org/job-name=mnist"
    assert kubectl("get", "pods", "-l", pods, "-o", "name").split() == ["pod/mnist-worker-0", "pod/mnist-worker-1"]
    wide = kubectl("get", "pods", "-l", pods, "-o", "wide").splitlines()
    assert {"IP", "NODE"} <= set(wide[0].split())
    assert " 127." in wide[1]

    watch = kubectl.start("get", "pytorchjob", "mnist", "-w", "-o", "custom-columns=S:.status.conditions[-1:].type")
    logs = kubectl.start("logs", "-f", "mnist-worker-0")
    read_until(watch, "Running")
    read_until(logs, "started")
    flag.touch()
    assert logs.communicate(timeout=PATIENCE)[0] == "finished\n", "logs -f ends with the container"
    read_until(watch, "Succeeded")
    watch.terminate()
    watch.communicate(timeout=PATIENCE)
    kubectl("wait", "--for=condition=Succeeded", "pytorchjob/mnist", f"--timeout={PATIENCE:.0f}s")
    assert kubectl("logs", "mnist-worker-1", "--tail=1") == "finished\n"

    kubectl.told("PyTorchJob", "mnist", "PyTorchJobSucceeded")
    said = kubectl("describe", "pytorchjob", "mnist")
    assert "SuccessfulCreatePod" in said
    assert "Created pod: mnist-worker-0" in said
    assert "PyTorchJobSucceeded" in said
    assert 'pytorchjob.kubeflow.org "mnist" deleted' in kubectl("delete", "pytorchjob", "mnist")
    kubectl.until_gone("pods,services", "-l", pods)


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
    assert header.split()[-6:] == ["REASON", "RESTARTS", "PROGRESS", "ETA", "LOST", "STEPS"]
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
