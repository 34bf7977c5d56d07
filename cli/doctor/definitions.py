"""Checks of the CustomResourceDefinitions: are they there, do they serve our versions, do they keep our fields."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jobcommon.cli.doctor.finding import Finding, Severity
from jobcommon.cli.doctor.operators import OwnOperator
from jobcommon.cli.doctor.state import ClusterState, Json
from jobcommon.controller.unstored import children, schema_of_entries
from jobcommon.crd import custom_resource_definition
from jobcommon.framework import Framework

PRESERVES = "x-kubernetes-preserve-unknown-fields"
_MOST_NAMED = 5
# What is below is the pod's, and follows the Kubernetes version that the definition was generated for.
_IN_TEMPLATE = re.compile(r"\.template\.")


def definition_name(framework: Framework) -> str:
    """The name of the definition of the framework's kind."""
    return f"{framework.plural}.{framework.group}"


def our_definitions(frameworks: Sequence[Framework]) -> Mapping[str, Json]:
    """Those of this version, by name."""
    return {definition_name(framework): custom_resource_definition(framework) for framework in frameworks}


def check_definitions(
    state: ClusterState, frameworks: Sequence[Framework], own: Sequence[OwnOperator], ours: Mapping[str, Json]
) -> Iterator[Finding]:
    """Of each framework's definition, compared with `ours`. One that no installed operator needs may be missing."""
    running = frozenset[str]().union(*(one.kinds for one in own))
    for framework in frameworks:
        name = definition_name(framework)
        found = state.definitions.get(name)
        if found is None:
            if name in state.definitions and (framework.kind in running if running else not state.is_embedded):
                yield _error(framework, "is not installed", f"the API server refuses every {framework.kind}")
        else:
            yield from _check(framework, found, ours[name])


def _check(framework: Framework, found: Json, ours: Json) -> Iterator[Finding]:
    wanted = {version["name"]: version for version in ours["spec"]["versions"]}
    spec = found.get("spec") or {}
    served = {str(one.get("name")): one for one in spec.get("versions") or () if one.get("served")}
    for name, version in wanted.items():
        if name not in served:
            more = ", and the operator reads this version" if version["storage"] else ""
            yield _error(framework, f"does not serve version {name}", f"jobs of {framework.group}/{name} are refused{more}")
        else:
            yield from _prunes(framework, name, version, served[name])


def _prunes(framework: Framework, name: str, wanted: Mapping[str, Any], served: Json) -> Iterator[Finding]:
    ours = wanted["schema"]["openAPIV3Schema"]
    theirs = (served.get("schema") or {}).get("openAPIV3Schema") or {}
    missing = {field for field in missing_fields(ours, theirs) if not _IN_TEMPLATE.search(field)}
    if status := {field for field in missing if field.startswith("status")}:
        why = "the operator is not ready, and does nothing that depends on what it cannot record"
        yield _error(framework, f"drops fields of the status in {name}: {_in_short(status)}", why)
    if spec := {field for field in missing if field.startswith("spec")}:
        why = "these fields of a manifest are dropped without an error, or refused by kubectl"
        yield replace(_error(framework, f"drops fields of {name}: {_in_short(spec)}", why), severity=Severity.WARNING)


def _in_short(fields: set[str]) -> str:
    more = f" and {len(fields) - _MOST_NAMED} more" if len(fields) > _MOST_NAMED else ""
    return ", ".join(sorted(fields)[:_MOST_NAMED]) + more


def _error(framework: Framework, what: str, why: str) -> Finding:
    """About the framework's definition. Ours fixes it."""
    fix = f"jobcommon crds --framework {framework.name} | kubectl apply --server-side --force-conflicts -f -"
    return Finding(Severity.ERROR, f"CustomResourceDefinition {definition_name(framework)}", what, why, fix)


def missing_fields(wanted: Mapping[str, Any], served: Mapping[str, Any]) -> frozenset[str]:
    """The names of those fields of the schema `wanted` that the schema `served` drops; of an object that it drops, no more."""
    return frozenset(_undeclared(wanted, served, ""))


def _undeclared(wanted: Mapping[str, Any], served: Mapping[str, Any], path: str) -> Iterator[str]:
    if served.get(PRESERVES):
        return
    declared = served.get("properties") or {}
    for name, below, child in children(wanted, path):
        if name in declared:
            yield from _undeclared(child, declared[name], below)
        else:
            yield below
    if (of_entries := schema_of_entries(wanted)) is not None:
        found = schema_of_entries(served)
        if found is not None:
            yield from _undeclared(of_entries, found, path)
        elif served.get("type") == "object" and not served.get("additionalProperties"):
            yield path
