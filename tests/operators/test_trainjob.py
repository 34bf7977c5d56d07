"""TrainJobs in the hands of a whole operator: what they are read with, what is written for them, and their status."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from jobcommon.cli import rbac
from jobcommon.client.request import MERGE_PATCH
from jobcommon.crd import definitions
from jobcommon.diagnosis import Found, diagnose
from jobcommon.operators.trainjob import TRAINJOB
from jobcommon.operators.trainjob.policies import ANNOTATION
from jobcommon.operators.trainjob.runtimes import shipped
from jobcommon.testutil.cluster_model import ClusterModel
from jobcommon.testutil.recording import Recording
from jobcommon.testutil.sim.framework_sweep import sweep
from tests.charts.test_recorded_verbs import triples
from tests.runtime.world import PODS, Json, Process, World, operating

API = "/apis/trainer.kubeflow.org/v1alpha1"
JOBS, RUNTIMES = f"{API}/namespaces/default/trainjobs", f"{API}/clustertrainingruntimes"
MAPS = "/api/v1/namespaces/default/configmaps"
_STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
ZERO = {"ready": 0, "succeeded": 0, "failed": 0, "active": 0, "suspended": 0}


def role(name: str, step: str = "", container: str = "", **fields: Any) -> Json:
    """A replicated job."""
    template = {"metadata": {"labels": {_STEP: step} if step else {}}}
    pod = {"spec": {"containers": [{"name": container or name, "image": "image"}]}}
    return {"name": name, "template": {**template, "spec": {"template": pod}}, **fields}


NODE = role("node", "trainer")


def runtime(*roles: Json, name: str = "torch-distributed", policy: Json | None = None, **spec: Any) -> Json:
    labels = {"trainer.kubeflow.org/framework": "torch"}
    template = {"spec": {"replicatedJobs": [*roles] or [NODE], **spec}}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime",
        "metadata": {"name": name, "labels": labels},
        "spec": {"mlPolicy": policy or {"torch": {}}, "template": template},
    }  # fmt: skip


def train_job(name: str = "train", nodes: int = 2, annotations: Json | None = None, **spec: Any) -> Json:
    trainer = {"numNodes": nodes, "image": "image"}
    spec = {"runtimeRef": {"name": "torch-distributed"}, "trainer": trainer, **spec}
    metadata = {"name": name, "annotations": annotations or {}}
    return {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": metadata, "spec": spec}


class Cluster(World):
    """A world in which TrainJob and its runtimes are installed."""

    def __init__(self) -> None:
        super().__init__()
        for found in definitions(TRAINJOB):
            self.ok("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", found)

    def train_job(self, name: str = "train") -> Json:
        return self.ok("GET", f"{JOBS}/{name}")

    def names(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.pods()]

    def states(self, name: str = "train") -> dict[str, tuple[str, str]]:
        """The kind's own conditions."""
        found = self.train_job(name).get("status", {}).get("conditions", [])
        return {one["type"]: (one["status"], one["reason"]) for one in found}

    def counts(self, name: str = "train") -> dict[str, Json]:
        """By role, what jobsStatus counts."""
        found = self.train_job(name).get("status", {}).get("jobsStatus", [])
        return {one["name"]: {key: value for key, value in one.items() if key != "name" and value} for one in found}

    def patch(self, changes: Json, name: str = "train") -> None:
        self.ok("PATCH", f"{JOBS}/{name}", changes, MERGE_PATCH)

    async def until(self, condition: Callable[[], object]) -> None:
        await self.clock.until(condition, step=0.1)


@asynccontextmanager
async def running(*created: Json, world: Cluster | None = None) -> AsyncIterator[tuple[Cluster, Process]]:
    """An operator at work, and these objects."""
    world = world or Cluster()
    async with operating(world, TRAINJOB) as process:
        for one in created:
            world.ok("POST", RUNTIMES if one["kind"] == "ClusterTrainingRuntime" else JOBS, one)
        yield world, process


async def test_a_job_of_two_pods_from_its_start_to_its_end() -> None:
    """With ten requests that write, and by the operator's rights."""
    world = Cluster()
    world.transport = recording = Recording(world.transport)  # type: ignore[assignment]
    async with running(runtime(), train_job(), world=world) as (_, process):
        await world.until(lambda: len(world.pods()) == 2)
        assert world.names() == ["train-node-0-0", "train-node-0-1"]
        await world.until(lambda: world.counts() == {"node": {"active": 1}})
        assert world.states() == {}
        world.play_all("Running")
        await world.until(lambda: world.counts() == {"node": {"ready": 1, "active": 1}})
        assert world.states() == {}
        world.play_all("Succeeded", 0)
        await world.until(lambda: world.states() == {"Complete": ("True", "AllJobsCompleted")})
        await world.until(lambda: world.counts() == {"node": {"succeeded": 1}})
        await world.clock.advance(30.0)
        written = [f"{one.method} {one.path.rpartition('/namespaces/default/')[2]}" for one in process.tap.writes]
        objects = [one for one in written if not one.endswith("events") and "/events/" not in one]
        assert len(objects) <= 10, objects
        assert recording.verbs <= triples([*rbac.operator_rules([TRAINJOB]), *rbac.cluster_rules([TRAINJOB])])
        pod = world.pod("train-node-0-1")
        assert pod["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"] == "train"
        for place in ("labels", "annotations"):
            assert pod["metadata"][place]["batch.kubernetes.io/job-completion-index"] == "1"
        assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("train-node-0-1", "train")


async def test_a_job_waits_for_its_runtime_and_is_kept_by_a_copy_of_it() -> None:
    """A runtime that may only be late is no failure; without one the job has failed, until there is one."""
    async with running(train_job()) as (world, process):
        await world.clock.advance(2.0)
        assert world.states() == {}
        await world.until(lambda: world.states() == {"Failed": ("True", "TrainingRuntimeNotSupported")})
        assert "spec.runtimeRef.name" in world.train_job()["status"]["conditions"][0]["message"]
        made = diagnose(Found(*TRAINJOB.specialized(world.train_job(), {})), world.clock.wall())
        assert (made.reason, made.sentence[:27]) == ("ReferenceNotFound", "spec.runtimeRef.name: Not f")
        before = len(process.tap.writes)
        await world.clock.advance(300.0)
        assert len(process.tap.writes) == before
        world.ok("POST", RUNTIMES, runtime())
        await world.until(lambda: len(world.pods()) == 2 and world.states() == {})
        world.play_all("Running")
        world.ok("DELETE", f"{RUNTIMES}/torch-distributed")
        world.ok("POST", RUNTIMES, runtime(role("other", "trainer", "node")))
        await world.clock.advance(2.0)
        world.patch({"spec": {"suspend": True}})
        await world.until(lambda: world.pods() == [] and world.counts() == {"node": {"suspended": 1}})
        assert world.states() == {"Suspended": ("True", "Suspended")}
        world.patch({"spec": {"suspend": False}})
        await world.until(lambda: world.names() == ["train-node-0-0", "train-node-0-1"])
        assert world.states() == {}
        copy = world.ok("GET", f"{MAPS}/train-runtime-snapshot")
        assert copy["metadata"]["ownerReferences"][0]["kind"] == "TrainJob"


async def test_what_cannot_be_run_has_failed_before_anything_is_made() -> None:
    async with running(runtime(), train_job(initializer={"dataset": {"storageUri": "hf://a"}})) as (world, process):
        await world.until(lambda: world.states() == {"Failed": ("True", "TrainingRuntimeNotSupported")})
        assert "spec.initializer.dataset" in world.train_job()["status"]["conditions"][0]["message"]
        await world.clock.advance(60.0)
        assert world.pods() == []
        assert sum(one.path.endswith("/status") for one in process.tap.writes) == 1


async def test_roles_start_when_those_they_depend_on_are_ready_or_have_succeeded() -> None:
    dataset = role("dataset-initializer", "dataset-initializer")
    server = role("server", dependsOn=[{"name": "dataset-initializer", "status": "Complete"}])
    node = {**NODE, "dependsOn": [{"name": "server", "status": "Ready"}]}
    success = {"operator": "All", "targetReplicatedJobs": ["node"]}
    async with running(runtime(dataset, server, node, successPolicy=success), train_job(nodes=1)) as (world, _):
        for pod, phase in (("dataset-initializer", "Succeeded"), ("server", "Running"), ("node", "Succeeded")):
            await world.until(lambda pod=pod: f"train-{pod}-0-0" in world.names())
            await world.clock.advance(2.0)
            assert world.names()[-1:] == sorted(world.names())[-1:]
            assert len(world.names()) == {"dataset-initializer": 1, "server": 2, "node": 3}[pod]
            world.play(f"train-{pod}-0-0", phase, 0 if phase == "Succeeded" else None)
        await world.until(lambda: world.states() == {"Complete": ("True", "AllJobsCompleted")})


COMPLETE = {"type": "Complete", "status": "True", "reason": "a", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
#: a job that is not to be touched
LEFT_ALONE: dict[str, tuple[Json, Json]] = {
    "MultiKueue runs it elsewhere": ({"managedBy": "kueue.x-k8s.io/multikueue"}, {}),
    "JobSet runs its pods": ({}, {"jobsStatus": [{"name": "node", **ZERO, "active": 1}]}),
    "Trainer has seen its end": ({}, {"jobsStatus": [{"name": "node", **ZERO, "succeeded": 1}], "conditions": [COMPLETE]}),
}


@pytest.mark.parametrize(("spec", "status"), LEFT_ALONE.values(), ids=LEFT_ALONE)
async def test_the_jobs_of_others_are_left_alone(spec: Json, status: Json) -> None:
    world = Cluster()
    world.ok("POST", JOBS, train_job(**spec))
    if status:
        world.ok("PATCH", f"{JOBS}/train/status", {"status": status}, MERGE_PATCH)
    async with running(runtime(), world=world) as (_, process):
        await world.clock.advance(30.0)
        assert [one for one in process.tap.writes if "trainjobs" in one.path or "pods" in one.path] == []


#: how a job ends, and its conditions and counts then
ENDS: dict[str, tuple[Json, str, dict[str, tuple[str, str]], Json]] = {
    "a deadline": ({"activeDeadlineSeconds": 20}, "Running", {"Failed": ("True", "DeadlineExceeded")}, {"failed": 1}),
    "a failure": (
        {"runPolicy": {"backoffLimit": 0}}, "Failed", {"Failed": ("True", "FailedJobs")}, {"failed": 1},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("spec", "phase", "states", "counts"), ENDS.values(), ids=ENDS)
async def test_how_a_job_ends(spec: Json, phase: str, states: dict[str, tuple[str, str]], counts: Json) -> None:
    async with running(runtime(), train_job(**spec)) as (world, _):
        await world.until(lambda: len(world.pods()) == 2)
        world.play_all(phase, None if phase == "Running" else 1)
        await world.until(lambda: world.states() == states)
        await world.until(lambda: world.counts() == {"node": counts})


async def test_a_run_policy_outlives_its_removal_by_kueue() -> None:
    """Kueue writes a job with the fields that Trainer's kind has: what the job says in others is also in annotations."""
    patch, prefix = {"manager": "kueue.x-k8s.io/manager"}, "training.kubeflow.org/run-policy."
    policy = {"backoffLimit": 0, "schedulingPolicy": {"minAvailable": 2}}
    given = {f"{prefix}schedulingPolicy.queue": "q", f"{prefix}backoffLimit": "5"}
    async with running(runtime(), train_job(annotations=given, runPolicy=policy, runtimePatches=[patch])) as (world, _):
        await world.until(lambda: len(world.pods()) == 2)
        assert world.train_job()["metadata"]["annotations"] == {
            f"{prefix}backoffLimit": "0", f"{prefix}schedulingPolicy": '{"minAvailable": 2, "queue": "q"}'
        }  # fmt: skip
        world.patch({"spec": {"runPolicy": None}})
        world.play_all("Failed", 1)
        await world.until(lambda: world.states() == {"Failed": ("True", "FailedJobs")})


@pytest.mark.parametrize("retention", ["Retain", "Delete"])
async def test_claims_outlive_their_job_if_the_runtime_retains_them(retention: str) -> None:
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    template = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    policy = {"templates": [template], "retentionPolicy": {"whenDeleted": retention}}
    async with running(runtime(volumeClaimPolicies=[policy]), train_job()) as (world, _):
        for _ in range(2):
            await world.until(lambda: len(world.pods()) == 2)
            (claim,) = world.ok("GET", claims)["items"]
            assert claim["metadata"]["name"] == "data-train"
            assert ("ownerReferences" in claim["metadata"]) == (retention == "Delete")
            if retention == "Delete":
                return
            world.ok("DELETE", f"{JOBS}/train")
            await world.clock.advance(2.0)
            for pod in world.names():
                world.call("DELETE", f"{PODS}/{pod}")
            world.call("DELETE", f"{MAPS}/train-runtime-snapshot")
            world.call("DELETE", "/api/v1/namespaces/default/services/train")
            await world.clock.advance(2.0)
            world.ok("POST", JOBS, train_job())


@pytest.mark.slow
def test_the_simulator_finds_nothing_in_the_framework_of_a_job() -> None:
    """With a fault at a write, in the lifecycles of all kinds; the status is there as the record alone."""
    job = {**train_job("demo"), "spec": {"runtimeRef": {"name": "mpi-distributed"}, "trainer": {"numNodes": 2}}}
    framework, manifest = TRAINJOB.specialized(job, TRAINJOB.related_to(shipped()))
    alone = replace(framework, status_fields=None, rival="", corrections=None, definition=None)
    assert sweep(alone, json.loads(json.dumps(manifest)), runs=3).problems == []


def test_an_elastic_job_trains_on_with_the_nodes_that_are_left() -> None:
    """By annotations, which the SDK can set; the ranks are those of the nodes that are left."""
    chosen = {"restartScope": "Job", "restartMethod": "Auto", "elastic.minReplicas": "1", "elastic.shrinkAfterSeconds": "30"}
    given = train_job("demo", 4, {f"{ANNOTATION}{field}": value for field, value in chosen.items()})
    framework, manifest = TRAINJOB.specialized(given, TRAINJOB.related_to([runtime()]))
    world = ClusterModel.of(framework, {"node": 4}, policy="OnFailure", run_policy=manifest["spec"]["runPolicy"])
    world.react()
    world.room = 3
    world.lose_node_of("demo-node-0-1")
    world.react()
    world.wait(300)
    known = {name: (env["PET_NODE_RANK"], env["PET_NNODES"]) for name, env in world.running().items()}
    assert known == {f"demo-node-0-{index}": (str(rank), "3") for rank, index in enumerate((0, 2, 3))}
