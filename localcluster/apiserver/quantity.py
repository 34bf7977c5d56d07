"""Kubernetes resource quantities."""

import re
from decimal import Decimal
from typing import Any

_FORM = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d{1,3}))?")
_BINARY = {unit: Decimal(1024) ** power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)}
_DECIMAL = {unit: Decimal(10) ** power for unit, power in zip("numkMGTPE", (-9, -6, -3, 3, 6, 9, 12, 15, 18), strict=True)}
_LONGEST = 64

FORM = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def parse_quantity(text: Any) -> Decimal:
    """The number that ``500m``, ``1Gi`` or ``1e3`` stands for. Raises ValueError; the cost is bounded for any input."""
    match = _FORM.fullmatch(str(text)) if len(str(text)) <= _LONGEST else None
    if match is None:
        raise ValueError(FORM)
    number = Decimal(match[1])
    if match[3]:
        return number.scaleb(int(match[3]))
    unit = match[2]
    return number * (_BINARY.get(unit) or _DECIMAL[unit]) if unit else number
