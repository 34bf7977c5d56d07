"""CustomResourceDefinition objects: what is refused, defaulted and served."""

import copy
from typing import Any

import pytest

from localcluster.apiserver.crd import default_crd, established_status, validate_crd
from localcluster.apiserver.custom import resources_of
from localcluster.apiserver.resource import Resource

Json = dict[str, Any]


def version(name: str = "v1", **more: Any) -> Json:
    return {"name": name, "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}, **more}


def crd(*versions: Json, name: str = "jobs.example.com", **spec: Any) -> Json:
    found = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "jobs", "kind": "Job"},
        "versions": list(versions or (version(),)),
        **spec,
    }
    return {"metadata": {"name": name}, "spec": found}


REFUSED: dict[str, tuple[Json, str]] = {
    "no spec": ({"metadata": {"name": "x"}}, "spec: Required value"),
    "name": (crd(name="x"), 'metadata.name: Invalid value: "x": must be spec.names.plural+"."+spec.group'),
    "scope": (crd(scope="World"), 'spec.scope: Unsupported value: "World": supported values: "Cluster", "Namespaced"'),
    "group": (crd(group="example", name="jobs.example"), 'spec.group: Invalid value: "example": '),
    "no versions": (crd(versions=[]), "spec.versions: Invalid value: []: spec.versions in body should have at least 1 items"),
    "two storage versions": (crd(version(), version("v2")),
        'spec.versions: Invalid value: ["v1","v2"]: must have exactly one version marked as storage version'),
    "one name twice": (crd(version(), version(storage=False)),
        'spec.versions: Invalid value: ["v1","v1"]: must contain unique version names'),
    "no schema": (crd(version(schema={})), "spec.versions[0].schema.openAPIV3Schema: Required value"),
    "column": (crd(version(additionalPrinterColumns=[{"name": "A", "type": "text", "jsonPath": ".a"}])),
        'spec.versions[0].additionalPrinterColumns[0].type: Unsupported value: "text": '),
    "path": (crd(version(additionalPrinterColumns=[{"name": "A", "type": "string", "jsonPath": ".a["}])),
        'spec.versions[0].additionalPrinterColumns[0].jsonPath: Invalid value: ".a["'),
    "scale": (crd(version(subresources={"scale": {"specReplicasPath": ".a", "statusReplicasPath": ".status.n"}})),
        'spec.versions[0].subresources.scale.specReplicasPath: Invalid value: ".a"'),
    "plural": (crd(names={"plural": "Jobs", "kind": "Job"}, name="Jobs.example.com"),
        'spec.names.plural: Invalid value: "Jobs": spec.names.plural in body should match'),
    "unstructured": (crd(preserveUnknownFields=True), "spec.preserveUnknownFields: Invalid value: true"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    definition, expected = REFUSED[name]
    (cause,) = validate_crd(definition)
    assert str(cause).startswith(expected)


def test_scope_and_kind_cannot_change() -> None:
    changed = crd(scope="Cluster", names={"plural": "jobs", "kind": "Work"})
    assert [cause.field for cause in validate_crd(changed, crd())] == ["spec.scope", "spec.names.kind"]


def test_a_stored_version_must_stay() -> None:
    definition = {**crd(version("v2")), "status": {"storedVersions": ["v1", "v2"]}}
    (cause,) = validate_crd(definition)
    assert cause.field == "status.storedVersions[0]"


def test_defaults() -> None:
    definition = crd()
    default_crd(definition)
    once = copy.deepcopy(definition)
    default_crd(definition)
    assert definition == once
    assert definition["spec"]["names"] == {"plural": "jobs", "kind": "Job", "singular": "job", "listKind": "JobList"}
    assert definition["spec"]["conversion"] == {"strategy": "None"}
    assert definition["status"]["storedVersions"] == ["v1"]


def resources(*versions: Json) -> list[Resource]:
    definition = crd(*versions)
    default_crd(definition)
    return resources_of(definition)


def test_preferred_version_is_first_and_unserved_ones_are_absent() -> None:
    names = ["v1alpha1", "v1", "v1beta2", "v10", "foo", "v1beta1"]
    versions = [version(name, storage=name == "v1") for name in names] + [version("v3", served=False, storage=False)]
    assert [one.version for one in resources(*versions)] == ["v10", "v1", "v1beta2", "v1beta1", "v1alpha1", "foo"]


def test_status_keeps_its_times_and_stored_versions() -> None:
    definition = crd()
    definition["status"] = established_status(definition, "2026-01-01T00:00:00Z")
    later = copy.deepcopy(definition)
    later["spec"]["versions"] = [version("v1", storage=False), version("v2")]
    status = established_status(later, "2026-02-02T00:00:00Z")
    assert status["conditions"] == definition["status"]["conditions"]
    assert status["storedVersions"] == ["v1", "v2"]
