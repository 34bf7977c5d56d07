"""The Kubernetes function library for CEL, as far as the engine lets Python add it.

A quantity is a map with one entry, its exact value in decimal, so that two spellings of one amount are equal.
Source: the Kubernetes CEL library (lists, regex, quantity) of Kubernetes 1.29 and later.
"""

import re
from decimal import Decimal
from itertools import pairwise
from typing import Any

from cel_expr_python import cel as engine

from localcluster.quantity import parse_quantity

_KEY = "quantity"


def _wrap(value: Decimal) -> dict[str, str]:
    return {_KEY: f"{value.normalize():f}"}


def _value(wrapped: Any) -> Decimal:
    return Decimal(wrapped[_KEY])


def _quantity(text: str) -> dict[str, str]:
    return _wrap(parse_quantity(text))


def _is_quantity(text: str) -> bool:
    try:
        parse_quantity(text)
    except ValueError:
        return False
    return True


def _amount(other: Any) -> Decimal:
    return Decimal(other) if isinstance(other, int) else _value(other)


def _compare(left: Any, right: Any) -> int:
    a, b = _value(left), _value(right)
    return (a > b) - (a < b)


def _is_sorted(items: list[Any]) -> bool:
    return all(a <= b for a, b in pairwise(items))


def _find(text: str, pattern: str) -> str:
    match = re.search(pattern, text)
    return match.group() if match else ""


def _find_all(text: str, pattern: str) -> list[str]:
    return [match.group() for match in re.finditer(pattern, text)]


def declarations() -> list[Any]:
    """Declarations with implementations, in the engine's own classes."""
    kind = engine.Type
    listing = kind.List(kind.DYN)
    member: list[tuple[str, Any, list[Any], Any]] = [
        ("isSorted", kind.BOOL, [listing], _is_sorted),
        ("sum", kind.DYN, [listing], sum),
        ("min", kind.DYN, [listing], min),
        ("max", kind.DYN, [listing], max),
        ("find", kind.STRING, [kind.STRING, kind.STRING], _find),
        ("findAll", kind.List(kind.STRING), [kind.STRING, kind.STRING], _find_all),
        ("isLessThan", kind.BOOL, [kind.DYN, kind.DYN], lambda a, b: _compare(a, b) < 0),
        ("isGreaterThan", kind.BOOL, [kind.DYN, kind.DYN], lambda a, b: _compare(a, b) > 0),
        ("compareTo", kind.INT, [kind.DYN, kind.DYN], _compare),
        ("add", kind.DYN, [kind.DYN, kind.DYN], lambda a, b: _wrap(_value(a) + _amount(b))),
        ("sub", kind.DYN, [kind.DYN, kind.DYN], lambda a, b: _wrap(_value(a) - _amount(b))),
        ("sign", kind.INT, [kind.DYN], lambda a: (_value(a) > 0) - (_value(a) < 0)),
        ("isInteger", kind.BOOL, [kind.DYN], lambda a: _value(a) == _value(a).to_integral_value()),
        ("asInteger", kind.INT, [kind.DYN], lambda a: int(_value(a))),
        ("asApproximateFloat", kind.DOUBLE, [kind.DYN], lambda a: float(_value(a))),
    ]
    plain: list[tuple[str, Any, list[Any], Any]] = [
        ("quantity", kind.DYN, [kind.STRING], _quantity),
        ("isQuantity", kind.BOOL, [kind.STRING], _is_quantity),
    ]
    rows = [(row, True) for row in member] + [(row, False) for row in plain]
    return [
        engine.FunctionDecl(name, [engine.Overload(f"kubernetes_{name}", returned, parameters, is_member=on_value, impl=impl)])
        for (name, returned, parameters, impl), on_value in rows
    ]
