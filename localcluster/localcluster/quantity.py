"""Kubernetes resource quantities as numbers that can be compared and divided, refused in the real server's words.

Facts: apimachinery's resource.Quantity. A quantity counts billionths and is bounded by 2^63-1: what is more precise is
rounded away from zero, what is larger is cut to the bound, so that no text of a few characters makes a number of a billion
digits.
"""

import re
from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache

FORM = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_LIMIT = (2**63 - 1) * 10**9
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_SCALES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SHAPE = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?(?:([KMGTPE]i)|[eE]([+-]?\d+)|([numkMGTPE]))?", re.ASCII)
_MAX_LENGTH = 256
# With larger exponents a number of that length is over the bound, with smaller ones it is rounded to one billionth.
_ENOUGH = _MAX_LENGTH + 32
#: A text with as many digits is not kept as it is.
_MANY = 18


def amounts(given: Sequence[str]) -> dict[str, str]:
    """The quantities by resource that texts such as ``cpu=4,nvidia.com/gpu=2`` stand for. Raises ValueError."""
    found: dict[str, str] = {}
    for pair in (pair for text in given for pair in text.split(",")):
        name, _, amount = pair.strip().partition("=")
        try:
            enough = name and parse_quantity(amount) >= 0
        except ValueError:
            enough = False
        if not enough:
            raise ValueError(f"{pair}: write a resource and an amount, such as cpu=4, memory=16Gi or nvidia.com/gpu=2")
        found[name] = amount
    return found


# The pods of a job request the same amounts, and each amount is parsed several times.
@lru_cache(maxsize=4096, typed=True)
def parse_quantity(text: object) -> Decimal:
    """The exact number that ``500m``, ``1Gi`` or ``1e3`` stands for, within the bounds of a quantity. Raises ValueError."""
    return Decimal(_nanos(_parts(text))).scaleb(-9)


@lru_cache(maxsize=4096, typed=True)
def canonical(text: object) -> str:
    """How the server writes a quantity: ``500m`` for ``0.5``, ``1Gi`` for ``1024Mi``. Raises ValueError.

    Like the real one, it keeps a text whose digits and scale are canonical although its sign or its exponent is not.
    """
    parts = _parts(text)
    _, whole, fraction, binary, exponent, suffix = parts
    if binary or not isinstance(text, str):
        return _written(_nanos(parts), bool(binary))
    digits = (whole.lstrip("0") or "0") + fraction
    scale = (int(exponent) if exponent else _SCALES[suffix]) - len(fraction)
    if scale >= _SCALES["n"] and not scale % 3 and digits[0] != "0" and not digits.endswith("000") and len(digits) <= _MANY:
        return text
    return _written_as(parts, _nanos(parts))


def _parts(value: object) -> tuple[str, ...]:
    """Sign, whole part, fraction, binary suffix, exponent and decimal suffix."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(FORM)
    text = str(value)
    match = _SHAPE.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if match is None or not (match[2] or match[3]):
        raise ValueError(FORM)
    return match.groups(default="")


def _nanos(parts: tuple[str, ...]) -> int:
    sign, whole, fraction, binary, exponent, suffix = parts
    digits = int((whole + fraction).lstrip("0") or "0")
    if binary:
        numerator, denominator = digits * 1024 ** _BINARY[binary] * 10**9, 10 ** len(fraction)
    else:
        power = min(max(int(exponent), -_ENOUGH), _ENOUGH) if exponent else _SCALES[suffix]
        power += 9 - len(fraction)
        numerator, denominator = digits * 10 ** max(power, 0), 10 ** max(-power, 0)
    nanos: int = min(-(-numerator // denominator), _LIMIT)
    return -nanos if sign == "-" else nanos


def _written_as(parts: tuple[str, ...], nanos: int) -> str:
    """An amount in the form of a quantity: what was written with an exponent keeps one."""
    _, _, _, binary, exponent, _ = parts
    shown = _written(nanos, bool(binary))
    return f"{shown[:-1]}e{_SCALES[shown[-1]]}" if exponent and shown[-1] in _SCALES else shown


def _written(nanos: int, binary: bool) -> str:
    """The canonical form: no fraction, and the largest suffix with which that goes."""
    whole, fraction = divmod(nanos, 10**9)
    if binary and not fraction and abs(whole) >= 1024:
        suffix = max((s for s, p in _BINARY.items() if whole % 1024**p == 0), key=_BINARY.get, default="")  # type: ignore[arg-type]
        return f"{whole // 1024 ** _BINARY.get(suffix, 0)}{suffix}"
    if not nanos:
        return "0"
    suffix = max((s for s, e in _SCALES.items() if nanos % 10 ** (e + 9) == 0), key=_SCALES.__getitem__)
    return f"{nanos // 10 ** (_SCALES[suffix] + 9)}{suffix}"
