"""Comparing resource versions as KEP-5647 permits: decimal digits without a leading zero, by length, then as text."""

_DIGITS = frozenset("0123456789")


def is_valid(version: str) -> bool:
    """Whether `version` can be compared. "", "0" and anything but plain digits cannot."""
    return bool(version) and version[0] != "0" and _DIGITS.issuperset(version)


def is_older(version: str, than: str) -> bool:
    """Whether `version` certainly precedes `than`. False when either cannot be compared."""
    return is_valid(version) and is_valid(than) and (len(version), version) < (len(than), than)
