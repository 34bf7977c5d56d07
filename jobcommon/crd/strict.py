"""The API server's validation of a manifest before any rule: unknown fields, wrong types, values out of bounds.

As with `kubectl apply`, which asks for strict field validation. It needs nothing but the definition, so that it is the same on
every machine; the CEL rules of the definition are also checked by `jobcommon.spec.read_job`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jobcommon.crd.definition import schema
from jobcommon.framework import FieldError, Framework, Job
from jobcommon.spec import read_job
from jobcommon.spec.structure import structural_errors, without_nulls

Json = Mapping[str, Any]

_TEXTS: Json = {"type": "object", "additionalProperties": {"type": "string"}}
_OBJECTS: Json = {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
_OF_METADATA: Sequence[tuple[Json, str]] = (
    ({"type": "string"}, "name generateName namespace uid resourceVersion selfLink"),
    ({"type": "string", "nullable": True}, "creationTimestamp deletionTimestamp"),
    ({"type": "integer"}, "generation deletionGracePeriodSeconds"),
    ({**_TEXTS, "nullable": True}, "labels annotations"),
    (_OBJECTS, "ownerReferences managedFields"),
    ({"type": "array", "items": {"type": "string"}}, "finalizers"),
)
_METADATA: Json = {"type": "object", "properties": {name: node for node, names in _OF_METADATA for name in names.split()}}


def read_strictly(framework: Framework, manifest: Json, others: Iterable[Json] = ()) -> tuple[Job, list[FieldError]]:
    """The job as an API server would store it, and its errors: those that the operator would report, else `field_errors`.

    It may refer to `others`, and to objects that come with the operator.
    """
    version = str(manifest.get("apiVersion", "")).rpartition("/")[2]
    known = version in [one.name for one in framework.versions]
    # A key that has no value is dropped where the schema has it.
    stored = without_nulls(_whole(framework, version), manifest) if known else dict(manifest)
    job = read_job(*framework.specialized(stored, framework.related_to((*framework.shipped(), *others))))
    strict = field_errors(framework, manifest)
    # A misspelt field is also one that is missing: the first is the cause.
    misspelt = [error for error in strict if job.errors and "; did you mean" in error.message]
    return job, [*misspelt, *job.errors] or strict


def _whole(framework: Framework, version: str) -> Json:
    found = schema(framework, version)
    return {**found, "properties": {**found["properties"], "metadata": _METADATA}}


def field_errors(framework: Framework, manifest: Json) -> list[FieldError]:
    """The errors that an API server would find in the manifest of a job, in the order of its fields. The status is ignored:
    on creation the server drops it.
    """
    version = str(manifest.get("apiVersion", "")).rpartition("/")[2]
    served = [f"{framework.group}/{one.name}" for one in framework.versions]
    if version not in [one.name for one in framework.versions]:
        return [FieldError("apiVersion", f'"{manifest.get("apiVersion")}" has no {framework.kind}; use {" or ".join(served)}')]
    whole = _whole(framework, version)
    given = without_nulls(whole, {key: value for key, value in manifest.items() if key != "status"})
    return list(structural_errors(whole, given, ""))
