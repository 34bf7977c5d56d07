"""Kubernetes resource quantities as numbers that can be compared and divided, refused in the real server's words."""

import re
from decimal import Decimal
from functools import lru_cache

from jobcommon.api import quantity

FORM = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


# The pods of a job request the same amounts, and each amount is parsed several times.
@lru_cache(maxsize=4096, typed=True)
def parse_quantity(text: object) -> Decimal:
    """The exact number that ``500m``, ``1Gi`` or ``1e3`` stands for, within the bounds of a quantity. Raises ValueError."""
    try:
        return Decimal(quantity.parse_quantity(text).nanos).scaleb(-9)
    except ValueError:
        raise ValueError(FORM) from None


_SCALES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL = re.compile(r"[+-]?0*(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d+)|([numkMGTPE]?))")
#: A text with as many digits is not kept as it is.
_MANY = 18


@lru_cache(maxsize=4096, typed=True)
def canonical(text: object) -> str:
    """How the server writes a quantity: ``500m`` for ``0.5``, ``1Gi`` for ``1024Mi``. Raises ValueError.

    Like the real one, it keeps a text whose digits and scale are canonical although its sign or its exponent is not.
    """
    try:
        shown = str(quantity.parse_quantity(text))
    except ValueError:
        raise ValueError(FORM) from None
    found = _DECIMAL.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return shown
    whole, fraction, exponent, suffix = found.groups()
    digits = (whole or "0") + (fraction or "")
    scale = (_SCALES[suffix] if exponent is None else int(exponent)) - len(fraction or "")
    if scale >= _SCALES["n"] and not scale % 3 and digits[0] != "0" and not digits.endswith("000") and len(digits) <= _MANY:
        return str(text)
    # What was written with an exponent keeps one.
    return shown if exponent is None or shown[-1] not in _SCALES else f"{shown[:-1]}e{_SCALES[shown[-1]]}"
