"""Server-side apply.

A configuration is merged onto the live object, by the schema. Fields that its manager applied before and leaves out now are
removed, unless another manager applied them, too. To change a field that another manager applied is a conflict, unless forced.

Owners are those who applied, and `metadata.managedFields` lists them in the form of the real server. An ordinary write has no
entry there: it changes values and leaves their owners.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any

import msgspec

from localcluster.apiserver.builtin_schemas import Json, child, items, resolve
from localcluster.apiserver.json_copy import json_copy
from localcluster.apiserver.list_order import interleave

#: Elements of a path, as FieldsV1 writes them: ``f:name`` a field or map key, ``k:{"name":"a"}`` an item of a list by its keys,
#: ``v:"x"`` an item of a set.
Path = tuple[str, ...]

_IDENTITY = ("apiVersion", "kind")
#: Metadata that identifies the object or belongs to the server has no owner.
_UNOWNED_META = frozenset((
    "name", "namespace", "creationTimestamp", "selfLink", "uid", "generation", "managedFields", "resourceVersion",
))  # fmt: skip
#: What is at the path of a list item or of a map entry that has fields of its own, and of an empty map: it is there.
_PRESENT = object()
_MEMBER = "."


class ApplyError(ValueError):
    """The applied object itself is wrong; the server answers 400."""


class UntypableError(ApplyError):
    """The schema cannot be matched with the fields of the applied object; the server answers 500."""


@dataclass
class ApplyConflictError(Exception):
    """Other managers own fields that would change; the server answers 409 with these causes."""

    message: str
    causes: list[Json]

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, slots=True)
class Manager:
    """Who applied, and to which subresource."""

    name: str
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class _Entry:
    """What a manager owns, the version that it applied, and the time of its last change."""

    version: str
    fields: frozenset[Path]
    time: str


def apply(node: Json, live: Json | None, config: Json, *, me: Manager, now: str, force: bool = False) -> Json:
    """The object after `me` applied `config` to `live` (None: create), with its managedFields; `node` is its schema.

    Equal to `live` when nothing changes. `now` is RFC 3339. Neither argument is changed. Raises `ApplyConflictError` and
    `ApplyError`.
    """
    if "managedFields" in (config.get("metadata") or {}):
        raise ApplyError("metadata.managedFields must be nil")
    try:
        wanted = _without_nulls(config)
        current = live if live is not None else {key: wanted[key] for key in _IDENTITY if key in wanted}
        node = resolve(node)
        claimed, present = _fields(node, wanted), _fields(node, current)
        merged = _merge(node, current, wanted)
    except RecursionError as error:
        raise ApplyError("the object is nested too deeply") from error
    except ValueError as error:
        raise UntypableError(str(error)) from error
    managers = _read(current)
    last = managers.pop(me, None)
    written = {path for path, value in claimed.items() if value is not _PRESENT and present.get(path, _PRESENT) != value}
    conflicts = [(other, path) for other, entry in managers.items() for path in sorted(entry.fields & written)]
    if conflicts and not force:
        raise _conflict(conflicts)
    managers = {who: _Entry(entry.version, entry.fields - written, entry.time) for who, entry in managers.items()}
    held = claimed.keys() | frozenset().union(*(entry.fields for entry in managers.values()))
    kept = {path[:length] for path in held for length in range(1, len(path) + 1)}
    given_up = last.fields - kept if last is not None else frozenset()
    if given_up:
        merged = json_copy(merged)
        for path in sorted(given_up, key=len):
            _remove(node, merged, path, 0, kept)
    changed = live is None or last is None or last.fields != claimed.keys() or merged != current
    managers[me] = _Entry(wanted.get("apiVersion", ""), frozenset(claimed), now if changed or last is None else last.time)
    return _with_managers(merged, managers)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _list_keys(node: Json) -> tuple[str, ...] | None:
    """The keys of a list map, none for a set, None for a list that is owned as a whole."""
    kind = node.get("x-kubernetes-list-type")
    if kind is None and "merge" in str(node.get("x-kubernetes-patch-strategy", "")):
        key = node.get("x-kubernetes-patch-merge-key")
        return (key,) if key else ()
    if kind == "map":
        return tuple(sorted(node.get("x-kubernetes-list-map-keys", ())))
    return () if kind == "set" else None


def _is_atomic(node: Json, value: Any) -> bool:
    if isinstance(value, dict):
        return node.get("x-kubernetes-map-type") == "atomic"
    return not isinstance(value, list) or _list_keys(node) is None


def _element(node: Json, item: Any) -> str:
    """The path element of a list item; a key that is left out counts with its default. Raises ValueError without a key."""
    keys = _list_keys(node)
    if not keys:
        return f"v:{_encoded(item)}"
    if not isinstance(item, dict):
        raise ValueError(f"list items need the keys {', '.join(keys)}; this item is not an object: {_encoded(item)}")
    found = {}
    for key in keys:
        value = item.get(key)
        found[key] = child(items(node), key).get("default") if value is None else value
        if found[key] is None:
            raise ValueError(f"list item without its key {key!r}: {_encoded(item)}")
    return f"k:{_encoded(found)}"


def _encoded(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _parts(node: Json, value: Any) -> Iterator[tuple[str, Json, Any]]:
    """(path element, schema, value) of the children of a map or list that is not owned as a whole."""
    if isinstance(value, dict):
        yield from ((f"f:{key}", child(node, key), item) for key, item in value.items())
    else:
        yield from ((_element(node, item), items(node), item) for item in value)


def _fields(node: Json, obj: Json) -> dict[Path, Any]:
    """The fields of an object that can have an owner, with their values."""
    found: dict[Path, Any] = {}
    meta = {key: value for key, value in (obj.get("metadata") or {}).items() if key not in _UNOWNED_META}
    ownable = {key: value for key, value in obj.items() if key not in (*_IDENTITY, "metadata")}
    _collect(node, {**ownable, "metadata": meta} if meta else ownable, (), found)
    return found


def _collect(node: Json, value: Any, path: Path, found: dict[Path, Any]) -> None:
    if path and (value == {} or _is_atomic(node, value)):
        found[path] = value if _is_atomic(node, value) else _PRESENT
        return
    declared = node.get("properties", {}) if isinstance(value, dict) else ()
    for name, below, item in _parts(node, value):
        where = (*path, name)
        if path and name[2:] not in declared:
            found[where] = _PRESENT
        _collect(below, item, where, found)


def _merge(node: Json, live: Any, wanted: Any) -> Any:
    if type(live) is not type(wanted) or _is_atomic(node, wanted):
        return wanted
    before = {name: item for name, _, item in _parts(node, live)}
    merged = {name: _merge(below, before[name], item) if name in before else item for name, below, item in _parts(node, wanted)}
    if isinstance(wanted, dict):
        return {**live, **{name[2:]: item for name, item in merged.items()}}
    if len(merged) < len(wanted):
        raise ValueError(f"list with two items with the same key: {_encoded(wanted)}")
    places = {name: index for index, name in enumerate(before)}
    kept = [name for name in before if name not in merged]
    order = interleave(kept, list(merged), lambda name: places.get(name, len(places)))
    return [merged[name] if name in merged else before[name] for name in order]


def _remove(node: Json, value: Any, path: Path, depth: int, kept: Set[Path]) -> None:
    """Removes the field at a path, and the fields above it that held nothing else."""
    name = path[depth]
    key: Any
    if isinstance(value, dict):
        key, below = name[2:], child(node, name[2:])
    elif isinstance(value, list) and not _is_atomic(node, value):
        key, below = next((at for at, item in enumerate(value) if _element(node, item) == name), None), items(node)
    else:
        return
    if key is None or (isinstance(value, dict) and key not in value):
        return
    if depth + 1 < len(path):
        _remove(below, value[key], path, depth + 1, kept)
        if value[key] not in ({}, []) or path[: depth + 1] in kept:
            return
    del value[key]


def _read(obj: Json) -> dict[Manager, _Entry]:
    return {
        Manager(one["manager"], one.get("subresource", "")): _Entry(
            one["apiVersion"], frozenset(_paths(one["fieldsV1"], ())), one["time"]
        )
        for one in (obj.get("metadata") or {}).get("managedFields") or ()
    }


def _paths(tree: Json, path: Path) -> Iterator[Path]:
    for name, below in tree.items():
        if name == _MEMBER or not below:
            yield path if name == _MEMBER else (*path, name)
        else:
            yield from _paths(below, (*path, name))


def _tree(paths: Iterable[Path]) -> Json:
    """The paths as FieldsV1: what an element maps to are those below it, with ``.`` if its own path is one of them, too."""
    tree: Json = {}
    for path in sorted(paths):
        below = tree
        for name in path[:-1]:
            if below.get(name) == {}:
                below[name] = {_MEMBER: {}}
            below = below.setdefault(name, {})
        below[path[-1]] = {}
    return tree


def _with_managers(item: Json, managers: Mapping[Manager, _Entry]) -> Json:
    meta = {key: value for key, value in (item.get("metadata") or {}).items() if key != "managedFields"}
    listed = [
        {
            "manager": manager.name, "operation": "Apply", "apiVersion": entry.version, "time": entry.time,
            "fieldsType": "FieldsV1", "fieldsV1": _tree(entry.fields),
            **({"subresource": manager.subresource} if manager.subresource else {}),
        }
        for manager, entry in sorted(managers.items(), key=lambda row: (row[1].time, row[0].name, row[0].subresource))
        if entry.fields
    ]  # fmt: skip
    return {**item, "metadata": {**meta, "managedFields": listed} if listed else meta}


def _conflict(conflicts: list[tuple[Manager, Path]]) -> ApplyConflictError:
    by_manager: dict[str, list[str]] = {}
    causes = []
    for other, path in conflicts:
        who = f'"{other.name}"' + (f' with subresource "{other.subresource}"' if other.subresource else "")
        by_manager.setdefault(who, []).append(path_text(path))
        causes.append({"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": path_text(path)})
    if len(conflicts) == 1:
        return ApplyConflictError(f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}", causes)
    lines: list[str] = []
    for who, paths in sorted(by_manager.items()):
        lines += [f"conflicts with {who}:", *(f"- {path}" for path in paths)]
    return ApplyConflictError(f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines), causes)


def path_text(path: Path) -> str:
    """The path as conflict messages show it: ``.spec.containers[name="a"].image``."""
    text = ""
    for name in path:
        kind, _, rest = name.partition(":")
        if kind == "f":
            text += f".{rest}"
        elif kind == "k":
            text += "[" + ",".join(f"{key}={json.dumps(value)}" for key, value in json.loads(rest).items()) + "]"
        else:
            text += f"[={rest}]"
    return text
