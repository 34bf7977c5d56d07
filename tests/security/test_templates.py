"""S1 to S7, S9, S20: what a user writes into a job, a pod or a status gives no user more rights than before."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from jobcommon.api import labels
from jobcommon.api.observed import Observed
from jobcommon.client.request import Request
from jobcommon.crd import custom_resource_definition, rbac
from jobcommon.framework import FINALIZER, Framework, Replica
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mpi.options import MPIOptions
from jobcommon.reconcile import plan, read_job
from jobcommon.reconcile.children import pod_manifest
from jobcommon.reconcile.plan import Create, Delete, RemoveFinalizer
from jobcommon.testutil.builders import START, Pod, job_manifest, observe, replica_spec
from jobcommon.testutil.embedded import InProcessTransport
from jobcommon.testutil.frameworks import TEST_JOB
from jobcommon.testutil.recording import Recording
from localcluster import User
from tests.kinds import EVERY_KIND
from tests.runtime.fakes import TESTJOB, a_job
from tests.runtime.world import JOBS, PODS, SETTINGS, World, operating, world_with_testjobs

Json = dict[str, Any]
NO_PODS = {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
CORE = "/api/v1/namespaces"


def pods_of(framework: Framework, spec: Json, metadata: Json | None = None) -> list[Json]:
    """The first pods of a job whose templates have `spec` and `metadata` in them."""
    kinds = ("Launcher", "Worker") if framework is MPI else ("Worker",)
    roles = {kind: replica_spec(framework) for kind in kinds}
    for role in roles.values():
        role["template"]["spec"] |= spec
        role["template"]["metadata"] = metadata or {}
    job = read_job(framework, job_manifest(framework, roles))
    return [pod_manifest(framework, job, Replica(kind, 0)) for kind in kinds]


@EVERY_KIND
def test_s01_a_pod_has_the_account_and_the_secrets_of_its_template_and_no_others(framework: Framework) -> None:
    """No more than any user with the right to create pods has: their own choice, handed to the API server."""
    volumes = [{"name": "v", "secret": {"secretName": "of-another"}}]
    for pod in pods_of(framework, {"serviceAccountName": "powerful", "volumes": volumes}):
        assert pod["spec"]["serviceAccountName"] == "powerful"
        others = [v for v in pod["spec"]["volumes"] if v not in volumes]
        assert {v["secret"]["secretName"] for v in others if "secret" in v} <= {"demo-ssh"}
        assert not [v for v in others if {"hostPath", "projected"} & v.keys()]
    for pod in pods_of(framework, {}):
        assert "serviceAccountName" not in pod["spec"]


DANGEROUS: Json = {
    "hostNetwork": True,
    "hostPID": True,
    "volumes": [{"name": "root", "hostPath": {"path": "/"}}],
    "securityContext": {"runAsUser": 0, "sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}]},
}


@EVERY_KIND
def test_s02_what_a_template_dares_is_passed_on_as_it_is(framework: Framework) -> None:
    """So the Pod Security of the namespace decides; nothing is taken back, and nothing is added."""
    for pod in pods_of(framework, DANGEROUS):
        for key in ("hostNetwork", "hostPID", "securityContext"):
            assert pod["spec"][key] == DANGEROUS[key]
        assert DANGEROUS["volumes"][0] in pod["spec"]["volumes"]
    for pod in pods_of(framework, {}):
        assert not pod["spec"].keys() & {"hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "securityContext"}
        assert all("securityContext" not in container for container in pod["spec"]["containers"])


async def test_s02_what_the_namespace_refuses_does_not_fail_the_job() -> None:
    world = world_with_testjobs()
    world.ok("POST", f"{CORE}/default/resourcequotas", NO_PODS)
    async with operating(world):
        world.ok("POST", JOBS, a_job(workers=2))
        await world.clock.until(lambda: "FailedCreatePod" in world.events(), step=0.5)
        await world.clock.advance(60)
        assert not world.pods()
        assert world.conditions()[-1:] == ["Created"], "the platform's refusal does not fail a job"


@EVERY_KIND
def test_s03_of_a_templates_metadata_only_labels_and_annotations_count(framework: Framework) -> None:
    smuggled = {
        "name": "other",
        "generateName": "other-",
        "namespace": "kube-system",
        "uid": "stolen",
        "resourceVersion": "7",
        "deletionTimestamp": "2020-01-01T00:00:00Z",
        "finalizers": ["evil.example/never"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u", "controller": True}],
        "managedFields": [{}],
        "labels": {"mine": "x"},
    }
    for pod in pods_of(framework, {}, smuggled):
        found = pod["metadata"]
        assert found.keys() == {"name", "namespace", "labels", "ownerReferences", "finalizers"}
        assert found["namespace"] == "default"
        assert found["name"].startswith("demo-")
        assert found["finalizers"] == [FINALIZER]
        assert [owner["uid"] for owner in found["ownerReferences"]] == ["uid-demo"]
        assert found["labels"]["mine"] == "x"
        assert "status" not in pod


async def test_s03_a_template_cannot_reach_into_another_namespace() -> None:
    world = world_with_testjobs()
    job = a_job(workers=1)
    job["spec"]["testReplicaSpecs"]["Worker"]["template"]["metadata"] = {"namespace": "kube-system", "name": "x"}
    async with operating(world):
        world.ok("POST", JOBS, job)
        await world.clock.until(lambda: len(world.pods()) == 1)
    assert not world.ok("GET", f"{CORE}/kube-system/pods")["items"]


async def test_s04_an_operator_of_all_namespaces_writes_and_reads_only_where_the_job_is() -> None:
    world = world_with_testjobs()
    recording = Recording(world.transport)
    world.transport = recording  # type: ignore[assignment]
    for namespace in ("team-a", "team-b"):
        world.ok("POST", CORE, {"metadata": {"name": namespace}})
    async with operating(world):
        for namespace in ("team-a", "team-b"):
            job = a_job(namespace, workers=2)
            job["metadata"]["namespace"] = namespace
            world.ok("POST", JOBS.replace("default", namespace), job)
        await world.clock.until(lambda: len(world.ok("GET", "/api/v1/pods")["items"]) == 4)
        await world.clock.until(lambda: len(world.ok("GET", "/api/v1/events")["items"]) >= 4)
    named = {a for a in recording.asked if a.verb not in ("list", "watch")}
    assert {a.namespace for a in named} == {"team-a", "team-b"}
    for asked, body in recording.written:
        # A job is called like its namespace here.
        about = [body["involvedObject"]] if asked.resource == "events" else body["metadata"].get("ownerReferences", [])
        assert all(found["name"] == asked.namespace for found in about)
        assert body["metadata"].get("namespace", asked.namespace) == asked.namespace


@pytest.mark.parametrize("name", ["demo-worker-7", "demo-worker-00", "demo-worker", "other", "demo-master-0x"])
@pytest.mark.parametrize("state", ["succeeded", "failed"])
def test_s05_a_strangers_pod_that_names_our_job_is_neither_counted_nor_deleted(name: str, state: str) -> None:
    """It claims the job's UID as its controller; its labels say whatever they like."""
    manifest = job_manifest(TEST_JOB, {"Worker": 1}, policy="Never")
    job = read_job(TEST_JOB, manifest)
    pod = Pod.of(TEST_JOB, job, "Worker", 0, uid="theirs").renamed(name).labelled(replica_type="worker", replica_index="0")
    ended = pod.succeeded() if state == "succeeded" else pod.failed(1)
    seen = replace(observe(TEST_JOB, manifest, {"Worker-0": "running"}), pods=(ended.view, *observed_pod(manifest)))
    decided = plan(TEST_JOB, job, seen, START)
    assert decided.status is not None
    assert decided.status.conditions[-1].type == "Running"
    assert not [a for a in decided.actions if isinstance(a, Delete | Create) and a.plural == "pods"]
    assert [event.reason for event in decided.events if event.lasting] == ["UnknownPod"]


def observed_pod(manifest: Json) -> tuple[Any, ...]:
    return observe(TEST_JOB, manifest, {"Worker-0": "running"}).pods


@pytest.mark.parametrize(("state", "left"), [("failed 1", "Succeeded"), ("succeeded", "Succeeded")])
def test_s05_a_slot_that_is_on_record_is_not_rewritten_by_who_takes_the_name(state: str, left: str) -> None:
    """Our pod has succeeded and is gone; a user puts another one in its place."""
    manifest = job_manifest(TEST_JOB, {"Master": 1, "Worker": 1}, policy="Never")
    first = plan(TEST_JOB, read_job(TEST_JOB, manifest), observe(TEST_JOB, manifest, {"Worker-0": "succeeded"}), START)
    assert first.status is not None
    manifest["status"] = first.status.to_json()
    job = read_job(TEST_JOB, manifest)
    method, *numbers = state.split()
    fake = getattr(Pod.of(TEST_JOB, job, "Worker", 0, uid="theirs"), method)(*map(int, numbers))
    master = Pod.of(TEST_JOB, job, "Master", 0).running()
    decided = plan(TEST_JOB, job, Observed(pods=(fake.view, master.view)), START)
    after = decided.status or job.status
    assert after.replica_statuses["Worker"].succeeded == 1
    assert not after.replica_statuses["Worker"].failed
    assert not after.has("Failed")


@pytest.mark.parametrize("taken", ["finalizers", "labels", "ownerReferences"])
async def test_s06_what_a_user_takes_off_our_pod_makes_nothing_run_or_count_twice(taken: str) -> None:
    world = world_with_testjobs()
    recording = Recording(world.transport)
    world.transport = recording  # type: ignore[assignment]
    async with operating(world):
        world.ok("POST", JOBS, a_job(workers=2))
        await world.clock.until(lambda: len(world.pods()) == 2)
        world.play_all("Running")
        await world.clock.until(lambda: world.conditions()[-1:] == ["Running"])
        uids = {pod["metadata"]["uid"] for pod in world.pods()}
        pod = world.pod("train-worker-0")
        pod["metadata"][taken] = {} if taken == "labels" else []
        world.ok("PUT", f"{PODS}/train-worker-0", pod)
        before = len(recording.asked)
        await world.clock.advance(600)
        assert {pod["metadata"]["uid"] for pod in world.pods()} == uids, "its name is taken, so nothing runs twice"
        assert len(recording.asked) - before < 100, "nor is the API server asked again and again"
        if taken != "finalizers":
            assert "NameConflict" in world.events()
        world.play("train-worker-1", "Succeeded", 0)
        await world.clock.advance(60)
        assert world.job()["status"]["replicaStatuses"]["Worker"]["succeeded"] == 1
        assert not world.job()["status"].get("restarts")


RESERVED = {
    labels.OPERATOR_NAME: "another-operator",
    labels.JOB_NAME: "another-job",
    labels.REPLICA_TYPE: "master",
    labels.REPLICA_INDEX: "-1",
}


@EVERY_KIND
def test_s07_our_labels_win_over_a_templates_and_a_queues_are_left_alone(framework: Framework) -> None:
    theirs = {**RESERVED, "kueue.x-k8s.io/queue-name": "q", labels.JOB_ROLE: "nonsense"}
    for pod in pods_of(framework, {}, {"labels": theirs}):
        found = pod["metadata"]["labels"]
        kind = pod["metadata"]["name"].split("-")[1]
        assert found[labels.OPERATOR_NAME] == framework.operator_name
        assert found[labels.JOB_NAME] == "demo"
        assert (found[labels.REPLICA_TYPE], found[labels.REPLICA_INDEX]) == (kind, "0")
        assert found["kueue.x-k8s.io/queue-name"] == "q"


@pytest.mark.parametrize("index", ["-1", "x", "1000000000000", "", "0x0", "٣", "1e9"])
def test_s07_a_label_is_never_an_index(index: str) -> None:
    """97: the reference panicked on -1 and allocated by the largest."""
    manifest = job_manifest(TEST_JOB, {"Worker": 1})
    job = read_job(TEST_JOB, manifest)
    pod = Pod.of(TEST_JOB, job, "Worker", 0).running()
    odd = Pod.of(TEST_JOB, job, "Worker", 0, uid="odd").renamed("odd").running().labelled(replica_index=index)
    decided = plan(TEST_JOB, job, Observed(pods=(pod.view, odd.view)), START)
    assert not [a for a in decided.actions if isinstance(a, Delete | RemoveFinalizer)]
    assert decided.status is not None
    assert decided.status.replica_statuses["Worker"].active == 1


async def test_s09_who_may_edit_jobs_may_not_write_their_status() -> None:
    world = world_with_testjobs()
    rules = [rule.to_json() for rule in rbac.user_rules(TESTJOB, edit=True)]
    root = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    world.ok("POST", f"{root}/roles", {"metadata": {"name": "edit"}, "rules": rules})
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eve"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "edit"}
    world.ok("POST", f"{root}/rolebindings", {"metadata": {"name": "edit"}, "roleRef": role, "subjects": [subject]})
    eve = InProcessTransport(world.server, User("eve"))
    forged = {"conditions": [{"type": "Succeeded", "status": "True"}]}

    async def says(method: str, path: str, body: Json) -> int:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        return (await eve.send(Request(method, path, body=msgspec.json.encode(body), content_type=kind))).status

    assert await says("POST", JOBS, {**a_job(), "status": forged}) == 201
    assert "status" not in world.job(), "what is written beside the subresource does not count"
    for method in ("PUT", "PATCH"):
        assert await says(method, f"{JOBS}/train/status", {**world.job(), "status": forged}) == 403
    assert await says("PATCH", f"{JOBS}/train", {"status": forged}) == 200
    assert not world.job().get("status")


@pytest.mark.parametrize("version", ["v2beta1", "v1"])
async def test_s20_another_owners_pod_under_a_workers_name_is_left_alone_and_no_right_names_it(version: str) -> None:
    world = World()
    world.ok("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", custom_resource_definition(MPI))
    theirs = {"metadata": {"name": "train-worker-0"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    uid = world.ok("POST", PODS, theirs)["metadata"]["uid"]
    main = {"template": {"spec": {"containers": [{"name": "main", "image": "any", "command": ["true"]}]}}}
    manifest = job_manifest(MPI, {"Launcher": main, "Worker": {**main, "replicas": 2}})
    body = {**manifest, "apiVersion": f"kubeflow.org/{version}", "metadata": {"name": "train"}}
    jobs = f"/apis/kubeflow.org/{version}/namespaces/default/mpijobs"
    async with operating(world, MPI, SETTINGS):
        world.ok("POST", jobs, body)
        await world.clock.until(lambda: "NameConflict" in world.events(), step=0.5)
        await world.clock.until(lambda: "train-worker-1" in {pod["metadata"]["name"] for pod in world.pods()}, step=0.5)
        await world.clock.advance(30)
        found = world.pod("train-worker-0")
        assert (found["metadata"]["uid"], "deletionTimestamp" in found["metadata"]) == (uid, False)
        roles = world.ok("GET", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles")["items"]
        named = {name for role in roles for rule in role["rules"] or () for name in rule["resourceNames"]}
        assert named == ({"train-worker-1"} if version == "v1" else set())
        world.ok("DELETE", f"{jobs}/train")
        await world.clock.advance(30)
        assert world.pod("train-worker-0")["metadata"]["uid"] == uid


def test_s20_without_kubectl_exec_there_are_no_such_rights_at_all() -> None:
    framework = replace(MPI, own_options=MPIOptions(exec=False))
    manifest = job_manifest(framework, {"Launcher": replica_spec(MPI), "Worker": 2}, transport="Exec")
    job = read_job(framework, manifest)
    decided = plan(framework, job, Observed(), START)
    assert not [a for a in decided.actions if isinstance(a, Create)]
    assert decided.status is not None
    assert decided.status.conditions[-1].type == "Created"
    assert "mpiExec" in (decided.status.conditions[-1].message or "")
