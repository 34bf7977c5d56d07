"""`why` names the cause of failures that are seeded on the embedded cluster, with real processes."""

import asyncio
import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jobcommon.cli.embedded import SETTINGS, training_cluster
from jobcommon.cli.jobs.access import Api
from jobcommon.cli.jobs.lookup import find_job
from jobcommon.cli.jobs.surroundings import surroundings
from jobcommon.client.objects import collection_path, create
from jobcommon.client.request import APPLY_PATCH, STRATEGIC_PATCH, Request
from jobcommon.diagnosis import diagnose
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.runtime.manager import run_operators
from jobcommon.testutil.polling import polled
from jobcommon.testutil.real.cluster import CONTAINERS, WHY_NOT, given, real_cluster
from localcluster.client import background
from tests.cli.seeded import IN_CONTAINERS, ON_A_REAL_ONE, ON_PROCESSES, SEEDED, Seeded
from tests.cli.train_cluster import api_for

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
        renewed = {"holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": datetime.now(UTC).strftime(MICRO)}
        body = msgspec.json.encode({**lease, "spec": renewed})
        query = (("fieldManager", "test"), ("force", "true"))
        await api.send(Request("PATCH", f"{leases}/{node}", query, body, APPLY_PATCH))
        await api.send(Request("PATCH", f"/api/v1/nodes/{node}/status", body=READY, content_type=STRATEGIC_PATCH))
        await asyncio.sleep(1)


@pytest.mark.skipif(not given(), reason=WHY_NOT)
async def test_the_cause_of_seeded_failures_is_named_on_a_real_control_plane(tmp_path: Path) -> None:
    async with real_cluster(tmp_path) as cluster, background(run_operators(cluster.transport, [PYTORCH], SETTINGS)):
        api = Api(cluster.transport, "default")
        sown = [seeded for seeded in (*SEEDED, *ON_A_REAL_ONE) if not seeded.embedded]
        if CONTAINERS not in cluster.lacks:
            sown = [*IN_CONTAINERS, *(seeded for seeded in sown if seeded.name not in ON_PROCESSES)]
            assert await missed(api, sown, cluster.image) == []
            return
        async with background(heartbeats(api, cluster.node_name)):
            assert await missed(api, sown) == []
