"""A TrainJob and its runtime: what their definitions refuse, what the two come to, and what the pods know of each other.

The rows are in trainjob.yaml, which says how to read them.
"""

import copy
import functools
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from jobcommon.api.definition import RelatedKind
from jobcommon.api.observed import Observed
from jobcommon.crd.definition import related_definition, to_json
from jobcommon.framework import ObjectKey
from jobcommon.manifests.children import pod_manifest
from jobcommon.operators import trainjob
from jobcommon.operators.trainjob.environment import companions, environment, shape_pod
from jobcommon.operators.trainjob.kinds import API_VERSION, RUNTIMES, STEP_LABEL, TRAINJOB_DEFINITION
from jobcommon.operators.trainjob.policies import ANNOTATION
from jobcommon.operators.trainjob.resolve import resolve
from jobcommon.operators.trainjob.resolved import Resolved, Role
from jobcommon.operators.trainjob.runtimes import local, shipped
from jobcommon.reconcile import Create, plan
from jobcommon.spec import read_job
from jobcommon.spec.structure import structural_errors
from jobcommon.testutil.builders import START
from localcluster.rules import CompiledSchema, validate_crd
from tests.operators.test_pods import GOLDEN, differences, object_of, pod_of

Json = dict[str, Any]
TRAINJOB = RelatedKind(API_VERSION, "TrainJob", "trainjobs", definition=TRAINJOB_DEFINITION)
KINDS = {kind.kind: kind for kind in (TRAINJOB, *RUNTIMES)}
SHIPPED = {runtime["metadata"]["name"]: runtime for runtime in shipped()}
JOBS = "template.spec.replicatedJobs"
SHORT = {
    "JOBS": JOBS,
    "NODE": f"{JOBS}.0.template.spec.template.spec.containers.0",
    "FAILURE": "template.spec.failurePolicy",
    "PATCHED": "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0]",
}


class Loader(yaml.SafeLoader):
    """With the two short forms of the rows."""


def _step(loader: Loader, node: yaml.Node) -> Json:
    given: Json = loader.construct_mapping(node, deep=True)  # type: ignore[arg-type]
    step = given.pop("step", "")
    name = given.pop("name", step)
    container = {"name": "node" if step == "trainer" else name, "image": "i"}
    batch = {key: given.pop(key) for key in ("parallelism", "backoffLimit") if key in given}
    template = {"spec": {"containers": [container]}}
    labels = {"metadata": {"labels": {STEP_LABEL: step}}} if step else {}
    return {"name": name, "template": {**labels, "spec": {"template": template, **batch}}, **given}


def _patch(loader: Loader, node: yaml.Node) -> Json:
    pod: Json = loader.construct_mapping(node, deep=True)  # type: ignore[arg-type]
    found = {"manager": pod.pop("manager", "kueue.x-k8s.io/manager"), **{k: pod.pop(k) for k in ("time",) if k in pod}}
    job = {"name": pod.pop("role", "node"), "template": {"spec": {"template": {"spec": pod}}}}
    return found | (
        {"trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}}} if pod or job["name"] != "node" else {}
    )


Loader.add_constructor("!step", _step)
Loader.add_constructor("!patch", _patch)
ROWS = yaml.load((Path(__file__).parent / "trainjob.yaml").read_text(), Loader)


def rows(section: str) -> Any:
    return pytest.mark.parametrize("row", ROWS[section], ids=lambda row: str(row)[:60])


def long(path: str) -> str:
    """The path with the short names written out."""
    first, _, rest = path.partition(".")
    return ".".join(filter(None, (SHORT.get(first, first), rest)))


def base(row: Mapping[str, Any]) -> Json:
    """The runtime of a row."""
    found = copy.deepcopy(SHIPPED[row.get("runtime", "torch-distributed")])
    for path, value in copy.deepcopy(row.get("change", {})).items():
        target: Any = found["spec"]
        *above, last = long(path).split(".")
        for name in above:
            target = target[int(name)] if isinstance(target, list) else target.setdefault(name, {})
        if isinstance(target, list):
            target[int(last) :] = [value]
        elif value is None:
            del target[last]
        else:
            target[last] = value
    return found


def train_job(row: Mapping[str, Any], spec: str = "job") -> Json:
    """The TrainJob of a row."""
    annotations = {f"{ANNOTATION}{name}": text for name, text in row.get("annotations", {}).items()}
    metadata = {"name": "a" * row.get("name", 1), "namespace": "default", "uid": "u", "annotations": annotations}
    whole = {"runtimeRef": {"name": "r"}, **copy.deepcopy(row.get(spec, {}))}
    return {"apiVersion": API_VERSION, "kind": "TrainJob", "metadata": metadata, "spec": whole}


def of(row: Mapping[str, Any]) -> Resolved:
    """What they come to, without errors."""
    found = resolve(train_job(row), base(row))
    assert isinstance(found, Resolved), found
    return found


@functools.cache
def schema(kind: str) -> CompiledSchema:
    definition = KINDS[kind].definition
    assert definition is not None
    return CompiledSchema(related_definition(KINDS[kind], definition)["spec"]["versions"][0])


def refused(kind: str, new: Json, old: Json | None = None) -> str:
    """What the API server says; "" for nothing. `replicas` is filled in before."""
    for job in new["spec"].get("template", {}).get("spec", {}).get("replicatedJobs", ()):
        job.setdefault("replicas", 1)
    return "; ".join(str(cause) for cause in schema(kind).validate(new, old))


@pytest.mark.parametrize("kind", KINDS)
def test_definitions_are_valid_and_fit_a_plain_apply(kind: str) -> None:
    definition = KINDS[kind].definition
    assert definition is not None
    crd = related_definition(KINDS[kind], definition)
    assert validate_crd(crd) == []
    assert len(to_json(crd)) < 262_144 - 12_000
    assert crd["spec"]["scope"] == ("Cluster" if kind.startswith("Cluster") else "Namespaced")


@rows("runtimes")
def test_a_runtime_on_which_lists_would_fail_is_refused(row: Json) -> None:
    found = refused("ClusterTrainingRuntime", base(row))
    assert row["says"] in found if "says" in row else not found


@rows("writes")
def test_what_may_be_written_and_changed(row: Json) -> None:
    counts = {"name": "node", "active": row.get("active", 0), "ready": 0, "succeeded": 0, "failed": 0, "suspended": 0}
    new, old = (train_job(row, part) | {"status": {"jobsStatus": [counts]}} for part in ("after", "before"))
    found = refused("TrainJob", new, old if "before" in row else None)
    assert row["says"] in found if "says" in row else not found


@pytest.mark.parametrize(("name", "says"), [("a" * 63, ""), ("a" * 64, "no more than 63"), ("1a", "RFC 1035")])
def test_names(name: str, says: str) -> None:
    job = train_job({})
    job["metadata"]["name"] = name
    found = refused("TrainJob", job)
    assert says in found if says else not found


def at(value: Any, path: list[str]) -> Any:
    """What is at the path; None for nothing."""
    if not path or value is None:
        return value
    if path[0] == "*":
        return [at(one, path[1:]) for one in value]
    return at(value[int(path[0])] if isinstance(value, list) else value.get(path[0]), path[1:])


@rows("comes_to")
def test_a_job_and_its_runtime_come_to(row: Json) -> None:
    given = train_job(row), base(row)
    before = copy.deepcopy(given)
    found = resolve(*given)
    assert isinstance(found, Resolved), found
    plain = msgspec.json.decode(msgspec.json.encode(asdict(found)))
    paths = {path: path.replace("NODE", "roles.0.template.spec.containers.0").split(".") for path in row["is"]}
    assert {key: at(plain, path) for key, path in paths.items()} == row["is"]
    assert given == before, "neither of the two may change"


@rows("wrong")
def test_what_is_wrong_names_its_field(row: Json) -> None:
    found = resolve(train_job(row), base(row))
    assert isinstance(found, tuple)
    path = long(row.get("path", "spec.runtimeRef")).replace("ANNOTATION[", f"metadata.annotations[{ANNOTATION}")
    assert [error.path for error in found] == [path]
    assert row["says"] in found[0].message


JUNK = [None, True, 0, -1, 2**40, 1.5, "", "x", [], {}, [None], [[]], {"a": None}, [{"name": []}], [{"name": 1}]]
WHOLE = train_job(
    {
        "annotations": {"backoffLimit": "2"},
        "job": {
            "trainer": {"env": [{"name": "A"}], "resourcesPerNode": {"limits": {"cpu": "1"}}, "command": ["a"]},
            "initializer": {"dataset": {"storageUri": "hf://a", "env": [{"name": "A"}], "secretRef": {"name": "s"}}},
            "runtimePatches": [ROWS["writes"][-1]["before"]["runtimePatches"][0]],
            "runPolicy": {"elastic": {"minReplicas": 1}},
        },
    }
)
EVERYTHING = base(
    {
        "change": {
            **ROWS["comes_to"][18]["change"],
            "mlPolicy.torch": {"envInjection": {"targets": [{"jobName": "node", "containerNames": ["node"]}]}},
            "podGroupPolicy": {"volcano": {"networkTopology": {"mode": "hard"}}},
            "template.spec.volumeClaimPolicies": [{"templates": [{"metadata": {"name": "data"}, "spec": {}}]}],
            "FAILURE": {"maxRestarts": 1, "rules": [{"action": "RestartJob", "targetReplicatedJobs": ["node"]}]},
            "template.spec.coordinator": {"replicatedJob": "node"},
        }
    }
)


@pytest.mark.parametrize(("kind", "manifest"), [("TrainJob", WHOLE), ("TrainingRuntime", EVERYTHING)])
def test_no_field_of_trainers_is_lost(kind: str, manifest: Json) -> None:
    definition = KINDS[kind].definition
    assert definition is not None
    spec = related_definition(KINDS[kind], definition)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert list(structural_errors(spec, manifest["spec"], "spec")) == []


def places(value: object, above: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """All places in JSON."""
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [above, *(path for key, one in below for path in places(one, (*above, key)))]


@pytest.mark.parametrize("which", [0, 1])
@settings(max_examples=300)
@given(data=st.data())
def test_whatever_stands_anywhere_nothing_raises(which: int, data: st.DataObject) -> None:
    pair = copy.deepcopy([WHOLE, EVERYTHING])
    for _ in range(data.draw(st.integers(1, 2))):
        *above, last = data.draw(st.sampled_from(places(pair[which])[1:]))
        target: Any = functools.reduce(lambda value, key: value[key], above, pair[which])
        target[last] = copy.deepcopy(data.draw(st.sampled_from(JUNK)))
    found = resolve(*pair)
    assert isinstance(found, Resolved) or (found and all(error.path and error.message for error in found))


def addresses(found: Resolved, members: int | None = None) -> dict[str, list[str]]:
    counts = {role.name: role.pods if members is None else members for role in found.roles}
    return {name: [f"{found.name}-{name}-0-{index}.{found.subdomain}" for index in range(n)] for name, n in counts.items()}


def variables(found: Resolved, role: str = "node", rank: int = 0, members: int | None = None) -> dict[str, str]:
    one = found.role(role)
    assert one is not None
    return {variable.name: variable.value for variable in environment(found, one, rank, addresses(found, members))}


@rows("variables")
def test_variables(row: Json) -> None:
    assert variables(of(row), row.get("role", "node"), row.get("rank", 0), row.get("members")) == row["is"]


def shaped(found: Resolved, role: Role, rank: int = 0) -> Json:
    pod = {"spec": copy.deepcopy(dict(role.template["spec"]))}
    spec: Json = shape_pod(found, role, rank, addresses(found), pod)["spec"]
    return spec


def test_the_keys_of_mpi_go_when_the_job_does_not_run() -> None:
    found = of({"runtime": "mpi-distributed"})
    assert [one.manifest for one in companions(found, addresses(found), running=False)] == [None]


def test_further_containers_have_the_variables_of_torch() -> None:
    pod = f"{JOBS}.0.template.spec.template.spec"
    change = {
        f"{pod}.initContainers": [{"name": "check", "env": [{"name": "PET_NNODES", "value": "9"}]}],
        "mlPolicy.torch": {"envInjection": {"targets": [{"jobName": "node", "containerNames": ["check"]}]}},
    }
    found = of({"job": {"trainer": {"numNodes": 2}}, "change": change})
    spec = shaped(found, found.roles[0], 1)
    *own, index = spec["initContainers"][0]["env"]
    assert {one["name"]: one["value"] for one in own} == variables(found, rank=1)
    assert [index] == spec["containers"][0]["env"]
    assert index["name"] == "JOB_COMPLETION_INDEX"
    assert spec["containers"][0]["ports"] == [{"containerPort": 29500}]


@pytest.mark.parametrize("runtime", [*shipped(), *local()], ids=lambda runtime: str(runtime["metadata"]["name"]))
def test_what_is_shipped_is_valid_and_runs(runtime: Json) -> None:
    assert not refused("ClusterTrainingRuntime", copy.deepcopy(runtime))
    assert isinstance(resolve(train_job({"job": {"trainer": {"numNodes": 2}}}), runtime), Resolved)


RUN: Json = {"numNodes": 2, "command": ["run"], "args": ["it"], "env": [{"name": "A", "value": "1"}]}


def test_the_pods_of_each_runtime_and_what_is_made_beside_them() -> None:
    """Of each role the last pod: the first in full, then what differs from it. They were compared with Trainer's own."""
    pods, others = dict[str, Json](), dict[str, Json]()
    for name, row in ({one: {"runtime": one, "job": {"trainer": RUN}} for one in SHIPPED} | ROWS["unshipped"]).items():
        framework, manifest = trainjob.TRAINJOB.specialized(
            train_job(row), {ObjectKey("clustertrainingruntimes", "", "r"): base(row)}
        )
        job = read_job(framework, manifest)
        assert job.errors == ()
        made = {f"{name}: {replica.type}": pod_manifest(framework, job, replica) for replica in job.replicas}
        pods |= {key: {"labels": pod["metadata"]["labels"], **pod_of(pod)} for key, pod in made.items()}
        created = [one for one in plan(framework, job, Observed(), START).actions if isinstance(one, Create)]
        assert f"{job.name}-runtime-snapshot" in [one.name for one in created]
        for one in created:
            if one.plural not in ("pods", "services") and not one.name.endswith("-snapshot"):
                others[f"{name}: {one.plural} {one.name}"] = object_of(one.manifest)
    first = next(iter(pods))
    shown = {first: pods[first]} | {one: differences(pod, pods[first]) for one, pod in pods.items() if one != first} | others
    plain = msgspec.json.decode(msgspec.json.encode(shown))
    text, path = yaml.safe_dump(plain, sort_keys=False, width=200), GOLDEN / "pods_trainjob.yaml"
    if os.environ.get("GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text(), "if this is meant: make golden"
