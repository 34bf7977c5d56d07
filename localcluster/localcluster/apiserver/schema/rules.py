"""CEL rules of a schema, walked over the new object and, for transition rules, the old one beside it.

Rules as in the Kubernetes documentation, "Validation rules" of custom resource definitions: property names are escaped,
and a rule with `oldSelf` runs only where an old value is known. Strings with format date-time stay strings (the engine
takes no time stamps from Python inside maps); `timestamp(self.x)` works.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from localcluster.apiserver import cel
from localcluster.apiserver.builtin_schemas import Json
from localcluster.apiserver.errors import Cause
from localcluster.apiserver.schema.walk import branches, step

#: How many verdicts are remembered at one place of a schema.
_MOST_KNOWN = 1024
_OLD = re.compile(r"\boldSelf\b")


@dataclass(frozen=True)
class Rule:
    """One entry of `x-kubernetes-validations`, compiled; `program` is None when the engine cannot run it."""

    source: Json
    program: cel.Program | None

    @property
    def uses_old(self) -> bool:
        """Whether the rule mentions the old value."""
        return bool(_OLD.search(self.source["rule"]))

    @cached_property
    def needs_old(self) -> bool:
        """A transition rule that may not run without an old value."""
        return self.uses_old and not self.source.get("optionalOldSelf")


def has_rules(node: Json) -> bool:
    """Whether the node itself carries rules."""
    return bool(node.get("x-kubernetes-validations"))


def compile_rule(source: Json) -> Rule:
    """Compiles one rule; raises `cel.CelError`."""
    return Rule(source, cel.compile_expression(source["rule"], optional_old=bool(source.get("optionalOldSelf"))))


def compile_rules(node: Json, full: Json) -> Json:
    """The trimmed schema `node` with, at every level, the compiled ``rules``; `full` is untrimmed.

    Rules that do not compile are left out: the CRD was refused for them, or comes from a store that did not check.
    """
    result = dict(node)
    result["rules"] = []
    for source in node.get("x-kubernetes-validations", ()):
        with suppress(cel.CelError):
            rule = compile_rule(source)
            if rule.program is not None:
                result["rules"].append(rule)
    result["known"] = {}
    if "properties" in node:
        result["properties"] = {key: compile_rules(one, full["properties"][key]) for key, one in node["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            result[key] = compile_rules(node[key], full[key])
    return result


def rule_causes(node: Json, full: Json, value: Any, old: Any, has_old: bool, path: str = "") -> Iterator[Cause]:
    """The failed rules. `node` is what `compile_rules` made, `full` the whole schema at the same place."""
    if value is None:
        return
    if node["rules"]:
        yield from _verdict(node, full, value, old, has_old, path)
    for below, key, item in branches(node, value):
        before, known = _correlated(full, value, old if has_old else None, key)
        yield from rule_causes(below, _below(full, key), item, before, known, step(node, path, key))


def _below(full: Json, key: str | int) -> Json:
    if isinstance(key, int):
        found = full.get("items", {})
    else:
        found = full.get("properties", {}).get(key, full.get("additionalProperties"))
    return found if isinstance(found, dict) else {}


def _correlated(full: Json, value: Any, old: Any, key: str | int) -> tuple[Any, bool]:
    """The old value of the same field, map entry or list-map item; False if there is none or it is unknown."""
    if isinstance(key, str):
        return (old[key], True) if isinstance(old, dict) and key in old else (None, False)
    keys = full.get("x-kubernetes-list-map-keys")
    if not isinstance(old, list) or not keys or not isinstance(value[key], dict):
        return None, False
    wanted = [value[key].get(one) for one in keys]
    for item in old:
        if isinstance(item, dict) and [item.get(one) for one in keys] == wanted:
            return item, True
    return None, False


def _verdict(node: Json, full: Json, value: Any, old: Any, has_old: bool, path: str) -> Sequence[Cause]:
    """The causes from the node's own rules. A rule depends on the values only, and an object is often written with the same
    ones: verdicts are cached by a digest of the values.
    """
    key = path, _digest(value), _digest(old) if has_old else b""
    known: dict[tuple[str, bytes, bytes], Sequence[Cause]] = node["known"]
    found = known.get(key)
    if found is None:
        if len(known) >= _MOST_KNOWN:
            known.clear()
        found = known[key] = tuple(_own(node, full, value, old, has_old, path))
    return found


def _digest(value: Any) -> bytes:
    return hashlib.blake2b(msgspec.json.encode(value), digest_size=16).digest()


def _own(node: Json, full: Json, value: Any, old: Any, has_old: bool, path: str) -> Iterator[Cause]:
    shape = "object" if full.get("x-kubernetes-embedded-resource") else full.get("type", "string")
    variables = {"self": value, "oldSelf": old if has_old else None, "optionalOld": [old] if has_old else []}
    for rule in node["rules"]:
        if rule.needs_old and not has_old:
            continue
        outcome = rule.program.run(variables)
        if outcome is True:
            continue
        where = path + _field_path(rule.source.get("fieldPath", ""))
        if isinstance(outcome, cel.Failure):
            message = f"{_error_text(outcome.message)} evaluating rule: {_message(rule)}"
        else:
            message = _message(rule)
        yield Cause("FieldValueInvalid", where.removeprefix(".") or "<nil>", f'Invalid value: "{shape}": {message}')


def _error_text(message: str) -> str:
    found = re.fullmatch(r'Key not found in map : "(.*)"', message)
    return f"no such key: {found[1]}" if found else message


def _message(rule: Rule) -> str:
    return str(rule.source.get("message") or f"failed rule: {rule.source['rule'].strip()}")


def _field_path(text: str) -> str:
    return re.sub(r"\['([^']*)'\]", lambda found: f".{found[1]}", text)
