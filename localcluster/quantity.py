"""Kubernetes resource quantities as numbers that can be compared and divided, refused in the real server's words."""

from decimal import Decimal
from functools import lru_cache

from jobcommon.api import quantity

FORM = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


# The pods of a job ask for the same amounts, and each is looked at several times.
@lru_cache(maxsize=4096, typed=True)
def parse_quantity(text: object) -> Decimal:
    """The number that ``500m``, ``1Gi`` or ``1e3`` stands for, as exact and as bounded as a quantity is. Raises ValueError."""
    try:
        return Decimal(quantity.parse_quantity(text).nanos).scaleb(-9)
    except ValueError:
        raise ValueError(FORM) from None
