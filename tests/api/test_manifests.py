"""One corpus of manifests: the embedded API server with the definitions, `plan`, the checks of `run`, and the operator's
reading of what is stored agree on each, whatever the kind and version; and a refusal names the field and says what is wrong.

Each row changes a good manifest at one place. What the reference takes is taken, or docs/deviations.md says why not. What the
schema and its rules cannot see (two containers of one name) is found by `jobcommon.spec.validation` or by the API server
when the pod is created; see test_poison.
"""

import json
import os
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from jobcommon.cli.errors import UserError
from jobcommon.cli.manifests import load
from jobcommon.cli.plan import describe
from jobcommon.cli.wanted import Wanted
from jobcommon.client.request import Request
from jobcommon.crd import custom_resource_definition, field_errors
from jobcommon.framework import Framework
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.spec import read_job
from jobcommon.testutil.builders import job_manifest
from localcluster import ApiServer, Env
from localcluster.client import ADMIN
from localcluster.rules import CompiledSchema
from tests.kinds import KINDS

GOLDEN = Path(__file__).parents[1] / "golden" / "errors_of_kinds.txt"
# What is the same for all kinds is tried on one of each form: one version, two, three with defaults of their own.
FORMS = (PYTORCH, MXNET, MPI)
FIRST = {
    "XGBoostJob": "Master", "PyTorchJob": "Master", "PaddleJob": "Master", "MPIJob": "Launcher", "TFJob": "Chief",
    "MXJob": "Scheduler",
}  # fmt: skip
ABSENT = object()
W = "spec.{specs}.Worker"
CS = f"{W}.template.spec.containers"
C = f"{CS}.0"
P = "spec.runPolicy"


class Loader(yaml.SafeLoader):
    """With a mark for what is not there."""


Loader.add_constructor("!absent", lambda _loader, _node: ABSENT)
TABLES = yaml.load((Path(__file__).parent / "manifests.yaml").read_text(encoding="utf-8"), Loader)
OF_NAME = {kind.kind: kind for kind in KINDS}


def table(name: str) -> list[list[Any]]:
    """The rows of a table of manifests.yaml, with the paths written out."""
    places = (("$CS", CS), ("$C", C), ("$W", W), ("$P", P), ("$S", "spec.{specs}"))

    def long(part: Any) -> Any:
        for short, path in places if isinstance(part, str) else ():
            part = part.replace(short, path)
        return part

    return [[long(part) for part in row] for row in TABLES[name]]


EVERY, OF_KIND = table("every"), table("of_kind")
TOGETHER = {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 2}, "runPolicy": {"restartScope": "Job"}}
# All versions of a kind have the same replica specs.
ROWS = [
    (kind, version.name, *row)
    for kind in FORMS
    for version in kind.versions
    for row in EVERY
    if version.storage or not row[0].startswith(W)
]
ROWS += [(OF_NAME[kind], OF_NAME[kind].storage_version, *row) for kind, *row in OF_KIND]


@pytest.fixture(scope="module")
def server() -> ApiServer:
    server = ApiServer(Env.system())
    for kind in KINDS:
        body = msgspec.json.encode(custom_resource_definition(kind))
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        assert server.handle(Request("POST", path, body=body), user=ADMIN).status == 201
    return server


def good(kind: Framework, version: str = "") -> dict[str, Any]:
    """One replica of the first type and two workers, but for the kinds of a single leading type."""
    container = {"name": kind.container or "main", "image": "x"}
    replica = {"replicas": 2, "template": {"spec": {"containers": [container]}}}
    first = FIRST.get(kind.kind)
    return {
        "apiVersion": f"{kind.group}/{version or kind.storage_version}",
        "kind": kind.kind,
        "metadata": {"name": "a"},
        "spec": {
            **({"jobMode": "MXTrain"} if kind is MXNET else {}),
            kind.replica_specs: {**({first: {**replica, "replicas": 1}} if first else {}), "Worker": replica},
        },
    }


def changed(kind: Framework, version: str, path: str, value: Any) -> dict[str, Any]:
    manifest = deepcopy(good(kind, version))
    if value is not ABSENT:
        value = json.loads(json.dumps(value).replace('"MAIN"', f'"{kind.container or "main"}"'))
    put(manifest, path.format(specs=kind.replica_specs), value)
    return manifest


def put(manifest: dict[str, Any], path: str, value: Any) -> None:
    """Set what stands at a dotted path, or take it out."""
    node: Any = manifest
    *above, last = path.split(".")
    for part in above:
        node = node[int(part)] if isinstance(node, list) else node.setdefault(part, {})
    if value is ABSENT:
        del node[last]
    else:
        node[last] = deepcopy(value)


def sent(server: ApiServer, kind: Framework, manifest: dict[str, Any]) -> tuple[int, Any]:
    """What `kubectl create --dry-run=server` gets for it."""
    body = {**manifest, "metadata": {k: v for k, v in (manifest["metadata"] or {}).items() if k != "resourceVersion"}}
    path = f"/apis/{body['apiVersion']}/namespaces/default/{kind.plural}"
    request = Request("POST", path, (("dryRun", "All"), ("fieldValidation", "Strict")), msgspec.json.encode(body))
    answer = server.handle(request, user=ADMIN)
    return answer.status, msgspec.json.decode(answer.body)


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("kind", "version", "path", "value", "refused"),
    ROWS,
    ids=[f"{row[0].kind}-{row[1]}-{row[2]}-{number}" for number, row in enumerate(ROWS)],
)
def test_a_manifest_is_taken_everywhere_or_nowhere(
    server: ApiServer, tmp_path: Path, kind: Framework, version: str, path: str, value: Any, refused: str
) -> None:
    manifest = changed(kind, version, path, value)
    code, answer = sent(server, kind, manifest)
    (file := tmp_path / "job.json").write_text(json.dumps(manifest))

    def refusal(check: Any) -> str | None:
        try:
            check(load([str(file)]))
        except UserError as error:
            return str(error)
        return None

    planned = refusal(lambda found: describe(found, with_manifests=False))
    run = refusal(lambda found: Wanted.of(found, "default"))
    assert (code < 300, planned is None, run is None) == (not refused,) * 3, (answer, planned, run)
    if refused:
        assert refused.format(specs=kind.replica_specs) in answer["message"]
    else:
        assert read_job(kind, answer).errors == ()


def test_the_operator_names_the_field_and_says_what_to_change() -> None:
    """Of what an older definition has let in."""
    lines = []
    for name, path, value, refused in [*(("PyTorchJob", *row) for row in EVERY), *OF_KIND]:
        if refused:
            kind = OF_NAME[name]
            shown = "absent" if value is ABSENT else str(value)[:80]
            lines.append(f"{kind.kind} {path.format(specs=kind.replica_specs)} {shown}\n")
            lines += [f"    {error}\n" for error in read_job(kind, changed(kind, "", path, value)).errors]
    text = "".join(lines)
    if os.environ.get("GOLDEN") == "write":
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8"), "if this is meant: make golden"


@pytest.mark.parametrize(("policy", "field", "remedy"), table("run_policies"))
def test_a_run_policy_that_contradicts_itself_is_refused(
    server: ApiServer, policy: dict[str, Any], field: str, remedy: str
) -> None:
    """By the definition, and by the operator where an older definition has let it in."""
    manifest = changed(PYTORCH, "", P, policy)
    code, answer = sent(server, PYTORCH, manifest)
    assert code == 422
    assert f"{P}.{field}: Invalid value" in answer["message"]
    assert remedy in answer["message"]
    (error,) = read_job(PYTORCH, manifest).errors
    assert error.path == f"{P}.{field}"
    assert remedy in error.message


def test_a_job_whose_workers_torchrun_restarts_is_not_restarted_as_a_whole(server: ApiServer) -> None:
    manifest = good(PYTORCH)
    manifest["spec"] |= TOGETHER
    code, answer = sent(server, PYTORCH, manifest)
    assert (code, "set restartScope to Pod, or remove elasticPolicy" in answer["message"]) == (422, True)
    assert [error.path for error in read_job(PYTORCH, manifest).errors] == [f"{P}.restartScope"]


@pytest.mark.parametrize(
    ("manager", "refused"),
    [
        ("kueue.x-k8s.io/multikueue", ""),
        ("me", "managedBy must be one of 'kubeflow.org/training-operator', 'kueue.x-k8s.io/multikueue'"),
    ],
)
@pytest.mark.parametrize("kind", FORMS, ids=lambda kind: kind.kind)
def test_a_job_that_another_runs_is_stored(server: ApiServer, kind: Framework, manager: str, refused: str) -> None:
    code, answer = sent(server, kind, changed(kind, "", f"{P}.managedBy", manager))
    assert (code, refused in answer.get("message", "")) == (422 if refused else 201, True)


OPERATOR, MULTIKUEUE = "kubeflow.org/training-operator", "kueue.x-k8s.io/multikueue"
#: a field, what it is, what it cannot become, and the reason; of the transport the keys or rights would be left behind
#: Without a reason it can, as in mpi-operator.
IMMUTABLE: list[tuple[Framework, str, object, str, str]] = [
    *(
        (kind, path, old, new, text)
        for kind in FORMS
        for path, old, new, text in (
            (f"{P}.managedBy", MULTIKUEUE, OPERATOR, "managedBy cannot be changed"),
            (f"{P}.managedBy", ABSENT, MULTIKUEUE, "managedBy cannot be changed"),
            (f"{P}.schedulingPolicy.queue", "one", "test", "" if kind is MPI else f"{P}.schedulingPolicy.queue is immutable"),
        )
    ),
    (MPI, "spec.transport", "SSH", "Exec", "transport cannot be changed"),
    (MPI, "spec.transport", "Exec", "SSH", "transport cannot be changed"),
    (MPI, "spec.transport", ABSENT, "Exec", "transport cannot be changed"),
]


@pytest.mark.parametrize(("kind", "path", "old", "new", "text"), IMMUTABLE)
def test_immutable_fields_cannot_be_changed(
    server: ApiServer, request: pytest.FixtureRequest, kind: Framework, path: str, old: object, new: str, text: str
) -> None:
    before, name = good(kind), f"job-{abs(hash(request.node.name))}"
    before["metadata"]["name"] = name
    if old is not ABSENT:
        put(before, path, old)
    collection = f"/apis/{kind.api_version}/namespaces/default/{kind.plural}"
    created = server.handle(Request("POST", collection, body=msgspec.json.encode(before)), user=ADMIN)
    after = msgspec.json.decode(created.body)
    put(after, path, new)
    refused = server.handle(Request("PUT", f"{collection}/{name}", body=msgspec.json.encode(after)), user=ADMIN)
    assert refused.status == (422 if text else 200)
    assert text in msgspec.json.decode(refused.body).get("message", "")


# -- What `jobcommon plan` refuses beyond what the operator would: as an API server with strict field validation does

TOO_MANY = ("template.spec.containers", [{"name": "pytorch", "image": "x"}] * 101, "containers: must have at most 100 entries")


@pytest.mark.parametrize(("path", "value", "says"), [*table("strict"), TOO_MANY])
def test_fields_that_an_api_server_refuses_are_errors(path: str, value: Any, says: str) -> None:
    manifest = changed(PYTORCH, "", f"{W}.{path}", value)
    found = [str(error) for error in field_errors(PYTORCH, manifest)]
    assert any(says.replace("$REPLICAS", "spec.pytorchReplicaSpecs[Worker]") in error for error in found), found
    compiled = CompiledSchema(custom_resource_definition(PYTORCH)["spec"]["versions"][0])
    pruned = deepcopy(manifest)
    assert compiled.prune(pruned) or compiled.validate(pruned), "the embedded server takes it"


def test_the_rest_of_an_object() -> None:
    manifest = job_manifest(MPI, {"Launcher": 1, "Worker": 1})
    assert field_errors(MPI, manifest) == []
    for version in ("v1", "v1alpha2"):
        assert field_errors(MPI, {**manifest, "apiVersion": f"kubeflow.org/{version}"}) == []
    (error,) = field_errors(MPI, {**manifest, "apiVersion": "kubeflow.org/v2"})
    assert str(error) == (
        'apiVersion: "kubeflow.org/v2" has no MPIJob; use kubeflow.org/v2beta1 or kubeflow.org/v1 or kubeflow.org/v1alpha2'
    )
    odd = {**manifest, "specs": {}, "metadata": {**manifest["metadata"], "label": {}, "labels": {"a": 1}}, "status": {"x": 1}}
    assert sorted(str(error) for error in field_errors(MPI, odd)) == [
        'metadata.label: unknown field; did you mean "labels"?',
        "metadata.labels[a]: must be text, in quotes",
        'specs: unknown field; did you mean "spec"?',
    ]
