"""An unmodified Kueue 0.19 beside a real API server and scheduler, with operators that own the Workloads (``--kueue own``).

`KUEUE` is its manager, and `MANIFESTS` what a release installs: definitions and webhooks. Its configuration is the default one
and the lines of docs/kueue.md. Without a certificate for its metrics it does not start: `METRICS` must be there.
"""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from jobcommon import Framework, Settings
from jobcommon.api.kueue import MULTIKUEUE, OWN, QUEUE_LABEL, REQUIRED
from jobcommon.cli.embedded import define
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.trainjob import TRAINJOB
from jobcommon.testutil.polling import polled
from localcluster.client import MERGE_PATCH, StatusError, self_signed
from localcluster.conformance import envtest
from tests.operators.test_trainjob import NODE, RUNTIMES, role, runtime, train_job
from tests.real.played import PODS, Cluster, Obj, cluster, holds, jobs, lacking

KUEUE, MANIFESTS = "kueue", "kueue.yaml"
#: Kueue's integration of TrainJob watches JobSets.
JOBSET = Path(__file__).resolve().parents[2] / "charts" / "trainjob-operator" / "crds" / "jobset.x-k8s.io_jobsets.yaml"
METRICS = Path("/etc/kueue/metrics/certs/tls.crt")
KINDS = (PYTORCH, MXNET)
GROUP = "/apis/kueue.x-k8s.io/v1beta2"
WORKLOADS = f"{GROUP}/namespaces/default/workloads"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1"
BUILT_IN = ("batch/job", "pod", "deployment", "statefulset")
#: With those of which a cluster may lack the definitions, the default of the release.
DEFAULT = (
    *BUILT_IN, "kubeflow.org/mpijob", "ray.io/rayjob", "ray.io/raycluster", "ray.io/rayservice", "jobset.x-k8s.io/jobset",
    "workload.codeflare.dev/appwrapper", "trainer.kubeflow.org/trainjob", "leaderworkerset.x-k8s.io/leaderworkerset",
)  # fmt: skip

WHY_NOT = lacking(KUEUE, MANIFESTS) or ("" if METRICS.exists() else f"Kueue needs {METRICS}")
pytestmark = [pytest.mark.skipif(bool(WHY_NOT), reason=f"no real Kueue: {WHY_NOT}"), pytest.mark.timeout(900)]


SETTINGS = Settings(kueue=OWN, metrics_port=None, log_level="warning")


@asynccontextmanager
async def queued(
    directory: Path, frameworks: tuple[str, ...] = DEFAULT, kinds: tuple[Framework, ...] = KINDS
) -> AsyncIterator[Cluster]:
    """Two racks of two nodes, and Kueue with these integrations; the queues team (4 CPUs) and racks (8, with a topology).

    Kueue leaves our kinds to the operators.
    """
    assets, port, made = envtest.assets(), envtest.free_port(), self_signed()
    assert assets is not None
    manifests = list(yaml.safe_load_all((assets / MANIFESTS).read_text()))
    for name, content in (("tls.crt", made.pem), ("tls.key", made.key)):
        (directory / name).write_bytes(content)
    (directory / "kueue.yaml").write_text(yaml.safe_dump(_configuration(directory, port, frameworks)))
    async with cluster(directory, kinds, SETTINGS) as there:
        for number in range(4):
            await there.node(f"node-{number}", pool="spot", rack=f"rack-{number // 2}")
        if TRAINJOB in kinds:
            await define(there.transport, yaml.safe_load(JOBSET.read_text()))
        await _install(there, manifests, port, made.pem)
        arguments = [f"--config={directory / 'kueue.yaml'}", f"--kubeconfig={there.admin}", "--zap-log-level=2"]
        async with envtest.Program(assets / KUEUE, directory, arguments):
            # Its webhooks do not answer at once.
            spot = {"nodeLabels": {"pool": "spot"}}
            await polled(lambda: make(there, "ResourceFlavor", "spot", spot), lambda _: True, retry_on=StatusError)
            levels = [{"nodeLabel": name} for name in ("rack", "kubernetes.io/hostname")]
            await make(there, "Topology", "racks", {"levels": levels})
            await make(there, "ResourceFlavor", "placed", {"nodeLabels": {"pool": "spot"}, "topologyName": "racks"})
            await make(there, "WorkloadPriorityClass", "high", value=100)
            await queue(there, "team", "spot", 4, preemption={"withinClusterQueue": "LowerPriority"})
            await queue(there, "racks", "placed", 8)
            yield there


async def _install(there: Cluster, bodies: list[Obj], port: int, authority: bytes) -> None:
    """The definitions and webhooks of a release."""
    for body in bodies:
        hooks = body.get("webhooks") or [w for w in [body.get("spec", {}).get("conversion", {}).get("webhook")] if w]
        for hook in hooks:
            # No Service leads to a program outside the cluster.
            url = f"https://127.0.0.1:{port}{hook['clientConfig']['service']['path']}"
            hook["clientConfig"] = {"url": url, "caBundle": base64.b64encode(authority).decode()}
    await define(there.transport, *(body for body in bodies if body["kind"] == "CustomResourceDefinition"))
    for body in bodies:
        if body["kind"].endswith("WebhookConfiguration"):
            await there.api.call("POST", f"{WEBHOOKS}/{body['kind'].lower()}s", body)


def _configuration(directory: Path, port: int, frameworks: tuple[str, ...]) -> Obj:
    # One with an integration that is on is none of others.
    others = [kind for kind in KINDS if f"{kind.group}/{kind.singular}" not in frameworks]
    names = [f"{kind.kind}.v1.{kind.group}" for kind in others]
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"127.0.0.1:{envtest.free_port()}"},
        "metrics": {"bindAddress": f"127.0.0.1:{envtest.free_port()}"},
        "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(directory)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        # An API server of its own, for kubectl; it would need the certificate of a Service.
        "featureGates": {"VisibilityOnDemand": False},
        "integrations": {"frameworks": list(frameworks), "externalFrameworks": names},
        "waitForPodsReady": {"timeout": "5m"},
        "multiKueue": {"externalFrameworks": [{"name": name} for name in names]},
    }


async def make(there: Cluster, kind: str, name: str, spec: Obj | None = None, **fields: object) -> None:
    plural = f"{kind.lower()}s".replace("ys", "ies").replace("sss", "sses")
    path = f"{GROUP}/namespaces/default/{plural}" if kind == "LocalQueue" else f"{GROUP}/{plural}"
    body = {"apiVersion": GROUP.removeprefix("/apis/"), "kind": kind, "metadata": {"name": name}, **fields}
    await there.api.call("POST", path, body if spec is None else {**body, "spec": spec})


def quota(resource: str, flavor: str, amount: int) -> list[Obj]:
    """The resourceGroups of a ClusterQueue."""
    resources = [{"name": resource, "nominalQuota": str(amount)}]
    return [{"coveredResources": [resource], "flavors": [{"name": flavor, "resources": resources}]}]


async def queue(there: Cluster, name: str, flavor: str, amount: int, resource: str = "cpu", **fields: object) -> None:
    """A queue of this namespace with quota in one flavor."""
    spec = {"namespaceSelector": {}, "resourceGroups": quota(resource, flavor, amount), **fields}
    await make(there, "ClusterQueue", name, spec)
    await make(there, "LocalQueue", name, {"clusterQueue": name})


async def test_queues(tmp_path: Path) -> None:
    async with queued(tmp_path) as there:
        await quota_for_one_of_two(there)
        await quota_of_replicas_that_have_succeeded(there)
        await preemption(there)
        await rank_order(there)
        await polled(lambda: _no_workloads(there))


async def submit(there: Cluster, name: str, workers: int, queue: str = "team", **job: object) -> None:
    labels = {QUEUE_LABEL: queue, **job.pop("labels", {})}  # type: ignore[dict-item]
    await there.submit(PYTORCH, name, {"Worker": workers}, job.pop("run_policy", {}), labels=labels, **job)  # type: ignore[arg-type]


async def quota_for_one_of_two(there: Cluster) -> None:
    """A PyTorchJob and an MXJob, of which Kueue knows nothing: the second waits in Kueue's words, then runs."""
    await submit(there, "first", 4)
    await there.runs("first", 4)
    mxjob = {"Scheduler": 1, "Server": 1, "Worker": 1}
    await there.submit(MXNET, "second", mxjob, {}, labels={QUEUE_LABEL: "team"}, jobMode="MXTrain")
    waits = "it waits in queue team: "
    await polled(lambda: there.job(MXNET, "second"), lambda job: waits in str(job.get("status")))
    assert not await there.pods("second")
    assert {pod["spec"]["nodeSelector"]["pool"] for pod in await there.pods("first")} == {"spot"}
    # Kueue's integration of pods leaves them alone.
    assert not any(pod["spec"].get("schedulingGates") for pod in await there.pods("first"))
    await there.finish(PYTORCH, "first", 4)
    await there.finish(MXNET, "second", 3)


async def quota_of_replicas_that_have_succeeded(there: Cluster) -> None:
    await submit(there, "long", 4)
    await there.runs("long", 4)
    await submit(there, "short", 2)
    for number in (2, 3):
        await there.end(f"long-worker-{number}", 0)
    await there.finish(PYTORCH, "short", 2)
    assert not holds(await there.job(PYTORCH, "long"), "Succeeded")
    for number in (0, 1):
        await there.end(f"long-worker-{number}", 0)
    await there.until(PYTORCH, "long", "Succeeded")


async def preemption(there: Cluster) -> None:
    """The job that is preempted runs again, and nothing is counted."""
    await submit(there, "low", 4)
    await there.runs("low", 4)
    before = await there.uids("low")
    await submit(there, "high", 4, labels={"kueue.x-k8s.io/priority-class": "high"})
    await there.runs("high", 4)
    assert not await there.bound("low")
    assert holds(await there.job(PYTORCH, "low"), "Suspended")
    await there.finish(PYTORCH, "high", 4)
    await there.runs("low", 4)
    assert not before & await there.uids("low")
    await there.finish(PYTORCH, "low", 4)
    status = (await there.job(PYTORCH, "low"))["status"]
    assert not status.get("restarts")
    assert not status.get("disruptions")


async def rank_order(there: Cluster) -> None:
    """By either way of asking."""
    ours = {"run_policy": {"schedulingPolicy": {"topology": {"key": "rack"}}}}
    for name, how in (("ours", ours), ("theirs", {"annotations": {REQUIRED: "rack"}})):
        await submit(there, name, 4, "racks", **how)
        await in_one_rack(there, name)
        await there.finish(PYTORCH, name, 4)


async def in_one_rack(there: Cluster, name: str) -> list[Obj]:
    """The four pods of a job, neighbours on one node."""
    await there.runs(name, 4)
    pods = sorted(await there.pods(name), key=lambda pod: str(pod["metadata"]["name"]))
    nodes = [pod["spec"]["nodeName"] for pod in pods]
    assert nodes in (["node-0", "node-0", "node-1", "node-1"], ["node-2", "node-2", "node-3", "node-3"])
    return pods


async def activate(there: Cluster, name: str, *, active: bool) -> None:
    path = f"{WORKLOADS}/{(await workload(there, name))['metadata']['name']}"
    await there.api.call("PATCH", path, {"spec": {"active": active}}, MERGE_PATCH)


async def test_another_cluster(tmp_path_factory: pytest.TempPathFactory) -> None:
    """MultiKueue: the job runs in the other cluster, its status comes back, and nothing is left there."""
    # MultiKueue connects to no cluster that lacks the definition of an integration which is on.
    near, far, kinds = tmp_path_factory.mktemp("here"), tmp_path_factory.mktemp("there"), (*KINDS, TRAINJOB)
    integrations = (*BUILT_IN, "trainer.kubeflow.org/trainjob")
    async with queued(near, integrations, kinds) as here, queued(far, kinds=kinds) as there:
        source = {"kubeConfig": {"location": str(there.admin), "locationType": "Path"}}
        await make(here, "MultiKueueCluster", "there", {"clusterSource": source})
        await make(here, "MultiKueueConfig", "all", {"clusters": ["there"]})
        parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "all"}
        await make(here, "AdmissionCheck", "there", {"controllerName": MULTIKUEUE, "parameters": parameters})
        checks = {"admissionChecks": [{"name": "there"}]}
        await queue(here, "away", "spot", 4, admissionChecksStrategy=checks)
        await queue(there, "away", "spot", 4)
        mxjob = {"Scheduler": 1, "Server": 1, "Worker": 1}
        for framework, name, replicas, spec in ((PYTORCH, "p", {"Worker": 4}, {}), (MXNET, "m", mxjob, {"jobMode": "MXTrain"})):
            labels, managed = {QUEUE_LABEL: "away"}, {"managedBy": MULTIKUEUE, **spec}
            await here.submit(framework, name, replicas, {}, labels=labels, **managed)
            await there.finish(framework, name, sum(replicas.values()))
            await here.until(framework, name, "Succeeded")
            assert not await here.pods(name)
        await asyncio.gather(*(one.api.call("POST", RUNTIMES, runtime(name="bare")) for one in (here, there)))
        await train(here, "t", 2, "away", annotations={"training.kubeflow.org/run-policy.backoffLimit": "0"})
        await there.runs("t", 2)
        assert (await here.job(TRAINJOB, "t"))["spec"]["managedBy"] == MULTIKUEUE
        await there.end("t-node-0-0", 1)
        await here.until(TRAINJOB, "t", "Failed")
        assert not await here.pods("t")
        await polled(lambda: _no_workloads(there))
        for framework in kinds:
            path = jobs(framework)
            await polled(lambda path=path: there.api.call("GET", path), lambda found: not found["items"])


async def _no_workloads(there: Cluster) -> bool:
    """Whether none has quota that is not finished."""
    listed = (await there.api.call("GET", WORKLOADS))["items"]
    return all(holds(one, "Finished") for one in listed)


TRAINJOBS = jobs(TRAINJOB)
CPU = {"resources": {"requests": {"cpu": 1}}}
HELD = {"metadata": {"finalizers": ["example.com/held"]}}


async def test_train_jobs(tmp_path: Path) -> None:
    """Kueue's own integration of TrainJob, in the default configuration of a release."""
    async with queued(tmp_path, kinds=(TRAINJOB,)) as there:
        await two_roles(there)
        await a_preemption_waits_for_the_last_pod(there)
        await another_placement(there)
        await ranks_of_a_topology(there)
        await polled(lambda: _no_workloads(there))


async def train(
    there: Cluster, name: str, nodes: int, queue: str = "team", labels: Obj | None = None, runs: str = "bare", **spec: object
) -> None:
    trainer = {"numNodes": nodes, "image": "i", "resourcesPerNode": CPU["resources"]}
    job = train_job(name, runtimeRef={"name": runs}, trainer=trainer, **spec)
    job["metadata"]["labels"] = {QUEUE_LABEL: queue, **(labels or {})}
    # Kueue refuses a job whose runtime it has not seen yet.
    await polled(lambda: there.api.call("POST", TRAINJOBS, job), retry_on=StatusError)


async def workload(there: Cluster, job: str) -> Obj:
    owned = (await there.api.call("GET", WORKLOADS))["items"]
    found: list[Obj] = [one for one in owned if one["metadata"]["ownerReferences"][0]["name"] == job]
    return found[0] if found else {}


async def two_roles(there: Cluster) -> None:
    """Quota for two roles, of which the first gives its own back; all that Kueue adds comes into the pods."""
    dataset = role("dataset-initializer", "dataset-initializer")
    dataset["template"]["spec"]["template"]["spec"]["containers"][0] |= CPU
    after = {**NODE, "dependsOn": [{"name": "dataset-initializer", "status": "Complete"}]}
    await there.api.call("POST", RUNTIMES, runtime(dataset, after, name="dataset"))
    await train(there, "first", 3, runs="dataset", runPolicy={"backoffLimit": 7})
    await there.runs("first", 1)
    found = await workload(there, "first")
    assert {one["name"]: one["count"] for one in found["spec"]["podSets"]} == {"dataset-initializer": 1, "node": 3}
    assert not holds(found, "PodsReady")
    await there.end("first-dataset-initializer-0-0", 0)
    await polled(lambda: there.bound("first"), lambda bound: bound == 4)
    found = await polled(lambda: workload(there, "first"), lambda found: holds(found, "PodsReady"))
    assert found["status"]["reclaimablePods"] == [{"name": "dataset-initializer", "count": 1}]
    job = await there.job(TRAINJOB, "first")
    assert [patch["manager"] for patch in job["spec"]["runtimePatches"]] == ["kueue.x-k8s.io/manager"]
    # Kueue has written the job, without a field that Trainer's kind has not.
    assert "runPolicy" not in job["spec"]
    assert job["metadata"]["annotations"] == {"training.kubeflow.org/run-policy.backoffLimit": "7"}
    for pod in await there.pods("first"):
        labels = pod["metadata"]["labels"]
        assert labels["kueue.x-k8s.io/podset"] == labels["jobset.sigs.k8s.io/replicatedjob-name"]
        assert pod["metadata"]["annotations"]["kueue.x-k8s.io/workload"] == found["metadata"]["name"]
        assert pod["spec"]["nodeSelector"] == {"pool": "spot"}
    for number in range(3):
        await there.end(f"first-node-0-{number}", 0)
    await polled(lambda: workload(there, "first"), lambda found: holds(found, "Finished"))
    assert holds(await there.job(TRAINJOB, "first"), "Complete")


async def a_preemption_waits_for_the_last_pod(there: Cluster) -> None:
    await there.api.call("POST", RUNTIMES, runtime(name="bare"))
    await train(there, "low", 4)
    await there.runs("low", 4)
    before = await there.uids("low")
    held = f"{PODS}/low-node-0-3"
    await there.api.call("PATCH", held, HELD, MERGE_PATCH)
    await train(there, "high", 4, labels={"kueue.x-k8s.io/priority-class": "high"})
    await polled(lambda: there.bound("low"), lambda bound: bound == 1)
    assert holds(await workload(there, "low"), "QuotaReserved")
    assert not await there.pods("high")
    await there.api.call("PATCH", held, {"metadata": {"finalizers": None}}, MERGE_PATCH)
    await there.runs("high", 4)
    low = await there.job(TRAINJOB, "low")
    assert holds(low, "Suspended")
    assert "replicatedJobs" not in low["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"]
    await there.finish(TRAINJOB, "high", 4, "Complete")
    await there.runs("low", 4)
    assert not before & await there.uids("low")
    assert not (await there.job(TRAINJOB, "low"))["status"].get("restarts")
    await there.finish(TRAINJOB, "low", 4, "Complete")


async def another_placement(there: Cluster) -> None:
    """Evicted from one rack, it is resumed in the other, with what Kueue adds for that alone."""
    for number in (0, 1):
        await make(there, "ResourceFlavor", f"rack-{number}", {"nodeLabels": {"rack": f"rack-{number}"}})
    flavors = [quota("cpu", f"rack-{number}", 4)[0]["flavors"][0] for number in (0, 1)]
    groups = [{"coveredResources": ["cpu"], "flavors": flavors}]
    await queue(there, "moved", "rack-0", 4, resourceGroups=groups)
    await train(there, "moved", 2, "moved")
    for number in (0, 1):
        await there.runs("moved", 2)
        placed = {f"node-{2 * number}", f"node-{2 * number + 1}"}
        assert {pod["spec"]["nodeName"] for pod in await there.pods("moved")} <= placed
        if not number:
            await activate(there, "moved", active=False)
            await polled(lambda: workload(there, "moved"), lambda found: not holds(found, "QuotaReserved"))
            flavors[0]["resources"][0]["nominalQuota"] = "0"
            await there.api.call("PATCH", f"{GROUP}/clusterqueues/moved", {"spec": {"resourceGroups": groups}}, MERGE_PATCH)
            await activate(there, "moved", active=True)
    await there.finish(TRAINJOB, "moved", 2, "Complete")


async def ranks_of_a_topology(there: Cluster) -> None:
    """Neighbours on one node, and a failure that ends the job by a runPolicy which Kueue has dropped."""
    one = role("node", "trainer")
    one["template"]["spec"]["template"]["metadata"] = {"annotations": {REQUIRED: "rack"}}
    await there.api.call("POST", RUNTIMES, runtime(one, name="racks"))
    await train(there, "ranked", 4, "racks", runs="racks", runPolicy={"backoffLimit": 0})
    pods = await in_one_rack(there, "ranked")
    assert all("kueue.x-k8s.io/podset-required-topology" in pod["metadata"]["annotations"] for pod in pods)
    await there.end("ranked-node-0-0", 1)
    found = await polled(lambda: workload(there, "ranked"), lambda found: holds(found, "Finished"))
    assert [c["reason"] for c in found["status"]["conditions"] if c["type"] == "Finished"] == ["Failed"]
