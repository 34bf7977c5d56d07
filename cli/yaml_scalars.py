"""Plain YAML scalars as kubectl reads them: what is a number, a truth value or nothing, and what is text.

That is YAML 1.1 without numbers of base 60, but with the octal numbers of YAML 1.2: ``1:30`` is text, ``y`` and ``0o17`` are
not. PyYAML's own rules differ, and read base 60 in quadratic time.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

import yaml

TAG = "tag:yaml.org,2002:"
MERGE = f"{TAG}merge"
_TRUE = frozenset(case(word) for word in ("y", "yes", "true", "on") for case in (str.lower, str.upper, str.title))
_FALSE = frozenset(case(word) for word in ("n", "no", "false", "off") for case in (str.lower, str.upper, str.title))
_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_INT = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
# A greater number has an exponent in JSON, which no integer field takes.
_WRITTEN_OUT = 1e21


def kind(text: str) -> str:
    """What a plain scalar is: null, bool, int, float or str."""
    if text in _NULL:
        return "null"
    if text in _TRUE or text in _FALSE:
        return "bool"
    if text[0] not in "+-.0123456789":
        return "str"
    number = _without_underscores(text)
    if _INT.fullmatch(number):
        return "int"
    if _SPECIAL.fullmatch(text) or (_FLOAT.fullmatch(number) and not math.isinf(float(number))):
        return "float"
    return "str"


def value(text: str) -> str | bool | int | float | None:
    """The value of a plain scalar. Raises ValueError for a number of thousands of digits."""
    what = kind(text)
    if what == "null":
        return None
    if what == "bool":
        return text in _TRUE
    if what == "int":
        number = _without_underscores(text)
        digits = number.lstrip("+-")
        return int(number, 8 if digits[0] == "0" and digits[1:2].isdigit() else 0)
    if what == "float":
        number = text.replace(".", "", 1) if _SPECIAL.fullmatch(text) else _without_underscores(text)
        amount = float(number)
        # JSON makes no difference between 3.0 and 3.
        return int(amount) if amount.is_integer() and abs(amount) < _WRITTEN_OUT else amount
    return text


def _without_underscores(text: str) -> str:
    return text if text[0] == "." else text.replace("_", "")


def tag_of(text: str) -> str:
    """The tag of a plain scalar."""
    return MERGE if text == "<<" else TAG + kind(text)


def as_yaml(*bodies: Mapping[str, Any]) -> str:
    """The objects as the documents of a file, which kubectl and PyYAML read alike."""
    documents = (yaml.dump(dict(body), Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True) for body in bodies)
    return "---\n".join(documents)


class _Dumper(yaml.SafeDumper):
    """Quotes text that kubectl or PyYAML would read as something else, and writes what occurs twice twice."""

    def resolve(self, node: type[yaml.Node], text: Any, implicit: Any) -> str:
        """The tag that a reader finds by itself; "" where readers differ."""
        found = str(super().resolve(node, text, implicit))  # type: ignore[no-untyped-call]
        return found if node is not yaml.ScalarNode or not implicit[0] or found == tag_of(text) else ""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  (PyYAML gives it by name)
        """Never refer to an earlier part of the file."""
        return True


def _block(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _block)
