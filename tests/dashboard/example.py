"""A cluster with a dashboard and jobs in several states, as a user starts them."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cli.commands import Kubectl, started

TEMPLATE = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{name: {name}, namespace: default}}
spec:
  runPolicy: {{cleanPodPolicy: None, suspend: {suspend}}}
  pytorchReplicaSpecs:
    Master:
      restartPolicy: ExitCode
      template:
        spec: {{terminationGracePeriodSeconds: 0, containers: [{{name: pytorch, image: any, command: [sh, -c, {master!r}]}}]}}
    Worker:
      replicas: {workers}
      restartPolicy: ExitCode
      template:
        spec: {{terminationGracePeriodSeconds: 0, containers: [{{name: pytorch, image: any, command: [sh, -c, {worker!r}]}}]}}
---
"""
TICKING = "i=0; while [ $i -lt 100000 ]; do echo epoch $i loss 0.$((99 - i % 90)); i=$((i+1)); sleep 0.2; done"
# The second worker is killed in its first run.
KILLED_ONCE = (
    'if [ "$RANK" = 2 ] && [ ! -e {flag} ]; then touch {flag}; sleep 2; echo out of memory; exit 137; fi; sleep 100000'
)


@dataclass(frozen=True)
class Shown:
    """The address of a dashboard with its token, and kubectl on its cluster."""

    address: str
    kubectl: Kubectl

    @property
    def origin(self) -> str:
        """The address without a path."""
        return self.address.partition("/?")[0]


def jobs(flag: str) -> str:
    """A job that trains after a restart, one that has succeeded, one that has failed, and one that is suspended."""

    def job(name: str, master: str, worker: str = "sleep 100000", workers: int = 2, suspend: str = "false") -> str:
        return TEMPLATE.format(name=name, master=master, worker=worker, workers=workers, suspend=suspend)

    return "".join((
        job("resnet", TICKING, KILLED_ONCE.format(flag=flag)),
        job("digits", "sleep 2; echo accuracy 0.97", "sleep 1"),
        job("broken", 'sleep 1; python3 -c "import math; print(math.sqrt(-1))"', workers=1),
        job("later", "true", suspend="true"),
    ))  # fmt: skip


@contextmanager
def dashboard_with_jobs(directory: Path) -> Iterator[Shown]:
    """All of them, in their states."""
    kubeconfig = directory / "kubeconfig"
    with started("up", "--dashboard", "--kubeconfig", str(kubeconfig), until="Ctrl-C stops it and everything") as process:
        assert process.stdout is not None
        address = re.search(r"http://127.0.0.1:\d+/\?token=\S+", process.stdout.readline())
        assert address is not None
        kubectl = Kubectl(kubeconfig)
        kubectl("apply", "-f", "-", stdin=jobs(str(directory / "killed")))
        state = "jsonpath={.status.conditions[-1].type} {.status.restarts}"
        kubectl.until("Running 1", "get", "pytorchjob", "resnet", "-o", state)
        kubectl.until("Succeeded", "get", "pytorchjob", "digits", "-o", state)
        kubectl.until("Failed", "get", "pytorchjob", "broken", "-o", state)
        kubectl.until("Suspended", "get", "pytorchjob", "later", "-o", state)
        yield Shown(address[0], kubectl)
