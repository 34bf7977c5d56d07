"""Edits of a job's spec, made from the schema of its CRD: for every leaf of ours, values that fit and values that do not."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from jobcommon.framework import Framework
from jobcommon.testutil.sim.user import definition_of

Obj = dict[str, Any]
Path = tuple[str, ...]
REMOVED = None
"""The value of an edit that takes the field away."""

_TEXTS: Mapping[str, tuple[str, ...]] = {
    "managedBy": ("kubeflow.org/training-operator", "kueue.x-k8s.io/multikueue", "nobody"),
    "nprocPerNode": ("2", "auto", "zero"),
    "sshAuthMountPath": ("/home/me/.ssh", "relative"),
    "mpiDistribution": ("IntelMPI", "MPICH", "other"),
}
_OTHER_TEXTS = ("one", "two", "")
_METRIC = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
_BAD: tuple[Any, ...] = ("nonsense", -1, 10**9, [], {})
#: Small numbers: a job is to be small, and a deadline either past or far away.
_NUMBERS = (2, 3, 100_000)


@dataclass(frozen=True)
class Edit:
    """One field of the spec set to another value, or removed; `leaf` is its place in the schema."""

    leaf: str
    path: Path
    value: Any

    def apply(self, spec: Obj) -> Obj:
        """The spec after it; the given one is not touched."""
        changed = deepcopy(spec)
        at = changed
        for key in self.path[:-1]:
            inner = at.get(key)
            if not isinstance(inner, dict):
                if self.value is REMOVED:
                    return changed
                inner = at[key] = {}
            at = inner
        if self.value is REMOVED:
            at.pop(self.path[-1], None)
        else:
            at[self.path[-1]] = deepcopy(self.value)
        return changed

    def bad(self, number: int) -> "Edit":
        """The same field with a value that only an API server without its schema lets in."""
        return replace(self, value=_BAD[number % len(_BAD)])

    def __str__(self) -> str:
        what = "removed" if self.value is REMOVED else repr(self.value)[:60]
        return f"{'.'.join(self.path)} {what}"


def leaves(framework: Framework) -> list[str]:
    """The leaves of the stored version's spec that are ours; the pod template is Kubernetes' and counts as one."""
    found = dict.fromkeys(edit.leaf for edit in edits(framework, {framework.replica_specs: {"Worker": {}}}))
    return list(found)


def edits(framework: Framework, spec: Obj) -> list[Edit]:
    """Every edit of every leaf, for a job with the replica types that `spec` has."""
    definition = definition_of(framework)
    version = next(one for one in definition["spec"]["versions"] if one["storage"])
    schema = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    kinds = tuple(spec.get(framework.replica_specs) or ())
    return list(_of(schema, "spec", (), kinds))


def _of(schema: Obj, leaf: str, path: Path, kinds: Path) -> Iterator[Edit]:
    if leaf.endswith(".template"):
        yield from (Edit(leaf, (*path, "spec", "containers"), value) for value in _containers())
        yield Edit(leaf, (*path, "metadata", "labels"), {"team": "blue", "training.kubeflow.org/replica-index": "7"})
        yield Edit(leaf, (*path, "metadata", "annotations"), {"note": "changed"})
    elif schema.get("properties"):
        for name, inner in schema["properties"].items():
            yield from _of(inner, f"{leaf}.{name}", (*path, name), kinds)
        if len(path) == 1:
            yield from (Edit(f"{leaf}.{name}", path, REMOVED) for name in schema["properties"])
    elif isinstance(schema.get("additionalProperties"), dict):
        of_replicas = leaf.endswith("ReplicaSpecs")
        for key in kinds if of_replicas else ("cpu",):
            yield from _of(schema["additionalProperties"], leaf + ".{}", (*path, key), kinds)
            if of_replicas:
                yield Edit(leaf + ".{}.replicas", (*path, key), REMOVED)
    elif schema.get("type") == "array":
        yield from (Edit(name, path, value) for name, value in _lists(schema["items"], leaf))
        yield from (Edit(name, path, REMOVED) for name, _ in list(_lists(schema["items"], leaf))[:1])
    else:
        name = path[-1]
        yield from (Edit(leaf, path, value) for value in _values(schema, name))
        yield Edit(leaf, path, REMOVED)


def _containers() -> Iterator[Any]:
    """Containers for any framework: the main one goes by each of the names that one of them asks for."""
    names = ("tensorflow", "pytorch", "mxnet", "main")
    for name in names:
        yield [{"name": name, "image": "other", "command": ["run"], "env": [{"name": "SEED", "value": "7"}]}]
    yield [{"name": name, "image": "image", "resources": {"requests": {"cpu": "1"}}} for name in names]
    yield []


def _lists(items: Obj, leaf: str) -> Iterator[tuple[str, list[Any]]]:
    """Lists with one entry, for each value of each field of the entry."""
    properties = items.get("properties")
    if not properties:
        yield leaf, [_METRIC]
        return
    samples = {name: _sample(name, inner) for name, inner in properties.items()}
    for name, inner in properties.items():
        values = [[0], [1], [9]] if inner.get("type") == "array" else [samples[name]]
        values += list(_values(inner, name)) if inner.get("type") == "string" else []
        for value in values:
            yield f"{leaf}[].{name}", [{**samples, name: value}]


def _sample(name: str, schema: Obj) -> Any:
    if name == "template":
        return {"metadata": {"annotations": {"note": "override"}}}
    return [0] if schema.get("type") == "array" else "one"


def _values(schema: Obj, name: str) -> Iterator[Any]:
    if "enum" in schema:
        yield from schema["enum"]
        yield "Nonsense"
    elif schema.get("x-kubernetes-int-or-string"):
        yield from ("1", "500m", "junk")
    elif schema.get("type") == "boolean":
        yield from (True, False)
    elif schema.get("type") == "integer":
        low = schema.get("minimum", 0)
        yield from (low, *_NUMBERS[: 2 if name in ("replicas", "minReplicas", "maxReplicas", "minAvailable") else 3], low - 1)
    else:
        yield from _TEXTS.get(name, _OTHER_TEXTS)
