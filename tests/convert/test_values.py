"""Amounts, commands, params: the small tables."""

from typing import Any

import pytest

from tests.convert.documents import PLAIN, converted, job_of, resources

GPU, TPU = "nvidia.com/gpu", "cloud-tpus.google.com/v2"


@pytest.mark.parametrize(
    ("given", "requests", "limits"),
    [
        ({"memory": {"requests": 256, "limits": 1024}}, {"memory": "256Mi"}, {"memory": "1024Mi"}),
        ({"memory": {"limits": 0.5}}, None, {"memory": "0.5Mi"}), ({"memory": {"limits": "2Gi"}}, None, {"memory": "2Gi"}),
        ({"cpu": {"requests": 1e-05, "limits": "500m"}}, {"cpu": "0.00001"}, {"cpu": "500m"}),
        ({"gpu": {"request": 1}}, {GPU: "1"}, {GPU: "1"}), ({"gpu": {"limits": "2"}}, {GPU: "2"}, {GPU: "2"}),
        ({"gpu": {"requests": 0, "limits": 0}}, None, None), ({"tpu": {"limits": 8}}, {TPU: "8"}, {TPU: "8"}),
        ({"limits": {"cpu": 1, "memory": 64}, "requests": {"cpu": 1}}, {"cpu": "1"}, {"cpu": "1", "memory": "64Mi"}),
    ],
    ids=str,
)  # fmt: skip
def test_resources(given: dict[str, Any], requests: dict[str, str] | None, limits: dict[str, str] | None) -> None:
    manifest, _ = converted({**PLAIN, "framework": "pytorch", "environment": {"resources": given}})
    found = resources(job_of(manifest).replica_specs["Master"])
    assert (found.get("requests"), found.get("limits")) == (requests, limits)


@pytest.mark.parametrize(
    ("cmd", "line"),
    [
        ("python run.py \\\n  --lr 1 \\\n  --steps 2\n", "python run.py --lr 1 --steps 2"),
        ("python run.py\n  --lr 1", "python run.py --lr 1"), (["pip list", "python run.py"], "pip list && python run.py"),
        ("{{ program }} --lr={{ lr }} {{lr}}", "python --lr=0.1 0.1"), ("{{ params.program }}", "python"),
        ("echo {{ flag }} {{ many }}", "echo True [1, 2]"), ("echo '{ not }' ${HOME}", "echo '{ not }' ${HOME}"),
    ],
)  # fmt: skip
def test_command(cmd: Any, line: str) -> None:
    params = {"program": "python", "lr": 0.1, "flag": True, "many": [1, 2], "n": 3}
    environment = {"replicas": {"n_workers": "{{ n }}"}}
    document = {**PLAIN, "framework": "pytorch", "params": params, "run": {"cmd": cmd}, "environment": environment}
    specs = converted(document)[0]["spec"]["pytorchReplicaSpecs"]
    container = specs["Master"]["template"]["spec"]["containers"][0]
    assert (container["command"], container["args"], specs["Worker"]["replicas"]) == (["/bin/bash", "-c"], [line], 3)


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
