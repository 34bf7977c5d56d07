"""Amounts, commands, params: the small tables."""

from typing import Any

import pytest

from jobcommon.cli.convert.draft import MPIJOB_EXEC, MPIJOB_SSH, MXJOB, PYTORCHJOB, TFJOB, Kind
from jobcommon.cli.convert.targets import _KINDS
from jobcommon.framework import Framework
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from tests.convert.documents import PLAIN, converted, job_of, resources

GPU = "nvidia.com/gpu"


def master_resources(given: dict[str, Any]) -> dict[str, Any]:
    manifest, _ = converted({**PLAIN, "framework": "pytorch", "environment": {"resources": given}})
    return resources(job_of(manifest).replica_specs["Master"])


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"memory": {"requests": 256, "limits": 1024}}, {"requests": {"memory": "256Mi"}, "limits": {"memory": "1024Mi"}}),
        ({"memory": {"limits": "2Gi"}}, {"limits": {"memory": "2Gi"}}),
        ({"memory": {"limits": 0.5}}, {"limits": {"memory": "0.5Mi"}}),
        ({"cpu": {"requests": 0.5, "limits": 2}}, {"requests": {"cpu": "0.5"}, "limits": {"cpu": "2"}}),
        ({"cpu": {"requests": 1e-05}}, {"requests": {"cpu": "0.00001"}}),
        ({"cpu": {"limits": "500m"}}, {"limits": {"cpu": "500m"}}),
        ({"gpu": {"requests": 2}}, {"requests": {GPU: "2"}, "limits": {GPU: "2"}}),
        ({"gpu": {"request": 1}}, {"requests": {GPU: "1"}, "limits": {GPU: "1"}}),
        ({"gpu": {"limits": "2"}}, {"requests": {GPU: "2"}, "limits": {GPU: "2"}}),
        ({"gpu": {"requests": 0, "limits": 0}}, {}),
        ({"tpu": {"limits": 8}}, {"requests": {"cloud-tpus.google.com/v2": "8"}, "limits": {"cloud-tpus.google.com/v2": "8"}}),
        (
            {"limits": {"cpu": 1, "memory": 64}, "requests": {"cpu": 1}},
            {"requests": {"cpu": "1"}, "limits": {"cpu": "1", "memory": "64Mi"}},
        ),
    ],
    ids=str,
)
def test_resources(given: dict[str, Any], found: dict[str, Any]) -> None:
    assert master_resources(given) == found


def args_of(manifest: dict[str, Any]) -> str:
    (role,) = (spec for name, spec in manifest["spec"]["pytorchReplicaSpecs"].items() if name == "Master")
    container = role["template"]["spec"]["containers"][0]
    assert container["command"] == ["/bin/bash", "-c"]
    (line,) = container["args"]
    return str(line)


@pytest.mark.parametrize(
    ("cmd", "line"),
    [
        ("python run.py", "python run.py"),
        ("python run.py \\\n  --lr 1 \\\n  --steps 2\n", "python run.py --lr 1 --steps 2"),
        ("python run.py\n  --lr 1", "python run.py --lr 1"),
        (["pip list", "python run.py"], "pip list && python run.py"),
        ("{{ program }} --lr={{ lr }} {{lr}}", "python --lr=0.1 0.1"),
        ("{{ params.program }}", "python"),
        ("echo {{ flag }} {{ many }}", "echo True [1, 2]"),
        ("{{ program }} {{ lr }}", "python 0.1"),
        ("echo '{ not }' ${HOME}", "echo '{ not }' ${HOME}"),
    ],
)
def test_command(cmd: Any, line: str) -> None:
    params = {"program": "python", "lr": 0.1, "flag": True, "many": [1, 2]}
    manifest, _ = converted({**PLAIN, "framework": "pytorch", "params": params, "run": {"cmd": cmd}})
    assert args_of(manifest) == line


def test_a_param_alone_keeps_its_type() -> None:
    environment = {"replicas": {"n_workers": "{{ n }}"}}
    manifest, _ = converted({**PLAIN, "framework": "pytorch", "params": {"n": 3}, "environment": environment})
    assert manifest["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] == 3


@pytest.mark.parametrize(
    ("cmd", "program"),
    [
        ("python train.py --lr 0.1", "python train.py --lr 0.1"),
        ("python train.py 'a;b'", "python train.py 'a;b'"),
        (["pip list", "python train.py"], "/bin/bash -c 'pip list && python train.py'"),
        ("A=1 python train.py", "/bin/bash -c 'A=1 python train.py'"),
        ("python train.py | tee log", "/bin/bash -c 'python train.py | tee log'"),
        ("echo \"it's", "/bin/bash -c 'echo \"it'\"'\"'s'"),
    ],
)
def test_every_rank_runs_the_whole_command(cmd: Any, program: str) -> None:
    manifest, _ = converted(
        {**PLAIN, "framework": "horovod", "run": {"cmd": cmd}, "environment": {"replicas": {"n_workers": 1}}}, name="exp"
    )
    start = "mpirun --allow-run-as-root -np 2 --tag-output --default-hostfile none -H localhost:1,exp-worker-0.exp:1"
    container = manifest["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
    assert container["args"] == [f"{start} {program}"]


@pytest.mark.parametrize(
    ("spec", "workers", "gpus", "slots"),
    [
        ({"gpus": 16, "gpusPerNode": 8}, 2, "8", 8),
        ({"gpus": 4, "gpusPerNode": 8}, 1, "4", 4),
        ({"gpus": 2}, 2, "1", 1),
        ({"processingUnits": 8, "processingUnitsPerNode": 4, "slotsPerWorker": 2}, 2, "4", 2),
        ({"replicas": 3}, 3, None, 1),
    ],
    ids=str,
)
def test_flat_mpijob_sizes(spec: dict[str, Any], workers: int, gpus: str | None, slots: int) -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "i", "command": ["mpirun", "x"]}]}}
    head = {"apiVersion": "kubeflow.org/v1alpha1", "kind": "MPIJob", "metadata": {"name": "f"}}
    manifest, warnings = converted({**head, "spec": {"template": template, **spec}})
    found = job_of(manifest)
    assert warnings == []
    assert (found.replica_specs["Worker"].replicas, manifest["spec"]["slotsPerWorker"]) == (workers, slots)
    assert resources(found.replica_specs["Worker"]).get("limits", {}).get(GPU) == gpus
    assert resources(found.replica_specs["Launcher"]) == {}


def test_flat_mpijob_launcher_on_master() -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    head = {"apiVersion": "kubeflow.org/v1alpha1", "kind": "MPIJob", "metadata": {"name": "f"}}
    manifest, _ = converted(
        {**head, "spec": {"template": template, "replicas": 1, "launcherOnMaster": True, "backoffLimit": 0}}
    )
    found = job_of(manifest)
    pods = {role: spec.template["spec"] for role, spec in found.replica_specs.items()}
    assert pods["Launcher"]["tolerations"] == [{"key": "node-role.kubernetes.io/master", "effect": "NoSchedule"}]
    assert "nodeAffinity" in pods["Launcher"]["affinity"]
    assert not {"tolerations", "affinity"} & pods["Worker"].keys()
    assert found.run_policy.backoff_limit == 0


@pytest.mark.parametrize(
    ("kind", "framework"), [(TFJOB, TF), (PYTORCHJOB, PYTORCH), (MXJOB, MXNET), (MPIJOB_SSH, MPI), (MPIJOB_EXEC, MPI)]
)
def test_the_versions_and_replica_types_of_a_kind_are_those_of_its_operator(kind: Kind, framework: Framework) -> None:
    assert kind.api_version.rpartition("/")[2] in {served.name for served in framework.versions}
    types = {name for known, _, names in _KINDS.values() if known is kind for name in names if name}
    assert types <= {replica.name for replica in framework.replica_types}
