"""What of our pods differs from those of Trainer and JobSet, for each of Trainer's eight runtimes: one golden file.

Each kind of difference is a row of docs/deviations.md.
"""

import copy
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from jobcommon.api.observed import Observed
from jobcommon.framework import ObjectKey
from jobcommon.manifests.children import pod_manifest
from jobcommon.operators.trainjob.framework import TRAINJOB
from jobcommon.operators.trainjob.kinds import API_VERSION, STEP_LABEL
from jobcommon.operators.trainjob.runtimes import shipped
from jobcommon.reconcile import Create, plan
from jobcommon.spec import read_job
from jobcommon.testutil.builders import START
from tests.operators.test_trainjob_spec import ROWS, train_job
from tests.operators.trainer_pods import beside, pods

Json = dict[str, Any]
GOLDEN = Path(__file__).parent.parent / "golden" / "trainjob_differences.txt"
TRAINERS = ("torch", "jax", "xgboost", "deepspeed", "mlx")
RUN = {"numNodes": 2, "command": ["run"], "args": ["it"], "env": [{"name": "A", "value": "1"}]}


def torchtune(name: str, source: str, recipe: str, tokenizer: str) -> Json:
    mount = [{"name": "initializer", "mountPath": "/workspace"}]
    command = ["tune", "run", "--rdzv_endpoint=localhost:29500", "full_finetune_distributed", "--config", recipe, tokenizer]
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "20Gi"}}}
    roles = {
        "dataset-initializer": {"env": [{"name": "STORAGE_URI", "value": "hf://tatsu-lab/alpaca"}]},
        "model-initializer": {"env": [{"name": "STORAGE_URI", "value": source}]},
        "node": {"command": command, "resources": {"limits": {"nvidia.com/gpu": 2}}},
    }
    jobs = [
        {
            "name": role,
            "template": {
                "metadata": {"labels": {STEP_LABEL: "trainer" if role == "node" else role}},
                "spec": {"template": {"spec": {"containers": [{"name": role, "image": "i", "volumeMounts": mount, **more}]}}},
            },
        }
        for role, more in roles.items()
    ]
    jobs[-1]["dependsOn"] = [{"name": role, "status": "Complete"} for role in list(roles)[:2]]
    policies = [{"templates": [{"metadata": {"name": "initializer"}, "spec": claim}]}]
    spec = {
        "mlPolicy": {"numNodes": 1, "torch": {}},
        "template": {"spec": {"volumeClaimPolicies": policies, "replicatedJobs": jobs}},
    }
    return {"apiVersion": API_VERSION, "kind": "ClusterTrainingRuntime", "metadata": {"name": name}, "spec": spec}


def upstream() -> Iterator[tuple[Json, Json]]:
    """Each runtime with a job for it."""
    for runtime in shipped():
        if runtime["metadata"]["name"].removesuffix("-distributed") in TRAINERS:
            yield runtime, RUN
    for name, row in ROWS["torchtune"].items():
        yield torchtune(name, *row), {"env": RUN["env"]}


def ours(job: Json, runtime: Json) -> tuple[dict[str, Json], set[str]]:
    """Our pods by name, and what is made beside them."""
    key = ObjectKey("clustertrainingruntimes", "", runtime["metadata"]["name"])
    framework, manifest = TRAINJOB.specialized(job, {key: runtime})
    read = read_job(framework, manifest)
    assert read.errors == ()
    made = {read.pod_name(replica): pod_manifest(framework, read, replica) for replica in read.replicas}
    planned = plan(framework, read, Observed(), START).actions
    beside = {f"{one.plural} {one.name}" for one in planned if isinstance(one, Create) and one.plural != "pods"}
    return {name: msgspec.json.decode(msgspec.json.encode(pod)) for name, pod in made.items()}, beside


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """All values by path; entries of lists by their names."""
    if isinstance(value, dict) and value:
        for key, one in value.items():
            yield from leaves(one, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        for number, one in enumerate(value):
            name = one.get("name", one.get("path", one.get("mountPath", number)))
            rest = {key: item for key, item in one.items() if key != "name" or "name" not in one}
            yield from leaves(rest, f"{path}[{name}]")
    else:
        yield path, msgspec.json.encode(value).decode()


def differences(theirs: Json, own: Json) -> list[str]:
    before, after = dict(leaves(theirs)), dict(leaves(own))
    paths = [path for path in sorted({*before, *after}) if before.get(path) != after.get(path)]
    return [f"{path}: {before.get(path, '-')} -> {after.get(path, '-')}" for path in paths]


def written() -> str:
    """The differences of the last pod of each role: first those of all of them, then each with the roles that have it."""
    found: dict[str, list[str]] = {}
    for runtime, trainer in upstream():
        job = train_job({"job": {"runtimeRef": {"name": runtime["metadata"]["name"]}, "trainer": trainer}})
        theirs, (own, made) = pods(copy.deepcopy(job), runtime), ours(job, runtime)
        assert theirs.keys() == own.keys()
        assert made == beside(job, runtime)
        for role, name in {name.rpartition("-")[0]: name for name in theirs}.items():
            kind = role.split("-", 1)[1].removesuffix("-0")
            lines = "\n".join(differences(theirs[name], own[name])).replace(name, "<pod>").replace(role, "<job>")
            for line in lines.replace(f"[{kind}]", "[node]").splitlines():
                found.setdefault(line, []).append(f"{runtime['metadata']['name'].removesuffix('-distributed')}/{kind}")
    where: dict[str, list[str]] = {}
    for line, names in found.items():
        where.setdefault(" ".join(names), []).append(line)
    every = max(where, key=len)
    return "".join(
        f"{'every pod' if names == every else names}\n" + "".join(f"  {one}\n" for one in where[names]) for names in where
    )


def test_what_differs_from_the_pods_of_trainer_and_jobset() -> None:
    found = written()
    if os.environ.get("GOLDEN") == "write":
        GOLDEN.write_text(found)
    assert found == GOLDEN.read_text(), "if this is meant: make golden"
