"""`why` names the cause of failures that are seeded, with real processes: jobs, and the reason that is named for each."""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jobcommon.cli.embedded import SETTINGS, training_cluster
from jobcommon.cli.jobs.access import Api
from jobcommon.cli.jobs.lookup import find_job, surroundings
from jobcommon.client.objects import collection_path, create
from jobcommon.client.request import APPLY_PATCH, STRATEGIC_PATCH, Request
from jobcommon.diagnosis import diagnose
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.runtime.manager import run_operators
from jobcommon.testutil.builders import Manifest
from jobcommon.testutil.polling import polled
from jobcommon.testutil.real.cluster import real_cluster
from localcluster.client import background
from localcluster.conformance import real
from tests.cli.train_cluster import api_for, shell_job

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


# -- `why` names the cause of failures that are seeded on the embedded cluster, with real processes

PATIENCE = 300.0
READY = msgspec.json.encode({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}})
MICRO = "%Y-%m-%dT%H:%M:%S.%fZ"
PLURALS = {
    "ConfigMap": "configmaps",
    "Secret": "secrets",
    "ResourceQuota": "resourcequotas",
    "LimitRange": "limitranges",
    "Pod": "pods",
}


async def sow(api: Api, seeded: Seeded, image: str = "any") -> None:
    """Create the job and what it needs, with that image."""

    def made(body: Any) -> Any:
        return json.loads(json.dumps(body).replace('"image": "any"', f'"image": "{image}"'))

    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": seeded.name, "labels": dict(seeded.labels)}}
    await api.send(create("/api/v1/namespaces", namespace))
    for one in seeded.objects:
        await api.send(create(collection_path("v1", PLURALS[one["kind"]], seeded.name), made(one)))
    metadata = {"name": "demo", "labels": seeded.job["metadata"]["labels"]}
    await api.send(
        create(collection_path(PYTORCH.api_version, PYTORCH.plural, seeded.name), {**made(seeded.job), "metadata": metadata})
    )


async def named(api: Api, seeded: Seeded) -> None:
    """Wait until the reason is named."""
    there = Api(api.transport, seeded.name)

    async def said() -> tuple[str, str, str]:
        made = diagnose(await surroundings(there, await find_job(there, "demo")), time.time() + seeded.later)
        return seeded.name, made.reason, made.sentence

    await polled(said, lambda told: told[1] == seeded.reason, PATIENCE)


async def missed(api: Api, sown: Sequence[Seeded], image: str = "any") -> list[BaseException]:
    """What was said of the failures whose cause is not named."""
    for seeded in sown:
        await sow(api, seeded, image)
    made = await asyncio.gather(*(named(api, seeded) for seeded in sown), return_exceptions=True)
    return [error for error in made if error]


@pytest.mark.slow
@pytest.mark.cluster
async def test_the_cause_of_seeded_failures_is_named() -> None:
    async with training_cluster([PYTORCH], stop_grace=1.0, capacity={"cpu": "64"}) as cluster, api_for(cluster) as api:
        assert await missed(api, SEEDED) == []


async def heartbeats(api: Api, node: str) -> None:
    """Renew the node's lease and its condition: our kubelet does neither, and the control plane taints a silent node."""
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": node}}
    while True:
        renewed = {"holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": datetime.now(UTC).strftime(MICRO)}  # noqa: TID251
        body = msgspec.json.encode({**lease, "spec": renewed})
        query = (("fieldManager", "test"), ("force", "true"))
        await api.send(Request("PATCH", f"{leases}/{node}", query, body, APPLY_PATCH))
        await api.send(Request("PATCH", f"/api/v1/nodes/{node}/status", body=READY, content_type=STRATEGIC_PATCH))
        await asyncio.sleep(1)


@pytest.mark.skipif(not real.available(), reason=real.WHY_NOT)
async def test_the_cause_of_seeded_failures_is_named_on_a_real_control_plane(tmp_path: Path) -> None:
    async with real_cluster(tmp_path) as cluster, background(run_operators(cluster.transport, [PYTORCH], SETTINGS)):
        api = Api(cluster.transport, "default")
        sown = [seeded for seeded in (*SEEDED, *ON_A_REAL_ONE) if not seeded.embedded]
        if cluster.node is not None:
            sown = [*IN_CONTAINERS, *(seeded for seeded in sown if seeded.name not in ON_PROCESSES)]
            assert await missed(api, sown, cluster.image) == []
            return
        async with background(heartbeats(api, "local")):
            assert await missed(api, sown) == []
