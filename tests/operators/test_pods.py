"""What each kind adds to its pods and creates beside them, as golden files: environment, ports, mounts, labels, companions.

The cases are those of the reference's tests, and those it lacks. Where the reference's result is a defect, the files have the
sensible one; docs/deviations.md names those. ``make golden`` writes them anew; look at the difference before you commit it.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import yaml

from jobcommon.api import labels
from jobcommon.api.observed import Observed
from jobcommon.api.replica import Replica
from jobcommon.framework import SERVICE_PER_REPLICA, Framework, Options
from jobcommon.manifests.children import pod_manifest
from jobcommon.operators.jax import JAX
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mpi.options import MPIOptions
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.paddle import PADDLE
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.operators.xgboost import XGBOOST
from jobcommon.reconcile import Create, plan
from jobcommon.spec import read_job
from jobcommon.testutil.builders import START, Manifest, Pod, job_manifest, replica_spec
from tests.docs.blocks import blocks
from tests.kinds import EVERY_KIND

GOLDEN = Path(__file__).parent.parent / "golden"
NO_OPTIONS = Options()
SIDECAR = {"name": "sidecar", "image": "image"}


@dataclass(frozen=True)
class Case:
    """A job: its replicas, the pods that are shown ("" for all), and what else its manifest and its operator have."""

    replicas: Mapping[str, int | Manifest]
    shown: str = ""
    spec: Mapping[str, Any] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    version: str = ""
    options: Options = NO_OPTIONS
    running: tuple[int, ...] = ()
    own_options: object = None


def main(framework: Framework, replicas: int = 1, *others: Manifest, pod: Manifest | None = None, **container: Any) -> Manifest:
    """A replica spec with `container` in its main container, others beside it, and `pod` in the spec of its pods."""
    spec = replica_spec(framework, replicas)
    template = spec["template"]["spec"]
    template |= {**(pod or {}), "containers": [{**template["containers"][0], **container}, *others]}
    return spec


def port(framework: Framework, number: int) -> list[Manifest]:
    return [{"name": framework.port_name, "containerPort": number}]


def env(**values: str) -> list[Manifest]:
    return [{"name": name, "value": value} for name, value in values.items()]


EACH = {SERVICE_PER_REPLICA: "true"}
DOMAIN = Options(cluster_domain="cluster.local")
TRAIN, TUNE = {"Scheduler": 1, "Server": 1, "Worker": 2}, {"TunerTracker": 1, "TunerServer": 1, "Tuner": 1}
ELASTIC = {
    "minReplicas": 1, "maxReplicas": 3, "rdzvBackend": "c10d", "rdzvPort": 1234, "rdzvHost": "localhost", "rdzvId": "rdzv-id",
    "rdzvConf": [{"key": "a", "value": "b"}, {"key": "c", "value": "d"}], "maxRestarts": 3,
}  # fmt: skip
METRICS = {"minReplicas": 1, "maxReplicas": 3, "metrics": [{"type": "Resource", "resource": {"name": "cpu"}}]}
SSH_USER = {"sshAuthMountPath": "/home/mpiuser/.ssh"}
WAITS = {"launcherCreationPolicy": "WaitForWorkersReady"}
KUBECTL = MPIOptions(kubectl_image="registry/kubectl:1")
SEED_002 = main(MPI, 4, command=["mpirun", "python", "x.py"], resources={"limits": {"nvidia.com/gpu": 4, "cpu": 2}})


def launcher(**container: Any) -> dict[str, Manifest | int]:
    return {"Launcher": main(MPI, **container), "Worker": 1}


def as_user(path: str, pod: Manifest, container: Manifest) -> Case:
    own: Manifest = {"securityContext": container} if container else {}
    worker = main(MPI, pod={"securityContext": pod} if pod else {}, **own)
    return Case({"Launcher": 1, "Worker": worker}, "Worker-0", {"sshAuthMountPath": path})


CASES: dict[str, dict[str, Case]] = {
    JAX.name: {
        "one process": Case({"Worker": 1}),
        "three processes, ids by index": Case({"Worker": 3}),
        "the port of the template": Case({"Worker": main(JAX, ports=port(JAX, 7777))}),
        "defaults give way to the user's variables, the cluster's definition does not": Case(
            {"Worker": main(JAX, env=env(PYTHONUNBUFFERED="0", PROCESS_ID="9"))}
        ),
    },
    XGBOOST.name: {
        "master alone": Case({"Master": 1}),
        "no worker": Case({"Master": 1, "Worker": 0}),
        "workers": Case({"Master": 1, "Worker": 2}),
        "the ports of the templates": Case(
            {"Master": main(XGBOOST, ports=port(XGBOOST, 7777)), "Worker": main(XGBOOST, ports=port(XGBOOST, 8888))}, "Worker-0"
        ),
    },
    PADDLE.name: {
        "workers": Case({"Worker": 2}),
        "servers and trainers": Case({"Master": 2, "Worker": 1}),
        "the port of the template": Case({"Worker": main(PADDLE, ports=port(PADDLE, 37777))}),
        "every container has the address once": Case(
            {"Worker": main(PADDLE, 1, {**SIDECAR, "env": env(POD_IP_DUMMY="10.0.0.1")})}
        ),
    },
    TF.name: {
        "one worker has no TF_CONFIG": Case({"Worker": 1}),
        "nor has one server": Case({"PS": 1}),
        "every type": Case({"Chief": 1, "PS": 2, "Worker": 2, "Evaluator": 1}),
        "a Service each": Case({"Worker": 1, "PS": 1, "Evaluator": 1}, "Evaluator", annotations=EACH),
        "a cluster domain": Case({"Worker": 1, "PS": 1}, "Worker", options=DOMAIN),
        "a master": Case({"Master": 1, "Worker": 1}),
        "no chief": Case({"Chief": 0, "PS": 1, "Worker": 1}, "Worker"),
        "dynamic: of servers and itself": Case({"Worker": 2, "PS": 2}, spec={"enableDynamicWorker": True}),
        "dynamic with a chief": Case({"Chief": 1, "Worker": 1}, spec={"enableDynamicWorker": True}),
        "each type has a port of its own": Case({"Worker": 1, "PS": main(TF, ports=port(TF, 3333))}),
        "the main container only, instead of the user's": Case(
            {"Worker": main(TF, 2, SIDECAR, env=env(TF_CONFIG="mine", A="b"))}, "Worker-0"
        ),
    },
    PYTORCH.name: {
        "workers alone": Case({"Worker": 3}),
        "a master and workers": Case({"Master": 1, "Worker": 3}),
        "processes per node": Case({"Master": 1, "Worker": 3}, "Worker-0", {"nprocPerNode": "2"}),
        "processes by a word": Case({"Master": 1}, spec={"nprocPerNode": "gpu"}),
        "the master's own port": Case({"Master": main(PYTORCH, ports=port(PYTORCH, 999)), "Worker": 1}, "Worker"),
        "the user's rank and buffering": Case(
            {"Master": 1, "Worker": main(PYTORCH, env=env(RANK="7", PYTHONUNBUFFERED="0"))}, "Worker"
        ),
        "elastic": Case({"Worker": 1}, spec={"elasticPolicy": ELASTIC}),
        "elastic by default": Case({"Worker": 2}, "Worker-1", {"elasticPolicy": {}}),
        "elastic with the most alone": Case({"Worker": 1}, spec={"elasticPolicy": {"maxReplicas": 4}}),
        "elastic with the fewest alone": Case({"Worker": 1}, spec={"elasticPolicy": {"minReplicas": 4}}),
        "elastic without a rendezvous conf": Case({"Worker": 1}, spec={"elasticPolicy": {"rdzvConf": []}}),
        "more time to stop than torchrun gives": Case({"Master": main(PYTORCH, pod={"terminationGracePeriodSeconds": 120})}),
        "the user's own": Case(
            {"Master": main(PYTORCH, env=env(TORCH_ELASTIC_SHUTDOWN_TIMEOUT="60"), pod={"terminationGracePeriodSeconds": 120})}
        ),
        "elastic with a longer name of the user's": Case(
            {"Worker": 1}, spec={"elasticPolicy": {"rdzvHost": "demo-worker-0.demo.default.svc.corp.local"}}
        ),
        "on the network of the host, which has another name": Case({"Master": main(PYTORCH, pod={"hostNetwork": True})}),
        "elastic and standalone": Case({"Worker": 1}, spec={"elasticPolicy": {"standalone": True}}),
        "elastic and not standalone": Case({"Worker": 1}, spec={"elasticPolicy": {"standalone": False}}),
        "elastic with the deprecated field": Case({"Worker": 1}, spec={"elasticPolicy": {"nProcPerNode": 4}}),
        "elastic with metrics has an autoscaler": Case({"Worker": 2}, "Worker-0", {"elasticPolicy": METRICS}),
    },
    MXNET.name: {
        "training": Case(TRAIN),
        "a single worker": Case({"Worker": 1}),
        "workers": Case({"Worker": 2}),
        "no scheduler": Case({"Scheduler": 0, "Server": 0, "Worker": 1}),
        "tuning": Case(TUNE, spec={"jobMode": "MXTune"}),
        "a Service each": Case(TRAIN, "Worker-0", annotations=EACH),
        "a cluster domain": Case(TRAIN, "Server", options=DOMAIN),
        "the key of the tuner server": Case(
            {**TUNE, "TunerServer": {**main(MXNET), "label": "2080ti"}}, "Tuner", {"jobMode": "MXTune"}
        ),
        "and by an annotation": Case(
            {
                **TUNE,
                "TunerServer": {
                    "template": {**main(MXNET)["template"], "metadata": {"annotations": {"tuner-server-key": "2080ti"}}}
                },
            },
            "Tuner",
            {"jobMode": "MXTune"},
        ),
        "every container": Case({"Worker": main(MXNET, 1, SIDECAR)}),
        "the scheduler's own port": Case({**TRAIN, "Scheduler": main(MXNET, ports=port(MXNET, 9999))}, "Worker-0"),
    },
    MPI.name: {
        "Open MPI": Case({"Launcher": 1, "Worker": 1}),
        "Intel MPI": Case({"Launcher": 1, "Worker": 1}, "Launcher", {"mpiImplementation": "Intel", "slotsPerWorker": 10}),
        "MPICH": Case({"Launcher": 1, "Worker": 1}, "Launcher", {"mpiImplementation": "MPICH", "slotsPerWorker": 10}),
        "a cluster domain": Case({"Launcher": 1, "Worker": 1}, "Worker", options=DOMAIN),
        "hosts are workers that run, by number": Case({"Launcher": 1, "Worker": 12}, "-", running=(*range(11),)),
        "the launcher is a host": Case({"Launcher": 1, "Worker": 2}, "", {"runLauncherAsWorker": True}, running=(0,)),
        "the launcher is the only host": Case({"Launcher": 1}, "", {"runLauncherAsWorker": True}),
        "the user's fields are kept beside ours": Case(
            {
                "Launcher": main(
                    MPI,
                    1,
                    SIDECAR,
                    env=env(FOO="bar"),
                    volumeMounts=[{"name": "mine", "mountPath": "/mnt/mine"}],
                    pod={"hostNetwork": True, "volumes": [{"name": "mine"}]},
                ),
                "Worker": main(MPI, 1, command=["/entrypoint.sh"], env=env(FOO="bar"), pod={"hostNetwork": True}),
            },
            "",
            SSH_USER,
        ),
        "the user's ssh arguments": Case(launcher(env=env(OMPI_MCA_plm_rsh_args="-p 2222")), "Launcher"),
        "keys of another user by the path": as_user("/home/mpiuser/.ssh", {}, {}),
        "keys of another user": as_user("/keys", {}, {"runAsUser": 1000}),
        "keys of another user of the pod": as_user("/keys", {"runAsUser": 1000}, {}),
        "keys of any user but root": as_user("/keys", {"runAsNonRoot": True}, {}),
        "keys of root after all": as_user("/home/mpiuser/.ssh", {"runAsUser": 1000}, {"runAsUser": 0}),
        "keys to which the kubelet adds the group": as_user("/keys", {"runAsUser": 1000, "fsGroup": 1000}, {}),
        "v1: kubectl exec": Case({"Launcher": 1, "Worker": 2}, version="v1", own_options=KUBECTL, running=(1, 0)),
        "v1: workers' own arguments": Case({"Launcher": 1, "Worker": main(MPI, args=["serve"])}, "Worker", version="v1"),
        "v1: a ServiceAccount of the user's": Case(
            {"Launcher": main(MPI, pod={"serviceAccountName": "mine"}), "Worker": 1}, "Launcher", version="v1"
        ),
        "v1: without workers": Case({"Launcher": 1}, "-", version="v1"),
        "v1: a launcher with a GPU is a host": Case(
            launcher(resources={"limits": {"vendor-domain/gpu": 1}}), "Launcher", version="v1"
        ),
        "v1: with another resource it is none": Case(
            launcher(resources={"limits": {"vendor-domain/resourcetype": 1}}), "Launcher", version="v1"
        ),
        "v1: Intel MPI's settings of the user": Case(
            launcher(env=env(I_MPI_HYDRA_BOOTSTRAP="RSH", I_MPI_HYDRA_BOOTSTRAP_EXEC="/script.sh")), "Launcher", version="v1"
        ),
        "v1alpha2: Open MPI": Case(launcher(), "Launcher", {"mpiDistribution": "OpenMPI"}, version="v1alpha2"),
        "v1alpha2: Intel MPI": Case(launcher(), "Launcher", {"mpiDistribution": "IntelMPI"}, version="v1alpha2"),
        "v1alpha2: MPICH": Case(launcher(), "Launcher", {"mpiDistribution": "MPICH"}, version="v1alpha2"),
        "v1alpha2: a launcher is made of the workers": Case({"Worker": SEED_002}, version="v1alpha2"),
    },
}


def pod_of(manifest: Mapping[str, Any]) -> Manifest:
    """What is the kind's of a pod: no names, and each container, variable, mount and volume by its name."""
    spec = {key: value for key, value in manifest["spec"].items() if key not in ("hostname", "subdomain", "dnsConfig")}
    for place, form in (("initContainers", container_of), ("containers", container_of), ("volumes", volume_of)):
        if place in spec:
            spec[place] = {one["name"]: form(one) for one in spec[place]}
    ours = (labels.OPERATOR_NAME, labels.JOB_ROLE, labels.REPLICA_INDEX)
    own = {key.removeprefix(labels.PREFIX): manifest["metadata"]["labels"].get(key) for key in ours}
    return {**{key: value for key, value in own.items() if value is not None}, **spec}


def container_of(container: Mapping[str, Any]) -> Manifest:
    left_out = ("name", "image") if container["image"] == "image" else ("name",)
    found = {key: value for key, value in container.items() if key not in left_out}
    for place, value in (("env", "value"), ("ports", "containerPort"), ("volumeMounts", "mountPath")):
        if place in found:
            names = [entry.get("name", place) for entry in found[place]]
            assert len(names) == len(set(names)), "each name stands once"
            found[place] = {entry.get("name", place): entry.get(value, entry.get("valueFrom")) for entry in found[place]}
    return found


def volume_of(volume: Mapping[str, Any]) -> Manifest:
    """The modes of its files, as chmod has them."""
    files = volume.get("secret") or volume.get("configMap") or {}
    items = {item["path"]: f"{item['mode']:o} of {item['key']}" for item in files.get("items", ())}
    return {"of": files.get("secretName") or files.get("name"), **items}


def object_of(manifest: Mapping[str, Any]) -> Manifest:
    """What is the kind's of another object, with the lines of its files."""
    found = {key: value for key, value in manifest.items() if key not in ("apiVersion", "kind", "metadata", "data")}
    own = {key: value for key, value in manifest["metadata"].get("labels", {}).items() if not key.startswith(labels.PREFIX)}
    return {"labels": own, **found, **{name: text.splitlines() for name, text in manifest.get("data", {}).items()}}


def differences(found: Manifest, known: Manifest) -> Manifest:
    """What `found` has otherwise than `known`, at any depth; None for what it has not."""
    both = {
        key: differences(value, known[key]) if isinstance(value, dict) and isinstance(known.get(key), dict) else value
        for key, value in found.items()
        if key not in known or known[key] != value
    }
    return {**both, **{key: None for key in known if key not in found}}


def shown(framework: Framework, case: Case) -> Manifest:
    framework = replace(framework, options=case.options, own_options=case.own_options or framework.own_options)
    manifest = job_manifest(framework, case.replicas, annotations=case.annotations, **case.spec)
    manifest["apiVersion"] = f"{framework.group}/{case.version or framework.storage_version}"
    job = read_job(framework, manifest)
    assert job.errors == ()
    running = tuple(Pod.of(framework, job, "Worker", index).running().view for index in case.running)
    beside = {
        f"{a.plural}/{a.name}": object_of(a.manifest)
        for a in plan(framework, job, Observed(pods=running), START).actions
        if isinstance(a, Create) and a.plural not in ("pods", "services")
    }
    pods = {
        str(replica): pod_of(pod_manifest(framework, job, replica))
        for replica in job.replicas
        if not case.shown or case.shown in (str(replica), replica.type)
    }
    found: Manifest = msgspec.json.decode(msgspec.json.encode({**beside, **pods}))  # without shared parts, which YAML marks
    return found


def written(framework: Framework) -> str:
    """The cases of a kind: of each type and object, and again of older versions, the first in full, then what differs."""
    known: dict[tuple[bool, str], Manifest] = {}
    cases: Manifest = {}
    for name, case in CASES[framework.name].items():
        found = {}
        for key, value in shown(framework, case).items():
            kind = (bool(case.version), key.rpartition("-")[0])
            found[key] = differences(value, known[kind]) if kind in known else known.setdefault(kind, value)
        cases[name] = found
    return yaml.safe_dump(cases, sort_keys=False, width=200, allow_unicode=True)


@EVERY_KIND
def test_pods_and_what_they_need(framework: Framework) -> None:
    found, path = written(framework), GOLDEN / f"pods_{framework.name}.yaml"
    if os.environ.get("GOLDEN") == "write":
        path.write_text(found)
    assert found == path.read_text(), "if this is meant: make golden"


def test_jax_is_given_what_it_does_not_find(monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/frameworks.md: jax.distributed.initialize() reads no variable of a JAXJob."""
    (page,) = [block.text for block in blocks() if block.document.name == "frameworks.md" and block.language == "python"]
    job = read_job(JAX, job_manifest(JAX, {"Worker": 2}))
    (container,) = pod_manifest(JAX, job, Replica("Worker", 1))["spec"]["containers"]
    for one in container["env"]:
        monkeypatch.setenv(one["name"], one["value"])
    given: list[tuple[object, ...]] = []
    jax = SimpleNamespace(distributed=SimpleNamespace(initialize=lambda *arguments: given.append(arguments)))
    monkeypatch.setitem(sys.modules, "jax", jax)
    exec(page, {})
    assert given == [(f"{job.address(Replica('Worker', 0))}:6666", 2, 1)]
