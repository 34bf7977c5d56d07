"""Each operator's rules are exactly what it was seen to do in the lives of its jobs, on a server in process, in fake time."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any, cast

import pytest

from jobcommon.api import labels
from jobcommon.api.gang import COSCHEDULING, NATIVE, VOLCANO, GangScheduler, min_count
from jobcommon.api.kueue import JOB_UID_LABEL, KUEUE_API, KUEUE_WORKLOAD, QUEUE_LABEL
from jobcommon.cli import rbac
from jobcommon.cli.embedded import InProcessTransport
from jobcommon.cli.rbac import Rule
from jobcommon.client.errors import TransportError
from jobcommon.client.request import MERGE_PATCH, Request, Response
from jobcommon.crd import custom_resource_definition
from jobcommon.framework import Framework
from jobcommon.operators.mpi import MPI
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.operators.xgboost import XGBOOST
from jobcommon.runtime.settings import Settings
from jobcommon.testutil import kueue
from jobcommon.testutil.builders import job_manifest
from jobcommon.testutil.recording import Recording, access
from localcluster.client import PodBackend
from tests import definitions
from tests.docs.blocks import blocks, simple_commands
from tests.kinds import EVERY_KIND
from tests.runtime.world import PODS, World, operating

Json = dict[str, Any]
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LEASE = "the-lease"
WORKLOADS = f"/apis/{KUEUE_API}/namespaces/default/workloads"
SETTINGS = Settings(
    namespaces=("default",), metrics_port=None, leader_elect=True, lease_namespace="operators", lease_name=LEASE, workers=2
)


class Forgetful(InProcessTransport):
    """The answer to the first create of each resource, and to the first write of a status, gets lost."""

    def __init__(self, world: World) -> None:
        # No pod is on a node, so no log is asked for.
        super().__init__(world.server, pods=cast(PodBackend, object()))
        self._lost: set[str] = set()

    async def send(self, request: Request) -> Response:
        response = await super().send(request)
        asked = access(request)
        loses = asked.verb == "create" or asked.subresource == "status"
        if loses and asked.resource not in ("leases", *self._lost) and response.status < 300:
            self._lost.add(asked.resource)
            raise TransportError("the answer got lost")
        return response


class Life(World):
    """Jobs of one framework, their operator watched."""

    def __init__(self, framework: Framework) -> None:
        super().__init__()
        self.framework = framework
        self.recording = Recording(Forgetful(self))
        self.transport = self.recording  # type: ignore[assignment]
        self.ok("POST", DEFINITIONS, custom_resource_definition(framework))
        self.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "operators"}})

    def jobs(self, version: str = "", name: str = "") -> str:
        version = version or self.framework.storage_version
        root = f"/apis/{self.framework.group}/{version}/namespaces/default/{self.framework.plural}"
        return f"{root}/{name}" if name else root

    def submit(self, replicas: dict[str, Any], version: str = "", run_policy: Json | None = None, **spec: Any) -> None:
        manifest = job_manifest(self.framework, replicas, run_policy=run_policy, **spec)
        version = version or self.framework.storage_version
        body = {**manifest, "apiVersion": f"{self.framework.group}/{version}", "metadata": {"name": "train"}}
        self.ok("POST", self.jobs(version), body)

    def change(self, spec: Json, version: str = "") -> None:
        self.ok("PATCH", self.jobs(version, "train"), {"spec": spec}, MERGE_PATCH)

    def job(self, name: str = "train") -> Json:
        return self.ok("GET", self.jobs(name=name))

    def there(self, name: str = "train") -> bool:
        return self.call("GET", self.jobs(name=name)).status == 200

    def named(self) -> set[str]:
        return {pod["metadata"]["name"] for pod in self.pods() if "deletionTimestamp" not in pod["metadata"]}

    def count(self, number: int) -> Callable[[], bool]:
        return lambda: len(self.named()) == number

    def collect_everything(self) -> None:
        """Play the garbage collector after the job is gone."""
        for path in (PODS, "/api/v1/namespaces/default/services", "/api/v1/namespaces/default/configmaps"):
            for found in self.ok("GET", path)["items"]:
                self.call("DELETE", f"{path}/{found['metadata']['name']}")

    async def retry_and_succeed(self, retried: str, pods: int) -> None:
        """One pod is killed and replaced, then all succeed, and the time to live passes."""
        self.play_all("Running")
        await self.clock.until(self.count(pods))
        self.play_all("Running")
        first = self.pod(retried)["metadata"]["uid"]
        self.play(retried, "Failed", 137)
        await self.clock.until(lambda: retried in self.named() and self.pod(retried)["metadata"]["uid"] != first, step=0.5)
        # The same event as for the first one: its count is patched.
        self.play_all("Running")
        await self.clock.until(lambda: self.conditions()[-1:] == ["Running"], step=0.5)
        self.play_all("Succeeded", 0)
        await self.clock.until(lambda: not self.there(), step=1)
        self.collect_everything()
        await self.clock.until(lambda: not self.pods(), step=0.5)

    async def pause(self, pods: int) -> None:
        """Suspend and resume."""
        self.change({"runPolicy": {"suspend": True}})
        await self.clock.until(lambda: self.conditions()[-1:] == ["Suspended"] and not self.named(), step=0.5)
        self.change({"runPolicy": {"suspend": False}})
        await self.clock.until(self.count(pods), step=0.5)


RUN_POLICY = {"ttlSecondsAfterFinished": 5, "backoffLimit": 3, "keepFailedLogs": True}


async def plain(life: Life, leader: str = "Worker") -> None:
    """Create, suspend, resume, retry, succeed, expire; what all but MPI have in common."""
    replicas = {"Worker": 2} if leader == "Worker" else {leader: 1, "Worker": 1}
    life.submit(replicas, policy="ExitCode", run_policy=RUN_POLICY)
    await life.clock.until(life.count(2), step=0.5)
    await life.pause(2)
    await life.retry_and_succeed(f"train-worker-{replicas['Worker'] - 1}", 2)


async def elastic(life: Life) -> None:
    """The autoscaler comes, changes and goes."""
    autoscaler = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/train"
    metrics = [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}]
    policy = {"minReplicas": 1, "maxReplicas": 3, "metrics": metrics}
    life.submit({"Worker": 2}, policy="ExitCode", run_policy=RUN_POLICY, elasticPolicy=policy)
    await life.clock.until(lambda: life.call("GET", autoscaler).status == 200, step=0.5)
    life.change({"elasticPolicy": {"maxReplicas": 4}})
    await life.clock.until(lambda: life.ok("GET", autoscaler)["spec"]["maxReplicas"] == 4, step=0.5)
    life.play_all("Running")
    life.play_all("Succeeded", 0)
    await life.clock.until(lambda: life.call("GET", autoscaler).status == 404, step=0.5)
    await life.clock.until(lambda: not life.there(), step=1)


async def mpi(life: Life, version: str) -> None:
    """The whole life of an MPIJob; the number of workers and the launcher's account change."""
    access_plural = "rbac.authorization.k8s.io/v1/namespaces/default/roles"
    launcher = {"template": {"spec": {"containers": [{"name": "main", "image": "any", "command": ["true"]}]}}}
    life.submit({"Launcher": launcher, "Worker": 2}, version=version, run_policy=RUN_POLICY)
    workers = {"train-worker-0", "train-worker-1"}
    await life.clock.until(lambda: workers <= life.named(), step=0.5)
    life.play_all("Running")
    await life.clock.until(lambda: "train-launcher" in life.named(), step=0.5)
    await life.pause(2 if version == "v1" else 3)
    life.play_all("Running")
    await life.clock.until(lambda: "train-launcher" in life.named(), step=0.5)
    life.play_all("Running")
    life.change({"mpiReplicaSpecs": {"Worker": {"replicas": 3}}}, version)
    await life.clock.until(lambda: "train-worker-2" in life.named(), step=0.5)
    if version == "v1":
        launcher["template"]["spec"]["serviceAccountName"] = "theirs"
        life.change({"mpiReplicaSpecs": {"Launcher": launcher}}, version)
        bindings = f"/apis/{access_plural.replace('roles', 'rolebindings')}/train-launcher"
        await life.clock.until(lambda: life.ok("GET", bindings)["subjects"][0]["name"] == "theirs", step=0.5)
        life.change({"mpiReplicaSpecs": {"Launcher": {"template": {"spec": {"serviceAccountName": None}}}}}, version)
        await life.clock.until(lambda: life.ok("GET", bindings)["subjects"][0]["name"] != "theirs", step=0.5)
    life.play_all("Running")
    await life.retry_and_succeed("train-worker-1", 4)


async def lives(framework: Framework) -> Recording:
    """What was asked in the lives of the framework's jobs."""
    life = Life(framework)
    async with operating(life, framework, SETTINGS):
        if framework is MPI:
            await mpi(life, "v2beta1")
            await mpi(life, "v1")
        else:
            await plain(life, "Master" if framework is XGBOOST else "Worker")
        if framework is PYTORCH:
            await elastic(life)
        # The lease is renewed.
        await life.clock.advance(10)
    return life.recording


def triples(rules: Iterable[Rule]) -> set[tuple[str, str, str]]:
    return {(rule.group, rule.resource, verb) for rule in rules for verb in rule.verbs}


def needs_exactly(life: Life, *added: Rule) -> None:
    """It has done what these rules add, and nothing beyond them."""
    resources = {rule.resource for rule in added}
    assert {triple for triple in life.recording.verbs if triple[1] in resources} == triples(added)
    assert life.recording.verbs <= triples([*rbac.operator_rules([TF]), *added, *rbac.lease_rules(LEASE)])


def covered(wanted: Rule, held: Iterable[Rule]) -> bool:
    return triples([replace(wanted, names=())]) <= triples(held)


def may_grant(recording: Recording) -> None:
    """An API server refuses a Role that grants more than its author holds."""
    granted = {
        Rule(group, resource, tuple(rule["verbs"]), tuple(rule.get("resourceNames", ())))
        for asked, body in recording.written
        if asked.resource == "roles"
        for rule in body["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    held = rbac.operator_rules([MPI], grants=True)
    assert granted
    assert all(covered(rule, held) for rule in granted)
    assert triples(rbac.handed_on(MPI)) == triples(granted) - triples([rule for rule in held if rule.resource != "pods/exec"])
    assert all(rule.names for rule in granted), "a launcher gets rights on its own workers only"


@EVERY_KIND
async def test_an_operator_does_what_its_rules_say_and_nothing_else(framework: Framework) -> None:
    recording = await lives(framework)
    held = {rule for rule in rbac.operator_rules([framework], grants=True) if not rule.resource.endswith("/finalizers")}
    held -= set(rbac.handed_on(framework))
    assert recording.verbs == triples([*held, *rbac.lease_rules(LEASE)])
    beyond = {a for a in recording.asked if a.namespace != ("operators" if a.resource == "leases" else "default")}
    assert not beyond, "an operator of one namespace asks for nothing outside it"
    children = [(a, body) for a, body in recording.written if a.verb == "create" and a.resource not in ("events", "leases")]
    assert children
    for asked, body in children:
        owner = body["metadata"]["ownerReferences"][0]
        assert owner["blockOwnerDeletion"], f"{asked.resource}: what the right to update finalizers is for"
        assert labels.JOB_NAME in body["metadata"]["labels"]
    if framework is MPI:
        may_grant(recording)


@pytest.mark.parametrize("scheduler", [VOLCANO, COSCHEDULING, NATIVE], ids=lambda s: s.name)
async def test_gang_scheduling_needs_its_rules_and_nothing_else(scheduler: GangScheduler) -> None:
    life = Life(TF)
    for one in definitions.of_scheduler(scheduler):
        life.ok("POST", DEFINITIONS, one)
    group = f"/apis/{scheduler.api_version}/namespaces/default/podgroups/train"

    async def placed(pods: int) -> None:
        await life.clock.until(lambda: life.call("GET", group).status == 200, step=0.5)
        life.ok("PATCH", f"{group}/status", {"status": {"phase": "Inqueue"}}, MERGE_PATCH)
        await life.clock.until(life.count(pods), step=0.5)

    async with operating(life, TF, replace(SETTINGS, namespaces=(), gang_scheduler_name=scheduler.name)):
        life.submit({"Worker": 2}, policy="ExitCode", run_policy=RUN_POLICY)
        await placed(2)
        life.change({"tfReplicaSpecs": {"Worker": {"replicas": 3}}})
        await life.clock.until(lambda: 3 in (life.ok("GET", group)["spec"].get("minMember"), min_count(life.ok("GET", group))))
        await placed(3)
        life.change({"runPolicy": {"suspend": True}})
        await life.clock.until(lambda: life.call("GET", group).status == 404, step=0.5)
    needs_exactly(life, *rbac.gang_rules(scheduler), rbac.PRIORITIES)


def queued_life() -> Life:
    """Beside Kueue, with one flavor."""
    life = Life(TF)
    for one in definitions.of_kueue():
        life.ok("POST", DEFINITIONS, one)
    flavor = {"apiVersion": KUEUE_API, "kind": "ResourceFlavor", "metadata": {"name": "spot"}}
    life.ok("POST", f"/apis/{KUEUE_API}/resourceflavors", {**flavor, "spec": {"nodeLabels": {"pool": "spot"}}})
    return life


async def test_owning_workloads_needs_its_rules_and_nothing_else() -> None:
    """A queued job waits, runs where its flavor is, is preempted, admitted again, moved, suspended, and finishes."""
    life = queued_life()

    def workload() -> Json | None:
        return next(iter(life.ok("GET", WORKLOADS)["items"]), None)

    def play(changed: Callable[[Json], Json]) -> None:
        found = workload()
        assert found is not None
        life.ok("PUT", f"{WORKLOADS}/{found['metadata']['name']}/status", changed(found))

    def told(kind: str, status: str) -> bool:
        conditions = ((workload() or {}).get("status") or {}).get("conditions") or ()
        return any(each["type"] == kind and each["status"] == status for each in conditions)

    def suspended() -> bool:
        return life.conditions()[-1:] == ["Suspended"]

    async with operating(life, TF, replace(SETTINGS, namespaces=(), kueue="own")):
        life.submit({"Worker": 2}, policy="ExitCode", run_policy=RUN_POLICY)
        await life.clock.until(life.count(2), step=0.5)
        life.ok("PATCH", life.jobs(name="train"), {"metadata": {"labels": {QUEUE_LABEL: "team"}}}, MERGE_PATCH)
        await life.clock.until(lambda: suspended() and not life.named() and workload() is not None, step=0.5)
        life.ok("PATCH", life.jobs(name="train"), {"metadata": {"labels": {QUEUE_LABEL: "other"}}}, MERGE_PATCH)
        await life.clock.until(lambda: (workload() or {})["spec"]["queueName"] == "other", step=0.5)
        for _ in range(2):
            play(lambda found: kueue.admitted(found, "spot"))
            await life.clock.until(life.count(2), step=0.5)
            assert {pod["spec"]["nodeSelector"]["pool"] for pod in life.pods()} == {"spot"}
            life.play_all("Running")
            await life.clock.until(lambda: told("PodsReady", "True"), step=0.5)
            play(kueue.evicted)
            await life.clock.until(lambda: told("QuotaReserved", "False") and not life.named(), step=0.5)
        life.change({"runPolicy": {"suspend": True}})
        await life.clock.until(lambda: workload() is None, step=0.5)
        life.change({"runPolicy": {"suspend": False}, "ttlSecondsAfterFinished": None})
        await life.clock.until(lambda: workload() is not None, step=0.5)
        play(lambda found: kueue.admitted(found, "spot"))
        await life.clock.until(life.count(2), step=0.5)
        life.play_all("Running")
        await life.clock.until(lambda: told("PodsReady", "True"), step=0.5)
        life.play_all("Succeeded", 0)
        await life.clock.until(lambda: told("Finished", "True"), step=0.5)
    needs_exactly(life, *rbac.KUEUE, *rbac.KUEUE_CLUSTER)


def made_by_kueue(job: Json, pod_sets: Mapping[str, Any]) -> Json:
    """The Workload that Kueue's own integration makes of a job, which nothing marks as ours; `pod_sets`: by type, its replicas.

    Its metadata is `NewWorkload` in pkg/controller/jobframework/utils.go and `ConstructWorkload` in reconciler.go, its podSets
    `PodSets` in pkg/controller/jobs/kubeflow/kubeflowjob. The name ends with a hash, which is played.
    """
    metadata = job["metadata"]
    owner = {"apiVersion": job["apiVersion"], "kind": job["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    sets = [
        {"name": name.lower(), "count": spec.get("replicas", 1), "template": spec["template"]}
        for name, spec in pod_sets.items()
    ]
    return {
        "apiVersion": KUEUE_API,
        "kind": KUEUE_WORKLOAD,
        "metadata": {
            "name": f"{job['kind'].lower()}-{metadata['name']}-0a1b2",
            "namespace": metadata["namespace"],
            "labels": {JOB_UID_LABEL: metadata["uid"]},
            "finalizers": ["kueue.x-k8s.io/resource-in-use"],
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {"queueName": metadata["labels"][QUEUE_LABEL], "podSets": sets, "priority": 0, "active": True},
    }


async def test_a_workload_that_kueue_has_made_goes_on_once_it_is_ours_by_hand() -> None:
    """As docs/kueue.md says to change from Kueue's integration: the job keeps its quota and its pods."""
    life = queued_life()
    manifest = job_manifest(TF, {"Worker": 2}, policy="ExitCode", run_policy={"suspend": False})
    job = life.ok("POST", life.jobs(), {**manifest, "metadata": {"name": "train", "labels": {QUEUE_LABEL: "team"}}})
    made = life.ok("POST", WORKLOADS, made_by_kueue(job, job["spec"]["tfReplicaSpecs"]))
    path = f"{WORKLOADS}/{made['metadata']['name']}"
    life.ok("PUT", f"{path}/status", kueue.admitted(made, "spot"))
    everywhere = replace(SETTINGS, namespaces=())
    async with operating(life, TF, everywhere):
        await life.clock.until(life.count(2), step=0.5)
    pods = {pod["metadata"]["uid"] for pod in life.pods()}
    (script,) = (block.text for block in blocks() if str(block.document) == "docs/kueue.md" and "--patch" in block.text)
    (patch,) = (one for words in simple_commands(script) for flag, one in pairwise(words) if flag == "--patch")
    life.ok("PATCH", path, json.loads(patch.replace("pytorchjob", "tfjob").replace("mnist", "train")), MERGE_PATCH)
    async with operating(life, TF, replace(everywhere, kueue="own")):
        await life.clock.until(lambda: labels.PREFIX + "pod-sets" in life.ok("GET", path)["metadata"].get("annotations", {}))
        life.play_all("Running")
        await life.clock.until(lambda: life.conditions()[-1:] == ["Running"], step=0.5)
        assert {pod["metadata"]["uid"] for pod in life.pods()} == pods
    assert [one["metadata"]["name"] for one in life.ok("GET", WORKLOADS)["items"]] == [made["metadata"]["name"]]
    assert "finalizers" not in life.ok("GET", path)["metadata"]
