"""The CustomResourceDefinition of a framework's kind."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from jobcommon.api.job import RunPolicy
from jobcommon.api.model import bounded, model_schema
from jobcommon.api.status import JOB_CONDITIONS, JobStatus
from jobcommon.api.version import version_priority
from jobcommon.crd.pod_template import limited, with_parts
from jobcommon.crd.rules import common_rules, policy_rules
from jobcommon.crd.yaml_text import to_yaml
from jobcommon.framework import CelRule, Definition, Feature, Framework, RelatedKind, Version
from jobcommon.reconcile.features import features_of

Json = dict[str, Any]

#: `kubectl apply` keeps the whole manifest in an annotation, and all annotations together may have 262,144 bytes. The rest is
#: for fields to come, and for annotations of others.
SIZE_LIMIT = 250_000
_DESCRIPTION_LIMITS = (240, 200, 160, 120, 100, 80, 60, 40, 30, 20, 0)
_ESCAPED_BY_GO = {character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


def _column(name: str, kind: str, path: str, text: str = "", **priority: int) -> Json:
    return {"name": name, "type": kind, "jsonPath": path, **({"description": text} if text else {}), **priority}


_COLUMNS = (
    _column("State", "string", ".status.conditions[-1:].type", "The current condition."),
    _column("Age", "date", ".metadata.creationTimestamp"),
    _column("Reason", "string", ".status.conditions[-1:].reason", "Why the current condition holds.", priority=1),
    _column("Restarts", "integer", ".status.restarts", "Restarts, in place or by a new pod.", priority=1),
    _column("Progress", "string", ".status.progress.summary", "The program's last report, in words.", priority=1),
    _column("Lost Steps", "integer", ".status.timeSpent.lostSteps", "Steps that were repeated.", priority=1),
)


def custom_resource_definition(framework: Framework) -> Json:
    """The CRD of the framework's kind: every version it serves, small enough for a plain ``kubectl apply``.

    The same framework gives the same bytes. Descriptions are in the version that `kubectl explain` takes; those of the pod
    template as long as there is room. Raises ValueError when the CRD is too large even without them, or when a rule or a
    default is for a field that is not there.
    """
    if (given := framework.definition) is not None:
        kind = RelatedKind(framework.api_version, framework.kind, framework.plural, definition=given)
        return related_definition(kind, given, features_of(framework))
    preferred = min(framework.versions, key=lambda version: version_priority(version.name))
    bare = {version.name: _version(framework, version, None) for version in framework.versions if version is not preferred}
    for limit in _DESCRIPTION_LIMITS:
        versions = {preferred.name: _version(framework, preferred, limit), **bare}
        served = [versions[version.name] for version in framework.versions]
        found = _crd(framework.group, framework.kind, framework.plural, served)
        if len(to_json(found)) < SIZE_LIMIT:
            return found
    raise ValueError(f"the CRD of {framework.kind} has more than {SIZE_LIMIT} bytes; serve fewer versions")


def definitions(framework: Framework) -> list[Json]:
    """The CRDs of the framework's kind and of the kinds that its jobs are read with."""
    related = (related_definition(kind, kind.definition) for kind in framework.related if kind.definition is not None)
    return [custom_resource_definition(framework), *related]


def related_definition(kind: RelatedKind, given: Definition, features: Iterable[type[Feature]] = ()) -> Json:
    """The CRD of a kind with a schema of its own. Raises as `custom_resource_definition` does."""
    group, _, version = kind.api_version.partition("/")
    for limit in _DESCRIPTION_LIMITS:
        found: Json = {
            "name": version,
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": _own_schema(given, limit, features)},
        }
        if "status" in given.document():
            found |= {"subresources": {"status": {}}, "additionalPrinterColumns": list(_COLUMNS)}
        crd = _crd(group, kind.kind, kind.plural, [found], namespaced=kind.namespaced)
        if len(to_json(crd)) < SIZE_LIMIT:
            return crd
    raise ValueError(f"the CRD of {kind.kind} has more than {SIZE_LIMIT} bytes; its schema is too large")


def _own_schema(given: Definition, limit: int, features: Iterable[type[Feature]] = ()) -> Json:
    document = given.document()
    fields = dict(document["spec"]["properties"])
    policy = fields.get("runPolicy")
    if policy is not None:
        fields["runPolicy"] = {**model_schema(RunPolicy), **policy}
    spec = with_parts(bounded({**document["spec"], "properties": fields}), limit)
    status = _with_features(features, spec)
    found = _object(document["about"], spec, _own_status(status, document["status"]) if "status" in document else None)
    if "rules" in document:
        found["x-kubernetes-validations"] = [*document["rules"]]
    for rule in policy_rules() if policy is not None else ():
        _attach(found, rule)
    return found


def _with_features(features: Iterable[type[Feature]], spec: Json) -> Json:
    """The common status, and in it and in the run policy of the `spec` the fields of features that have models of their own."""
    found = model_schema(JobStatus)
    recorded: Json = {one.name: model_schema(one.status) for one in features if one.status is not None}
    if recorded:
        found["properties"]["features"]["properties"] = recorded
        del found["properties"]["features"]["additionalProperties"]
    else:
        del found["properties"]["features"]
    asked = {one.name: bounded(model_schema(one.spec)) for one in features if one.spec is not None}
    if asked and "runPolicy" in spec["properties"]:
        spec["properties"]["runPolicy"]["properties"] |= asked
    return found


def _own_status(ours: Json, own: Mapping[str, Any]) -> Json:
    fields = {JOB_CONDITIONS if name == "conditions" else name: node for name, node in ours["properties"].items()}
    return {**ours, "properties": {**fields, **own["properties"]}}


def to_json(crd: Json) -> bytes:
    """The compact, canonical JSON of a CRD, as Go writes it into an annotation."""
    text = json.dumps(crd, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    # Not by `translate`, which takes thirty times as long where there is other text than ASCII.
    for character, escaped in _ESCAPED_BY_GO.items():
        text = text.replace(character, escaped)
    return text.encode()


def schema(framework: Framework, version: str) -> Json:
    """The schema of one version of the kind, without descriptions of the pod template."""
    if framework.definition is not None:
        return _own_schema(framework.definition, 0, features_of(framework))
    found = next(one for one in framework.versions if one.name == version)
    return _schema(framework, found, 0)


def crd_files(frameworks: Iterable[Framework]) -> dict[str, str]:
    """The committed CRDs: file name -> text in YAML, one field a line; one file a kind."""
    found = (crd for framework in frameworks for crd in definitions(framework))
    return {f"{crd['spec']['group']}_{crd['spec']['names']['plural']}.yaml": to_yaml(crd) for crd in found}


def _crd(group: str, kind: str, plural: str, versions: list[Json], *, namespaced: bool = True) -> Json:
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "names": names, "scope": "Namespaced" if namespaced else "Cluster", "versions": versions},
    }


def _object(about: str, spec: Json, status: Json | None) -> Json:
    properties: Json = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
        "spec": spec,
    }
    if status is not None:
        properties["status"] = status
    return {"type": "object", "description": about, "required": ["spec"], "properties": properties}


def _version(framework: Framework, version: Version, limit: int | None) -> Json:
    """One version; with a `limit` of None without descriptions."""
    schema = _schema(framework, version, limit or 0)
    columns = [*_COLUMNS, *_count_column(framework)]
    subresources: Json = {"status": {}}
    if framework.scale is not None:
        subresources["scale"] = {
            "specReplicasPath": framework.scale.spec,
            "statusReplicasPath": framework.scale.status,
            "labelSelectorPath": framework.scale.selector,
        }
    return {
        "name": version.name,
        "served": True,
        "storage": version.storage,
        "schema": {"openAPIV3Schema": limited(schema, 0) if limit is None else schema},
        "subresources": subresources,
        "additionalPrinterColumns": columns if limit is not None else [limited(column, 0) for column in columns],
    }


def _count_column(framework: Framework) -> list[Json]:
    """With `-o wide`, the size of the present attempt of a job with restartScope Job."""
    if not (kind := framework.scaled_type):
        return []
    text = f"The number of {kind}s in the current attempt, with restartScope Job."
    return [_column(f"{kind}s", "integer", f".status.attemptReplicas.{kind}", text, priority=1)]


def _schema(framework: Framework, version: Version, limit: int) -> Json:
    spec = with_parts(bounded(model_schema(framework.spec)), limit)
    spec["properties"][framework.replica_specs] = _replica_specs(framework, limit)
    status = _with_features(features_of(framework), spec)
    for name, value in version.defaults.items():
        if name not in spec["properties"]:
            raise ValueError(f"version {version.name} has a default for spec.{name}, which the schema does not have")
        spec["properties"][name]["default"] = value
    spec["required"] = sorted({*spec.get("required", ()), framework.replica_specs})
    about = f"{framework.kind}: a training job that the {framework.name} operator runs."
    schema = _object(about, spec, status)
    for rule in common_rules(framework):
        _attach(schema, rule)
    return schema


def _replica_specs(framework: Framework, limit: int) -> Json:
    replica = with_parts(model_schema(framework.replica_spec), limit)
    if all(kind.replicas == 1 for kind in framework.replica_types):
        # Those who read jobs beside us take a missing number for none: KAI's pod grouper refuses such a job.
        replica["properties"]["replicas"]["default"] = 1
    names = [kind.name for kind in framework.replica_types]
    return {
        "type": "object",
        "description": f"The replicas by type: {', '.join(names)}.",
        "minProperties": 1,
        "maxProperties": len(names),
        "additionalProperties": replica,
    }


def _attach(schema: Json, rule: CelRule) -> None:
    node = schema
    for name in rule.path:
        found = node.get("additionalProperties", node.get("items")) if name == "*" else node.get("properties", {}).get(name)
        if not isinstance(found, dict):
            raise ValueError(f"the rule {rule.rule!r} is for {'.'.join(rule.path)}, which the schema does not have")
        node = found
    entry: Json = {"rule": rule.rule, "message": rule.message}
    if rule.field_path is not None:
        entry["fieldPath"] = rule.field_path
    if rule.optional_old:
        entry["optionalOldSelf"] = True
    node["x-kubernetes-validations"] = [*node.get("x-kubernetes-validations", ()), entry]
