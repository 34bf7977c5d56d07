"""Good documents of every kind that the parsers read, to be spoilt."""

from typing import Any

from jobcommon.framework import FINALIZER
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.testutil.builders import job_manifest

FRAMEWORKS = (TF, PYTORCH, MPI, MXNET)
TIME = "2023-11-14T22:13:20Z"
RUN_POLICY = {
    "cleanPodPolicy": "All",
    "ttlSecondsAfterFinished": 60,
    "activeDeadlineSeconds": 3600,
    "backoffLimit": 3,
    "suspend": False,
    "managedBy": "kubeflow.org/training-operator",
    "schedulingPolicy": {
        "minAvailable": 2, "queue": "q", "minResources": {"cpu": "2", "memory": "64Gi"}, "priorityClass": "high",
        "scheduleTimeoutSeconds": 30,
    },
}  # fmt: skip
STATUS = {
    "conditions": [
        {"type": "Created", "status": "True", "reason": "JobCreated", "message": "m", "lastUpdateTime": TIME},
        {"type": "Running", "status": "True", "reason": "JobRunning", "message": "m", "lastTransitionTime": TIME},
    ],
    "replicaStatuses": {"Worker": {"active": 1, "succeeded": 1, "succeededIndexes": "0", "restarts": 2, "selector": "a=b"}},
    "startTime": TIME,
    "lastReconcileTime": TIME,
    "restarts": 2,
    "disruptions": 1,
    "countedPods": ["u-1"],
    "failures": [{"replica": "Worker-1", "reason": "Error", "exitCode": 1, "time": TIME}],
}
TYPES = {"tensorflow": "Chief", "pytorch": "Master", "mpi": "Launcher", "mxnet": "Scheduler"}


def job(number: int) -> dict[str, Any]:
    """A job of the framework of that number, with all that one can have."""
    framework = FRAMEWORKS[number]
    found = job_manifest(
        framework, {TYPES[framework.name]: 1, "Worker": 3}, policy="OnFailure", run_policy=RUN_POLICY, status=STATUS
    )
    spec = found["spec"][framework.replica_specs]["Worker"]
    spec["overrides"] = [{"indices": [1], "template": {"spec": {"containers": [{"name": framework.container or "main"}]}}}]
    template = spec["template"]
    template["metadata"] = {"labels": {"a": "b"}, "annotations": {"c": "d"}}
    container = template["spec"]["containers"][0]
    container |= {
        "command": ["run"], "args": ["$(A)"], "env": [{"name": "A", "value": "b"}],
        "ports": [{"name": "p", "containerPort": 80}],
        "resources": {"limits": {"cpu": "500m", "nvidia.com/gpu": 1}, "requests": {"memory": "1Gi"}},
    }  # fmt: skip
    template["spec"] |= {"volumes": [{"name": "v", "emptyDir": {}}], "hostNetwork": False, "tolerations": [{"key": "k"}]}
    found["metadata"]["resourceVersion"] = "7"
    return found


def pod(name: str = "demo-worker-0", index: str = "0") -> dict[str, Any]:
    """A pod of the job."""
    run = {"exitCode": 137, "signal": 9, "reason": "OOMKilled", "message": "m", "startedAt": TIME, "finishedAt": TIME}
    status = {
        "name": "pytorch",
        "ready": True,
        "restartCount": 2,
        "state": {"terminated": run},
        "lastState": {"terminated": run},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": "default", "name": name, "uid": f"u-{index}", "resourceVersion": "12", "creationTimestamp": TIME,
            "finalizers": [FINALIZER], "deletionGracePeriodSeconds": 30,
            "labels": {
                "training.kubeflow.org/operator-name": "x", "training.kubeflow.org/job-name": "demo",
                "training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/replica-index": index,
            },
            "annotations": {"training.kubeflow.org/x": "y"},
            "ownerReferences": [{"kind": "PyTorchJob", "name": "demo", "uid": "uid-demo", "controller": True}],
        },
        "spec": {"nodeName": "n", "containers": [{"name": "pytorch"}]},
        "status": {
            "phase": "Failed", "reason": "Evicted", "message": "m", "startTime": TIME, "podIP": "10.0.0.1",
            "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": TIME},
                {"type": "DisruptionTarget", "status": "True", "reason": "r"},
                {"type": "PodScheduled", "status": "False", "message": "m"},
            ],
            "initContainerStatuses": [status | {"state": {"waiting": {"reason": "CrashLoopBackOff", "message": "m"}}}],
            "containerStatuses": [status, status | {"name": "side", "state": {"running": {"startedAt": TIME}}}],
        },
    }  # fmt: skip


LIST = {"kind": "List", "metadata": {"resourceVersion": "20", "continue": "x"}, "items": [pod(), pod("demo-worker-1", "1")]}
EVENTS: list[dict[str, Any]] = [
    {"type": "ADDED", "object": pod()},
    {"type": "DELETED", "object": pod("demo-worker-1", "1")},
    {
        "type": "BOOKMARK",
        "object": {"metadata": {"resourceVersion": "30", "annotations": {"k8s.io/initial-events-end": "true"}}},
    },
    {
        "type": "ERROR",
        "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "m", "details": {"retryAfterSeconds": 3}},
    },
]
LEASE = {
    "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
    "metadata": {"name": "operators", "namespace": "default", "resourceVersion": "4"},
    "spec": {"holderIdentity": "x", "leaseDurationSeconds": 15, "renewTime": TIME, "acquireTime": TIME, "leaseTransitions": 3},
}  # fmt: skip
CLUSTER = {"server": "https://127.0.0.1:6443", "insecure-skip-tls-verify": True, "tls-server-name": "s"}
KUBECONFIG = {
    "apiVersion": "v1", "kind": "Config", "current-context": "c",
    "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "n"}}],
    "clusters": [{"name": "k", "cluster": CLUSTER}],
    "users": [{"name": "u", "user": {"token": "t", "username": "a", "password": "b"}}],
}  # fmt: skip
