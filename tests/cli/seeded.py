"""Failures that are seeded on a cluster: manifests, and the reason that is to be named for each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jobcommon.testutil.builders import Manifest
from tests.cli.train_cluster import shell_job

KUEUE = {"kueue.x-k8s.io/queue-name": "research"}


@dataclass(frozen=True, eq=False)
class Seeded:
    """A job in a namespace of its own, which has `objects`; `later`: what is asked this many seconds ahead of time.

    `embedded`: only on the embedded cluster, or its program is in no small image. The same kubelet at a real API server serves
    no logs, places pods whatever they request, and was late there with the status of a pod of two containers.
    """

    name: str
    reason: str
    job: Manifest
    objects: tuple[Manifest, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    later: float = 0.0
    embedded: bool = False


def job(
    command: str = "sleep 600",
    *,
    container: Mapping[str, Any] | None = None,
    pod: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
    policy: str = "Never",
    **run_policy: Any,
) -> Manifest:
    """A job of one worker that runs a shell command, with further fields of container, pod and metadata."""
    made = shell_job(command, policy=policy, **run_policy)
    spec = made["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]
    spec["containers"][0].update(container or {})
    spec["containers"] += spec.pop("more", [])
    spec.update({key: value for key, value in (pod or {}).items() if key != "more"})
    spec["containers"] += (pod or {}).get("more", [])
    made["metadata"]["labels"] = dict(labels or {})
    return made


def variable(source: str, name: str, key: str = "key") -> dict[str, Any]:
    """A container's variable from a Secret or ConfigMap."""
    return {"env": [{"name": "X", "valueFrom": {source: {"name": name, "key": key}}}]}


def volume(**source: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "data", **source}]}


MOUNTED = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
PROBE = {"exec": {"command": ["sh", "-c", "exit 1"]}, "periodSeconds": 1, "failureThreshold": 1}
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hub"}, "stringData": {"other": "x"}}
QUOTA = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"}, "spec": {"hard": {"pods": "0"}}}
OTHER = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "demo-worker-0"},
    "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "c", "image": "any", "command": ["sleep", "600"]}]},
}
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


def init(command: str) -> dict[str, Any]:
    return {"initContainers": [{"name": "prepare", "image": "any", "command": ["sh", "-c", command]}]}


HOOK = {"postStart": {"exec": {"command": ["sh", "-c", "exit 1"]}}}
SLOW_PROBE = {**PROBE, "failureThreshold": 300}
NATIVE = {"name": "proxy", "image": "any", "command": ["sleep", "600"], "restartPolicy": "Always", "startupProbe": SLOW_PROBE}
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cfg"}, "data": {"other": "x"}}
BROKEN = {"name": "sidecar", "image": "any", "command": ["sh", "-c", "sleep 2; exit 3"]}
SIDECAR = {"name": "sidecar", "image": "any", "command": ["sleep", "600"]}

SEEDED = (
    Seeded("exit-1", "ProgramFailed", job("exit 1")),
    Seeded("exit-127", "CommandNotFound", job("trainn")),
    Seeded("start-error", "CommandNotFound", job(container={"command": ["trainn.sh"]})),
    # A manifest's $$ is a single $. The first process of a container ignores its own signals.
    Seeded("sigkill", "SIGKILL", job("sh -c 'kill -9 $$$$'; exit $?")),
    Seeded("restarts", "ProgramFailed", job("exit 3", policy="OnFailure")),
    Seeded("no-image", "ImageNeverPulled", job(container={"command": []})),
    Seeded("working-dir", "WorkingDirectoryNotFound", job(container={"workingDir": "/nope"})),
    Seeded("local-rank", "EnvironmentMissing", job("python3 -c 'import os; os.environ[\"LOCAL_RANK\"]'"), embedded=True),
    Seeded("secret", "SecretNotFound", job(container=variable("secretKeyRef", "missing"))),
    Seeded("key", "KeyNotFound", job(container=variable("secretKeyRef", "hub")), (SECRET,)),
    Seeded("config-map-volume", "ConfigMapNotFound", job(container=MOUNTED, pod=volume(configMap={"name": "missing"}))),
    Seeded(
        "claim",
        "PersistentVolumeClaimNotFound",
        job(container=MOUNTED, pod=volume(persistentVolumeClaim={"claimName": "missing"})),
    ),
    Seeded("selector", "NodeSelector", job(pod={"nodeSelector": {"disk": "fast"}})),
    Seeded("cpu", "NodeTooSmall", job(container={"resources": {"requests": {"cpu": "900"}}}), embedded=True),
    Seeded("scheduler", "NoScheduler", job(pod={"schedulerName": "volcano"}), later=100.0),
    Seeded("quota", "QuotaExceeded", job(), (QUOTA,)),
    Seeded("name", "NameConflict", job(), (OTHER,)),
    Seeded("service-account", "ServiceAccountNotFound", job(pod={"serviceAccountName": "missing"})),
    Seeded("suspended", "Suspended", job(suspend=True)),
    Seeded("kueue", "QueuedByKueue", job(suspend=True, labels=KUEUE)),
    Seeded("deadline", "DeadlineExceeded", job(activeDeadlineSeconds=1)),
    Seeded("init", "InitContainerFailed", job(pod=init("exit 4"), policy="OnFailure")),
    Seeded("sidecar", "SidecarRunning", job("true", pod={"more": [SIDECAR]}), embedded=True),
    Seeded("liveness", "LivenessProbeFailed", job(container={"livenessProbe": PROBE}, policy="OnFailure")),
    Seeded("liveness-never", "LivenessProbeFailed", job(container={"livenessProbe": PROBE})),
    Seeded("startup-never", "StartupProbeFailed", job(container={"startupProbe": PROBE})),
    Seeded("native-sidecar", "StartupProbeFailed", job(pod={"initContainers": [NATIVE]}), embedded=True),
    Seeded(
        "item",
        "KeyNotFound",
        job(container=MOUNTED, pod=volume(configMap={"name": "cfg", "items": [{"key": "train.yaml", "path": "t"}]})),
        (CONFIG,),
    ),
    Seeded("cleaned-up", "ProgramFailed", job("exit 3", cleanPodPolicy="All")),
    Seeded("late-sidecar", "ProgramFailed", job("true", pod={"more": [BROKEN]}, policy="OnFailure"), embedded=True),
    Seeded("succeeds", "Succeeded", job("true")),
)

LIMITS = {
    "apiVersion": "v1",
    "kind": "LimitRange",
    "metadata": {"name": "small"},
    "spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]},
}

#: An image has a program of its own, and the runtime makes a missing directory.
ON_PROCESSES = ("no-image", "working-dir")
#: The embedded cluster's kubelet runs no hooks.
IN_CONTAINERS = (Seeded("hook", "PostStartHookFailed", job("exec sleep 600", container={"lifecycle": HOOK})),)
#: The embedded cluster has no LimitRanges and no Pod Security.
ON_A_REAL_ONE = (
    Seeded("limit-range", "LimitRange", job(container={"resources": {"limits": {"cpu": "2"}}}), (LIMITS,)),
    Seeded("pod-security", "PodSecurity", job(), labels=RESTRICTED),
)
