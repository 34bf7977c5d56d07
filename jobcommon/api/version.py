"""Which version of a kind kubectl takes when none is named, and which version of an object is newer."""

import re

_KUBE_VERSION = re.compile(r"v([1-9]\d*)(?:(alpha|beta)([1-9]\d*))?")
_LEVELS = {None: 0, "beta": 1, "alpha": 2}


def version_priority(version: str) -> tuple[int, int, int, int, str]:
    """Sort key of version names: GA before beta before alpha, newer first, then other names in alphabetical order.

    Source: "Version priority" in the Kubernetes documentation of CustomResourceDefinition versions.
    """
    match = _KUBE_VERSION.fullmatch(version)
    if match is None:
        return (1, 0, 0, 0, version)
    major, level, minor = match.groups()
    return (0, _LEVELS[level], -int(major), -int(minor or 0), "")


def is_valid(version: str) -> bool:
    """Whether `version` can be compared. "", "0" and anything but plain digits cannot."""
    return version.isascii() and version.isdecimal() and version[0] != "0"


def is_older(version: str, than: str) -> bool:
    """Whether `version` certainly precedes `than`. False when either cannot be compared."""
    return is_valid(version) and is_valid(than) and (len(version), version) < (len(than), than)
