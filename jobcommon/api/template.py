"""Per-index overrides: merging one pod template onto another.

Maps merge key by key, and null removes a key. Lists whose entries carry a name (containers, env, ports, volumes, …) merge
by name, volumeMounts by mountPath; any other list is replaced whole.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

A = TypeVar("A")
R = TypeVar("R")


def last_result_cached(function: Callable[[A], R]) -> Callable[[A], R]:
    """`function` with a cache of one result: consecutive calls with the same object compute it once.

    Building the list of all peers for each of N replicas costs O(N²). `function` must be pure and its argument a frozen value:
    only identity is compared.
    """
    last: list[tuple[A, R]] = []

    def answer(argument: A) -> R:
        if not last or last[0][0] is not argument:
            last[:] = [(argument, function(argument))]
        return last[0][1]

    return answer


# What is searched for a program and its options. A program in the text of another one, as after python -c, is not among them.
MAX_COMMAND = 16_384
_MERGE_KEYS = {"volumeMounts": "mountPath", "volumeDevices": "devicePath", "hostAliases": "ip"}


Positions = tuple[int, ...]
"""Which overrides apply, in order: replicas for which the same do have the same template."""


class Templates:
    """The templates of one replica type, each made once however many replicas have it.

    `overrides` are pairs of indices and patch. `applied` has, by index, what applies to it; a replica that is not in it has
    the type's own template, that of the position ().
    """

    def __init__(self, template: Mapping[str, Any], overrides: Iterable[tuple[Iterable[int], Mapping[str, Any]]]) -> None:
        applied: dict[int, list[int]] = {}
        self._patches = []
        for position, (indices, patch) in enumerate(overrides):
            self._patches.append(patch)
            for index in dict.fromkeys(indices):
                applied.setdefault(index, []).append(position)
        known: dict[Positions, Positions] = {}
        self.applied: Mapping[int, Positions] = {
            index: known.setdefault(tuple(positions), tuple(positions)) for index, positions in applied.items()
        }
        self._made: dict[Positions, Mapping[str, Any]] = {(): template}

    @property
    def distinct(self) -> Iterable[Positions]:
        """What applies to any replica, each once, that of the type's own template first."""
        return dict.fromkeys([(), *self.applied.values()])

    def of(self, index: int) -> Positions:
        """What applies to the replica of that index."""
        return self.applied.get(index, ())

    def at(self, positions: Positions) -> Mapping[str, Any]:
        """The template with those overrides."""
        found = self._made.get(positions)
        if found is None:
            found = self._made[()]
            for position in positions:
                found = merge_template(found, self._patches[position])
            self._made[positions] = found
        return found


def merge_template(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `patch` merged onto it; neither is changed."""
    merged = dict(base)
    for key, value in patch.items():
        old = merged.get(key)
        if value is None:
            merged.pop(key, None)
        elif isinstance(old, Mapping) and isinstance(value, Mapping):
            merged[key] = merge_template(old, value)
        elif isinstance(old, list) and isinstance(value, list) and _named(old + value, _MERGE_KEYS.get(key, "name")):
            merged[key] = _merge_lists(old, value, _MERGE_KEYS.get(key, "name"))
        else:
            merged[key] = value
    return merged


def _named(entries: list[Any], key: str) -> bool:
    return all(isinstance(entry, Mapping) and isinstance(entry.get(key), str) for entry in entries)


def _merge_lists(old: list[Any], new: list[Any], key: str) -> list[Any]:
    patches = {entry[key]: entry for entry in new}
    merged = [merge_template(entry, patches.pop(entry[key])) if entry[key] in patches else entry for entry in old]
    return merged + list(patches.values())


def containers_of(template: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The containers of a pod template that may be malformed (rule R14)."""
    return mappings_in(mapping_of(template.get("spec")).get("containers"))


def command_line(template: Mapping[str, Any]) -> str:
    """The words that start the containers of a pod template, up to `MAX_COMMAND` characters; "" where the image decides."""
    containers = containers_of(template)
    lists = (words for one in containers for words in (one.get("command"), one.get("args")) if isinstance(words, list))
    return " ".join(str(word) for words in lists for word in words)[:MAX_COMMAND]


def mapping_of(value: object) -> Mapping[str, Any]:
    """The object itself; an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def mappings_in(value: object) -> Iterator[Mapping[str, Any]]:
    """The objects in a list; nothing of anything else."""
    return (entry for entry in value if isinstance(entry, Mapping)) if isinstance(value, list) else iter(())
