"""Label and field selectors, as strings of the query and as LabelSelector objects."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from localcluster.apiserver.errors import ApiError, bad_request

Labels = Mapping[str, str]
FieldGetter = Callable[[Mapping[str, Any]], str]


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label: `operator` is one of in, notin, exists, !."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Whether the labels fulfil it; like the real server, `notin` and `!=` also match where the label is missing."""
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value in self.values
            case "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
        return value is None


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """A conjunction of requirements; the empty one matches everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Whether every requirement holds."""
        return all(requirement.matches(labels) for requirement in self.requirements)


_KEY = r"(?:[A-Za-z0-9][-A-Za-z0-9.]*/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
_VALUE = r"[-A-Za-z0-9_.]*"
_SET = re.compile(rf"\s*({_KEY})\s+(in|notin)\s*\(([^()]*)\)\s*")
_COMPARE = re.compile(rf"\s*({_KEY})\s*(==|=|!=)\s*({_VALUE})\s*")
_EXISTS = re.compile(rf"\s*(!?)\s*({_KEY})\s*")
_COMPARISONS = {"=": "in", "==": "in", "!=": "notin"}


def parse_labels(text: str) -> LabelSelector:
    """Parse ``a=b,c in (d,e),!f``. Raises a 400 ApiError."""
    found: list[Requirement] = []
    position = 0
    while position < len(text):
        requirement, position = _requirement(text, position)
        found.append(requirement)
        if position < len(text):
            if text[position] != "," or position + 1 == len(text):
                raise _unparsable(text)
            position += 1
    return LabelSelector(tuple(found))


def _requirement(text: str, position: int) -> tuple[Requirement, int]:
    if match := _SET.match(text, position):
        values = tuple(value.strip() for value in match[3].split(","))
        return Requirement(match[1], match[2], values), match.end()
    if match := _COMPARE.match(text, position):
        return Requirement(match[1], _COMPARISONS[match[2]], (match[3],)), match.end()
    if match := _EXISTS.match(text, position):
        return Requirement(match[2], "!" if match[1] else "exists"), match.end()
    raise _unparsable(text)


def _unparsable(text: str) -> ApiError:
    return bad_request(f"unable to parse requirement: {text!r} is not a valid label selector")


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """One condition on one selectable field."""

    getter: FieldGetter
    value: str
    equal: bool


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """A conjunction of field conditions; the empty one matches everything."""

    requirements: tuple[FieldRequirement, ...] = ()
    #: The value of an equality on metadata.name, so that a single object is found by its key.
    name: str | None = None

    def matches(self, obj: Mapping[str, Any]) -> bool:
        """Whether every condition holds."""
        return all((one.getter(obj) == one.value) is one.equal for one in self.requirements)


def parse_fields(text: str, getters: Mapping[str, FieldGetter]) -> FieldSelector:
    """Parse ``metadata.name=x,status.phase!=Running`` over the fields a resource offers. Raises a 400 ApiError."""
    found: list[FieldRequirement] = []
    name = None
    for term in filter(None, _split(text)):
        match = re.fullmatch(r"([^=!]+)(==|=|!=)(.*)", term, re.DOTALL)
        if match is None:
            raise bad_request(f"invalid selector: {text!r}; can't understand {term!r}")
        getter = getters.get(match[1])
        if getter is None:
            raise bad_request(f"field label not supported: {match[1]}")
        value = re.sub(r"\\(.)", r"\1", match[3])
        equal = match[2] != "!="
        if equal and match[1] == "metadata.name":
            name = value
        found.append(FieldRequirement(getter, value, equal))
    return FieldSelector(tuple(found), name)


def _split(text: str) -> Sequence[str]:
    return re.split(r"(?<!\\),", text)


def field(path: str) -> FieldGetter:
    """A getter of a dotted path; missing is the empty string, booleans are ``true`` and ``false``."""
    parts = tuple(path.split("."))

    def get(obj: Mapping[str, Any]) -> str:
        value: Any = obj
        for part in parts:
            if not isinstance(value, Mapping):
                return ""
            value = value.get(part)
        if isinstance(value, bool):
            return "true" if value else "false"
        return "" if value is None else str(value)

    return get
