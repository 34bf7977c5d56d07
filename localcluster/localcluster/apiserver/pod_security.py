"""The admission of pods by the Pod Security level of their namespace, as its labels ask for it.

``pod-security.kubernetes.io/enforce`` refuses pods, ``warn`` (by default as strict as enforce) adds warnings, also to the
objects that pods are made from. Each has a ``-version``: the rules of a release. Rules older than those of 1.29 are not
kept; such a version gets the rules of 1.29. Nothing is audited. Source:
https://kubernetes.io/docs/concepts/security/pod-security-admission/.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from localcluster.apiserver.call import Call
from localcluster.apiserver.errors import Cause, forbidden_error, invalid, invalid_object
from localcluster.apiserver.pod_security_checks import BASELINE, RESTRICTED, Check, Violation

Obj = dict[str, Any]

_PREFIX = "pod-security.kubernetes.io/"
_LEVELS: Mapping[str, Sequence[Check]] = {"privileged": (), "baseline": BASELINE, "restricted": RESTRICTED}
_STRICTNESS = list(_LEVELS)
_MODES = ("enforce", "audit", "warn")
_LATEST = "latest"
_VERSION = re.compile(r"v1\.(0|[1-9][0-9]{0,3})")
_OLDEST_MINOR, _NEWEST_MINOR = 29, 36
_TEMPLATES = {("apps", name) for name in ("deployments", "replicasets", "statefulsets", "daemonsets")} | {("batch", "jobs")}
#: As the real server: at most this many pods are checked when the level of a namespace rises.
_PODS_TO_CHECK = 3000


@dataclass(frozen=True, slots=True)
class Level:
    """How strict, by the rules of which release."""

    name: str = "privileged"
    version: str = _LATEST

    def __str__(self) -> str:
        return f"{self.name}:{self.version}"

    @property
    def strictness(self) -> int:
        """Greater is stricter."""
        return _STRICTNESS.index(self.name)

    def violations(self, meta: Obj, spec: Obj) -> list[Violation]:
        """The rules that a pod of this metadata and spec breaks."""
        minor = _NEWEST_MINOR if self.version == _LATEST else int(self.version.removeprefix("v1."))
        minor = min(max(minor, _OLDEST_MINOR), _NEWEST_MINOR)
        found = (check(meta, spec, minor) for check in _LEVELS[self.name])
        return [violation for violation in found if violation is not None]


def _level(labels: Mapping[str, str], mode: str) -> Level:
    """The level in the labels for a mode. An invalid one counts as restricted for enforce, and as none for the other modes."""
    name = labels.get(_PREFIX + mode, "privileged")
    if name not in _LEVELS:
        name = "restricted" if mode == "enforce" else "privileged"
    version = labels.get(f"{_PREFIX}{mode}-version", _LATEST)
    return Level(name, version if _VERSION.fullmatch(version) else _LATEST)


def _warned(labels: Mapping[str, str], enforced: Level) -> Level:
    level = _level(labels, "warn")
    explicit = f"{_PREFIX}warn" in labels or labels.get(f"{_PREFIX}enforce") not in _LEVELS
    if explicit or enforced.strictness <= level.strictness:
        return level
    return Level(enforced.name, level.version if f"{_PREFIX}warn-version" in labels else enforced.version)


def check(call: Call, new: Obj, old: Obj | None) -> None:
    """Raise a 403 ApiError for a pod that its namespace does not admit, a 422 for a namespace with invalid levels.

    Adds warnings to the call.
    """
    resource = call.resource
    if call.info.subresource:
        return
    if resource.gvk == ("", "v1", "Namespace"):
        _check_namespace(call, new, old)
        return
    is_pod = resource.gvk == ("", "v1", "Pod")
    if not is_pod and (resource.group, resource.plural) not in _TEMPLATES:
        return
    labels = _labels_of(call)
    if not labels:
        return
    if is_pod:
        _check_pod(call, labels, new, old)
    else:
        template = new.get("spec", {}).get("template") or {}
        _warn(call, _warned(labels, _level(labels, "enforce")), template.get("metadata") or {}, template.get("spec") or {})


def _labels_of(call: Call) -> Mapping[str, str]:
    namespace = call.storage.table("namespaces").get("", call.namespace)
    labels = {} if namespace is None else namespace.obj["metadata"].get("labels") or {}
    return {key: value for key, value in labels.items() if key.startswith(_PREFIX)}


def _check_pod(call: Call, labels: Mapping[str, str], new: Obj, old: Obj | None) -> None:
    if old is not None and list(_images(new)) == list(_images(old)):
        # No other field that the levels check can change.
        return
    level = _level(labels, "enforce")
    found = level.violations(new["metadata"], new["spec"])
    if found:
        why = f'violates PodSecurity "{level}": {_listed(found)}'
        raise forbidden_error("pods", "", new["metadata"]["name"], why)
    _warn(call, _warned(labels, level), new["metadata"], new["spec"])


def _warn(call: Call, level: Level, meta: Obj, spec: Obj) -> None:
    found = level.violations(meta, spec)
    if found:
        call.warnings.append(f'would violate PodSecurity "{level}": {_listed(found)}')


def _listed(violations: Sequence[Violation]) -> str:
    return ", ".join(str(violation) for violation in violations)


def _images(pod: Obj) -> Iterator[tuple[str, str]]:
    for part in ("containers", "initContainers", "ephemeralContainers"):
        for container in pod["spec"].get(part) or ():
            yield part, container.get("image", "")


def _check_namespace(call: Call, new: Obj, old: Obj | None) -> None:
    labels = new["metadata"].get("labels") or {}
    before = {} if old is None else old["metadata"].get("labels") or {}
    causes = _wrong_labels(labels)
    if causes and causes != _wrong_labels(before):
        raise invalid_object("Namespace", "", new["metadata"]["name"], causes)
    level, was = _level(labels, "enforce"), _level(before, "enforce")
    if old is not None and level != was and (level.version != was.version or level.strictness > was.strictness):
        call.warnings += _existing(call, new["metadata"]["name"], level)


def _wrong_labels(labels: Mapping[str, str]) -> list[Cause]:
    causes = []
    for mode in _MODES:
        key = _PREFIX + mode
        if labels.get(key, "privileged") not in _LEVELS:
            detail = f"must be one of {', '.join(_LEVELS)}"
            causes.append(invalid(f"metadata.labels[{key}]", labels[key], detail))
        version = labels.get(f"{key}-version", _LATEST)
        if version != _LATEST and not _VERSION.fullmatch(version):
            causes.append(invalid(f"metadata.labels[{key}-version]", version, 'must be "latest" or "v1.x"'))
    return causes


def _existing(call: Call, namespace: str, level: Level) -> list[str]:
    """Warnings about existing pods that would not be admitted any more."""
    names: dict[str, list[str]] = {}
    pods = list(call.storage.table("pods").items(namespace))
    for item in pods[:_PODS_TO_CHECK]:
        found = level.violations(item.obj["metadata"], item.obj["spec"])
        if found:
            names.setdefault(", ".join(violation.reason for violation in found), []).append(item.name)
    if not names:
        return []
    told = [f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{level}"']
    return [*told, *sorted(f"{_first_of(pods)}: {reasons}" for reasons, pods in names.items())]


def _first_of(names: Sequence[str]) -> str:
    others = len(names) - 1
    return min(names) + (f" (and {others} other pod{'s' if others > 1 else ''})" if others else "")
