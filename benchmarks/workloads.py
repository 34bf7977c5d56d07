"""The workloads: a number of jobs with a number of replicas each, and their objects."""

import json
import re
from dataclasses import dataclass
from typing import Any

from jobcommon.api import labels
from jobcommon.client.objects import collection_path
from jobcommon.client.request import Request
from jobcommon.framework import Job
from jobcommon.manifests.children import pod_manifest, service_manifests
from jobcommon.operators.tf import TF
from jobcommon.spec import read_job

Manifest = dict[str, Any]

IMAGE = "registry.example.com/train:1"
IMAGE_ID = f"registry.example.com/train@sha256:{'0' * 64}"
#: As long as the operator's own name, and not selected by it.
BASELINE_CONTROLLER = "plain-controller"


@dataclass(frozen=True)
class Workload:
    """`jobs` jobs of `replicas` replicas each."""

    jobs: int
    replicas: int

    @property
    def pods(self) -> int:
        """The number of pods."""
        return self.jobs * self.replicas

    def __str__(self) -> str:
        return f"{self.jobs}x{self.replicas}"

    @classmethod
    def parse(cls, text: str) -> "Workload":
        """Parse the form 50x8. Raises ValueError."""
        found = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", text)
        if found is None:
            raise ValueError(f"{text!r} is not a workload; write jobs x replicas as in 50x8")
        return cls(int(found[1]), int(found[2]))


SINGLE = tuple(Workload(1, replicas) for replicas in (1, 10, 100, 1000, 5000))
MANY = (Workload(50, 8), Workload(500, 2), Workload(1000, 10))
ALL = (*SINGLE, *MANY)


def job_manifest(namespace: str, name: str, replicas: int, policy: str = "Never", **run_policy: Any) -> Manifest:
    """A TFJob of dynamic workers, each of which is told its own address only."""
    container = {
        "name": TF.container,
        "image": IMAGE,
        "command": ["python", "/opt/train.py", "--epochs", "10"],
        "env": [{"name": "NCCL_DEBUG", "value": "WARN"}],
        "resources": {"limits": {"cpu": "4", "memory": "16Gi"}},
    }
    worker = {"replicas": replicas, "restartPolicy": policy, "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": TF.api_version,
        "kind": TF.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "successPolicy": "AllWorkers",
            "enableDynamicWorker": True,
            "runPolicy": {"cleanPodPolicy": "Running", **run_policy},
            TF.replica_specs: {"Worker": worker},
        },
    }


def post(manifest: Manifest, plural: str) -> Request:
    """The POST of an object."""
    path = collection_path(manifest["apiVersion"], plural, manifest["metadata"]["namespace"])
    return Request("POST", path, body=json.dumps(manifest, separators=(",", ":")).encode())


def submissions(workload: Workload, namespace: str, **run_policy: Any) -> list[Request]:
    """The requests of the user."""
    names = (f"job-{number}" for number in range(workload.jobs))
    return [post(job_manifest(namespace, name, workload.replicas, **run_policy), TF.plural) for name in names]


def children(job: Job) -> list[Manifest]:
    """The Service and the pods of a job, as the operator would create them, but labelled with another controller's name."""
    found = [*service_manifests(TF, job), *(pod_manifest(TF, job, replica) for replica in job.replicas)]
    for manifest in found:
        manifest["metadata"]["labels"] = {**manifest["metadata"]["labels"], labels.OPERATOR_NAME: BASELINE_CONTROLLER}
        manifest["metadata"]["annotations"] = {labels.ATTEMPT: "0"}
    return found


def baseline_writes(workload: Workload, namespace: str) -> list[Request]:
    """The writes that create all pods: the Service and the pods, job by job."""
    found = []
    for number in range(workload.jobs):
        raw = job_manifest(namespace, f"job-{number}", workload.replicas)
        raw["metadata"] |= {"uid": f"00000000-0000-4000-8000-{number:012}", "resourceVersion": "1", "generation": 1}
        found += [post(child, f"{child['kind'].lower()}s") for child in children(read_job(TF, raw))]
    return found
