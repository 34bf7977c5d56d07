"""Lost nodes and replicas without a node, against the embedded API server and on the embedded cluster."""

from typing import Any

import pytest

from jobcommon.api.labels import SAFE_TO_DELETE
from jobcommon.api.status import ConditionType, read_status
from jobcommon.client.request import MERGE_PATCH
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.testutil.builders import job_manifest
from jobcommon.testutil.cluster import cluster_for, failed, has
from tests.runtime.fakes import a_job
from tests.runtime.world import JOBS, PODS, World, operating, world_with_testjobs

POD = f"{PODS}/train-worker-0"


@pytest.fixture
def world() -> World:
    return world_with_testjobs()


async def test_a_pod_on_a_silent_node_is_replaced_if_its_annotation_says_that_it_may_run_twice(world: World) -> None:
    """No kubelet answers: the pod is deleted by force, held by our finalizer until it is counted, and gone."""
    async with operating(world):
        world.ok("POST", JOBS, a_job(workers=1, restart="OnFailure", nodeLossSeconds=20))
        await world.clock.until(lambda: len(world.pods()) == 1)
        world.ok("POST", f"{POD}/binding", {"metadata": {"name": "train-worker-0"}, "target": {"name": "node-1"}})
        world.play("train-worker-0", "Running")
        first = world.pod("train-worker-0")["metadata"]["uid"]
        world.ok("DELETE", POD)
        await world.clock.advance(600)
        assert world.pod("train-worker-0")["metadata"]["uid"] == first, "it may still run"
        world.ok("PATCH", POD, {"metadata": {"annotations": {SAFE_TO_DELETE: "true"}}}, MERGE_PATCH)
        annotated = world.clock.now
        await world.clock.until(lambda: [pod["metadata"]["uid"] for pod in world.pods()] not in ([first], []), step=0.5)
        assert world.clock.now - annotated < 10, "nothing is waited for any more"
        assert world.job()["status"]["disruptions"] == 1


def job(template: dict[str, Any], **run_policy: Any) -> dict[str, Any]:
    container = {"name": "pytorch", "image": "none", "command": ["sleep", "3600"]}
    spec = {"replicas": 1, "restartPolicy": "OnFailure", "template": {"spec": {"containers": [container], **template}}}
    return {**job_manifest(PYTORCH, {"Master": spec}, run_policy=run_policy), "metadata": {"name": "demo"}}


async def test_pods_are_evicted_from_a_lost_node_in_time() -> None:
    """The embedded node answers, so its pod ends at once; the five minutes of other pods would be too long for this test."""
    taint = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
    async with cluster_for(PYTORCH) as cluster:
        await cluster.create(PYTORCH, job({}, nodeLossSeconds=1))
        running = has(ConditionType.RUNNING)
        await cluster.until(PYTORCH, "demo", running)
        (pod,) = await cluster.pods()
        path = f"/api/v1/nodes/{pod['spec']['nodeName']}"
        await cluster.send("PATCH", path, {"spec": {"taints": [taint]}}, MERGE_PATCH)
        lost = await cluster.until(PYTORCH, "demo", lambda seen: bool(read_status(seen.body.get("status")).disruptions))
        assert "DeletionByTaintManager" in lost["status"]["conditions"][-1]["message"]
        assert lost["status"]["nodeFailures"] == [{"node": pod["spec"]["nodeName"], "count": 1}]


async def test_a_job_that_no_node_takes_fails_with_the_schedulers_words() -> None:
    async with cluster_for(PYTORCH) as cluster:
        await cluster.create(PYTORCH, job({"nodeSelector": {"gpu": "yes"}}, pendingDeadlineSeconds=1))
        last = (await cluster.until(PYTORCH, "demo", failed))["status"]["conditions"][-1]
        assert last["reason"] == "PendingTooLong"
        assert "didn't match Pod's node affinity/selector" in last["message"]
