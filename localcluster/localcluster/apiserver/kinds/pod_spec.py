"""What one field of a pod's spec says of another."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from localcluster.apiserver.errors import Cause, duplicate, forbidden, invalid, not_found_cause, not_supported, required
from localcluster.apiserver.kinds.field_rules import POD
from localcluster.apiserver.names import check, check_labels, label_value, qualified_name
from localcluster.apiserver.schema.values import value_causes
from localcluster.quantity import parse_quantity

Obj = dict[str, Any]
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_STANDARD = ("cpu", "memory", "ephemeral-storage")
_HUGE_PAGES = "hugepages-"
_MATCH_ANY = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'


def validate_spec(spec: Obj) -> list[Cause]:
    """The rules of a pod's spec with its defaults."""
    return [*value_causes(POD, {"spec": spec}), *_across(spec)]


def _across(spec: Obj) -> Iterator[Cause]:
    yield from check_labels(spec.get("nodeSelector") or {}, "spec.nodeSelector")
    volumes: Sequence[Obj] = spec.get("volumes") or ()
    yield from _unique("spec.volumes", "name", volumes)
    for index, volume in enumerate(volumes):
        for source in [name for name in volume if name != "name"][1:]:
            yield forbidden(f"spec.volumes[{index}].{source}", "may not specify more than 1 volume type")
    names = {volume.get("name") for volume in volumes}
    seen: set[str] = set()
    for part in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(part) or ()):
            path, name = f"spec.{part}[{index}]", container.get("name") or ""
            if name and name in seen:
                yield duplicate(f"{path}.name", name)
            seen.add(name)
            yield from _container(container, path, names, init=part == "initContainers")
    for index, one in enumerate(spec.get("tolerations") or ()):
        yield from _toleration(one, f"spec.tolerations[{index}]")


def _unique(path: str, key: str, items: Sequence[Obj]) -> Iterator[Cause]:
    seen: set[Any] = set()
    for index, one in enumerate(items):
        if one.get(key) in seen:
            yield duplicate(f"{path}[{index}].{key}", one[key])
        seen.add(one.get(key) or object())


def _container(container: Obj, path: str, volumes: set[Any], *, init: bool) -> Iterator[Cause]:
    yield from _unique(f"{path}.ports", "name", container.get("ports") or ())
    for index, variable in enumerate(container.get("env") or ()):
        source, where = variable.get("valueFrom"), f"{path}.env[{index}].valueFrom"
        if source is not None and variable.get("value"):
            yield invalid(where, "", "may not be specified when `value` is not empty")
        elif source is not None and len(source) != 1:
            told = "may not have more than one field specified at a time"
            yield invalid(where, "", told if source else "must specify one of: `fieldRef`, `configMapKeyRef`, `secretKeyRef` …")
    yield from _mounts(container, path, volumes)
    yield from container_resources(container.get("resources") or {}, f"{path}.resources")
    if init and container.get("restartPolicy") != "Always":
        for name in ("lifecycle", *_PROBES):
            if container.get(name) is not None:
                yield forbidden(f"{path}.{name}", "may not be set for init containers without restartPolicy=Always")
        return
    hooks = container.get("lifecycle") or {}
    handlers = {
        **{name: container.get(name) for name in _PROBES},
        **{f"lifecycle.{name}": hook for name, hook in hooks.items()},
    }
    for name, handler in handlers.items():
        if handler is None:
            continue
        given = [one for one in _HANDLERS if handler.get(one) is not None]
        if not given:
            yield required(f"{path}.{name}", "must specify a handler type")
        for one in given[1:]:
            yield forbidden(f"{path}.{name}.{one}", "may not specify more than 1 handler type")
        if name in ("livenessProbe", "startupProbe") and handler.get("successThreshold", 1) != 1:
            yield invalid(f"{path}.{name}.successThreshold", handler["successThreshold"], "must be 1")


def _mounts(container: Obj, path: str, volumes: set[Any]) -> Iterator[Cause]:
    places: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        where, name, target = f"{path}.volumeMounts[{index}]", mount.get("name") or "", mount.get("mountPath") or ""
        if name not in volumes:
            yield not_found_cause(f"{where}.name", name)
        if target in places:
            yield invalid(f"{where}.mountPath", target, "must be unique")
        places.add(target)


def _toleration(one: Obj, path: str) -> Iterator[Cause]:
    key, operator, value, effect = (one.get(name) or "" for name in ("key", "operator", "value", "effect"))
    if key:
        yield from check(qualified_name, f"{path}.key", key)
    elif operator != "Exists":
        yield invalid(f"{path}.operator", operator, _MATCH_ANY)
    if one.get("tolerationSeconds") is not None and effect != "NoExecute":
        yield invalid(f"{path}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
    if operator not in ("", "Equal", "Exists"):
        yield not_supported(f"{path}.operator", operator, ("Equal", "Exists"))
    elif operator == "Exists" and value:
        yield invalid(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'")
    elif problems := label_value(value):
        yield invalid(f"{path}.operator", value, ";".join(problems))
    if effect and effect not in _EFFECTS:
        yield not_supported(f"{path}.effect", effect, _EFFECTS)


def _overcommits(name: str) -> bool:
    """Whether less may be requested than the limit: of what Kubernetes knows itself, but for huge pages."""
    return ("/" not in name or "kubernetes.io/" in name) and not name.startswith(_HUGE_PAGES)


def container_resources(resources: Obj, path: str) -> Iterator[Cause]:
    """The rules of a container's resources."""
    limits: Mapping[str, str] = resources.get("limits") or {}
    requests: Mapping[str, str] = resources.get("requests") or {}
    for part, amounts in (("limits", limits), ("requests", requests)):
        for name, text in amounts.items():
            where, value = f"{path}.{part}[{name}]", parse_quantity(text)
            problems = check(qualified_name, where, name)
            if not problems and "/" not in name and name not in _STANDARD and not name.startswith(_HUGE_PAGES):
                problems = [invalid(where, name, "must be a standard resource for containers")]
            yield from problems
            if value < 0:
                yield invalid(where, text, "must be greater than or equal to 0")
            if "/" in name and not _overcommits(name) and value % 1:
                yield invalid(where, text, "must be an integer")
    for name, text in requests.items():
        yield from _against_limit(name, text, limits.get(name), path)


def _against_limit(name: str, request: str, limit: str | None, path: str) -> Iterator[Cause]:
    if limit is None:
        if not _overcommits(name):
            yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")
        return
    asked, allowed = parse_quantity(request), parse_quantity(limit)
    if asked != allowed and not _overcommits(name):
        yield invalid(f"{path}.requests", request, f"must be equal to {name} limit of {limit}")
    elif asked > allowed:
        yield invalid(f"{path}.requests", request, f"must be less than or equal to {name} limit of {limit}")
