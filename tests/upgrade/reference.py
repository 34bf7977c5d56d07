"""Jobs, pods, Services and statuses as the reference operators (training-operator 1.8 and 1.9, v1 kinds) leave them behind.

The essentials: the same labels as ours, no finalizer, no hostname and subdomain, one Service per replica (none for MPIJob),
and owner references to apiVersion kubeflow.org/v1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jobcommon.api.timestamp import format_time
from jobcommon.framework import Framework
from jobcommon.operators.jax import JAX
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.paddle import PADDLE
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.operators.xgboost import XGBOOST
from jobcommon.testutil.builders import condition

Json = dict[str, Any]
PREFIX = "training.kubeflow.org/"
CONTAINERS = {TF.kind: "tensorflow", PYTORCH.kind: "pytorch", MPI.kind: "mpi", MXNET.kind: "mxnet"}
CONTAINERS |= {framework.kind: framework.container for framework in (JAX, XGBOOST, PADDLE)}
PORTS = {TF.kind: ("tfjob-port", 2222), PYTORCH.kind: ("pytorchjob-port", 23456), MXNET.kind: ("mxjob-port", 9091)}
PORTS |= {JAX.kind: ("jaxjob-port", 6666), XGBOOST.kind: ("xgboostjob-port", 9999), PADDLE.kind: ("master", 36543)}


@dataclass(frozen=True)
class Shape:
    """A job of one kind: how many replicas of which types, all of restart policy `policy`; `deciding` end the job."""

    framework: Framework
    replicas: Mapping[str, int]
    master: str
    deciding: tuple[str, ...]
    policy: str = "ExitCode"
    name: str = "demo"

    @property
    def slots(self) -> list[tuple[str, int]]:
        """Replica types and indices."""
        return [(kind, index) for kind, count in self.replicas.items() for index in range(count)]

    def pod_name(self, kind: str, index: int) -> str:
        """The name of a pod, and of its Service."""
        return f"{self.name}-launcher" if kind == "Launcher" else f"{self.name}-{kind.lower()}-{index}"

    def job(self) -> Json:
        """What the user applied."""
        specs = {
            kind: {"replicas": count, "restartPolicy": self.policy, "template": {"spec": {"containers": [self._container()]}}}
            for kind, count in self.replicas.items()
        }
        return {
            "apiVersion": "kubeflow.org/v1",
            "kind": self.framework.kind,
            "metadata": {"name": self.name, "namespace": "default"},
            "spec": {"runPolicy": {"cleanPodPolicy": "None", "backoffLimit": 3}, self.framework.replica_specs: specs},
        }

    def labels(self, kind: str, index: int) -> Json:
        """The labels of a replica's Service."""
        values = {
            "operator-name": f"{self.framework.kind.lower()}-controller", "job-name": self.name,
            "replica-type": kind.lower(), "replica-index": str(index),
        }  # fmt: skip
        if kind == "Launcher":
            del values["replica-index"]
        return {PREFIX + key: value for key, value in values.items()}

    def pod(self, job: Json, kind: str, index: int) -> Json:
        """The pod of a replica as it was created."""
        name = self.pod_name(kind, index)
        role = {f"{PREFIX}job-role": "master"} if kind == self.master and index == 0 else {}
        container = self._container()
        container["env"] = [{"name": "MASTER_ADDR", "value": self.pod_name(self.master, 0)}]
        if self.framework.kind in PORTS:
            port_name, port = PORTS[self.framework.kind]
            container["ports"] = [{"name": port_name, "containerPort": port}]
        metadata = {"name": name, "namespace": "default", "labels": {**self.labels(kind, index), **role}}
        spec = {"restartPolicy": "OnFailure" if self.policy == "OnFailure" else "Never", "containers": [container]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, "ownerReferences": [owner(job)]}, "spec": spec}

    def service(self, job: Json, kind: str, index: int) -> Json | None:
        """The Service of a replica; MPIJobs had none."""
        if self.framework.kind not in PORTS:
            return None
        port_name, port = PORTS[self.framework.kind]
        selector = self.labels(kind, index)
        metadata = {"name": self.pod_name(kind, index), "namespace": "default", "labels": selector}
        spec = {"clusterIP": "None", "selector": selector, "ports": [{"name": port_name, "port": port}]}
        return {"apiVersion": "v1", "kind": "Service", "metadata": {**metadata, "ownerReferences": [owner(job)]}, "spec": spec}

    def status(self, now: float, current: str, *counts: str) -> Json:
        """The status with `current` as its last condition, all replicas counted under each of `counts`."""
        kind = self.framework.kind
        conditions = [condition("Created", True, f"{kind}Created", "", now - 60)]
        if current in ("Succeeded", "Suspended"):
            conditions.append(condition("Running", False, f"{kind}Running", "", now - 50))
        if current:
            conditions.append(condition(current, True, f"{kind}{current}", "", now - 40))
        status: Json = {
            "conditions": conditions,
            "replicaStatuses": {kind: dict.fromkeys(counts, count) for kind, count in self.replicas.items()},
            "startTime": format_time(now - 60),
        }
        if current == "Succeeded":
            status["completionTime"] = format_time(now - 40)
        return status

    def _container(self) -> Json:
        return {"name": CONTAINERS[self.framework.kind], "image": "any", "command": ["train"]}


def owner(job: Json) -> Json:
    """The reference to the job."""
    kept = {"apiVersion": "kubeflow.org/v1", "kind": job["kind"]}
    kept |= {key: job["metadata"][key] for key in ("name", "uid")}
    return {**kept, "controller": True, "blockOwnerDeletion": True}


SHAPES = (
    Shape(TF, {"Chief": 1, "PS": 1, "Worker": 2}, "Chief", ("Chief",)),
    Shape(PYTORCH, {"Master": 1, "Worker": 2}, "Master", ("Master",)),
    Shape(PYTORCH, {"Master": 1, "Worker": 2}, "Master", ("Master",), policy="OnFailure"),
    Shape(MPI, {"Launcher": 1, "Worker": 2}, "Launcher", ("Launcher",)),
    Shape(MXNET, {"Scheduler": 1, "Server": 1, "Worker": 2}, "Scheduler", ("Scheduler",)),
    Shape(JAX, {"Worker": 2}, "Worker", ("Worker",)),
    Shape(XGBOOST, {"Master": 1, "Worker": 2}, "Master", ("Master",)),
    Shape(PADDLE, {"Master": 1, "Worker": 2}, "Master", ("Master",)),
)
