"""Kubernetes resource quantities as numbers that can be compared and divided, refused in the real server's words."""

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
