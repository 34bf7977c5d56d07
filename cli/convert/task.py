"""What a polyaxonfile says of one task, or of all tasks of a type: its properties.

The rule by which a worker's properties come about is Polyaxon's (specs/utils.get_task_values): for each property on its
own, the worker's entry if it says something, else the default. The entry replaces the whole property: one with memory alone
takes away the default's cpu.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobcommon.cli.convert.resources import read_resources
from jobcommon.cli.convert.section import Section, scalar_text

Properties = Mapping[str, Any]

_SPELLINGS = {
    "node_selectors": "node_selector",
    "configmap_refs": "config_map_refs",
    "service_account_name": "service_account",
}


@dataclass(frozen=True, slots=True)
class Group:
    """The tasks of one type: how many, what holds for all, what for some."""

    count: int = 0
    default: Properties = field(default_factory=dict)
    by_index: Mapping[int, Properties] = field(default_factory=dict)

    def properties(self, index: int) -> dict[str, Any]:
        """The properties of one task."""
        own = {name: value for name, value in self.by_index.get(index, {}).items() if value}
        return {**self.default, **own}


def read_properties(section: Section) -> dict[str, Any]:
    """The properties in an environment section, those that say nothing left out. Leaves other keys to the caller."""
    found: dict[str, Any] = {}
    for old, name in _SPELLINGS.items():
        if section.has(old) and section.has(name):
            section.notes.error(section.at(old), f"is the older name of {name}, which is given too: remove one")
    for key, read in _READERS.items():
        if section.has(key):
            value = read(section, key)
            if value:
                found[_SPELLINGS.get(key, key)] = value
    return found


def _list_of_mappings(section: Section, key: str) -> list[Any]:
    path, value = section.at(key), section.take(key)
    if not isinstance(value, list) or not all(isinstance(entry, Mapping) for entry in value):
        section.notes.error(path, "must be a list of mappings")
        return []
    return [without_nulls(entry) for entry in value]


def _mapping(section: Section, key: str) -> dict[str, Any]:
    path, value = section.at(key), section.take(key)
    if not isinstance(value, Mapping):
        section.notes.error(path, "must be a mapping")
        return {}
    return dict(without_nulls(value))


def _references(section: Section, key: str) -> list[str]:
    """Names, or mappings with a name."""
    path, value = section.at(key), section.take(key)
    found = []
    for position, entry in enumerate(value if isinstance(value, list) else [value]):
        named = entry.get("name") if isinstance(entry, Mapping) else entry
        if not isinstance(named, str) or not named:
            section.notes.error(f"{path}[{position}]", "must be a name")
            continue
        if isinstance(entry, Mapping):
            Section({k: v for k, v in entry.items() if k != "name"}, f"{path}[{position}]", section.notes).close()
        found.append(named)
    return list(dict.fromkeys(found))


def read_pairs(section: Section, key: str) -> dict[str, str]:
    """Environment variables: a list of pairs, of ``{name, value}``, or a mapping."""
    path, value = section.at(key), section.take(key)
    if isinstance(value, Mapping):
        return Section({key: value}, section.path, section.notes).texts(key)
    found: dict[str, str] = {}
    for position, entry in enumerate(value if isinstance(value, list) else [value]):
        where = f"{path}[{position}]"
        pair = [entry.get("name"), entry.get("value")] if isinstance(entry, Mapping) and "name" in entry else entry
        if isinstance(pair, Mapping) and len(pair) == 1:
            pair = list(next(iter(pair.items())))
        text = scalar_text(pair[1]) if isinstance(pair, list) and len(pair) == 2 else None
        if text is None or not isinstance(pair[0], str) or not pair[0]:
            section.notes.error(where, "must be a pair of name and value")
        else:
            found[pair[0]] = text
    return found


def without_nulls(value: Any) -> Any:
    """The value without its nulls: in a manifest they mean the same as nothing."""
    if isinstance(value, Mapping):
        return {key: without_nulls(child) for key, child in value.items() if child is not None}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [without_nulls(child) for child in value if child is not None]
    return value


_READERS: Mapping[str, Callable[[Section, str], Any]] = {
    "resources": lambda section, key: read_resources(section.section(key)),
    "labels": Section.texts,
    "annotations": Section.texts,
    "node_selector": Section.texts,
    "node_selectors": Section.texts,
    "affinity": _mapping,
    "tolerations": _list_of_mappings,
    "service_account": Section.text,
    "service_account_name": Section.text,
    "image_pull_secrets": _references,
    "secret_refs": _references,
    "config_map_refs": _references,
    "configmap_refs": _references,
    "env_vars": read_pairs,
    "max_restarts": Section.integer,
}
