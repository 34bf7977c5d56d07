"""Polyaxon's resources as Kubernetes has them.

Memory numbers are MiB, cpu numbers are cores, gpu counts devices. Two layouts: by resource (cpu: {requests, limits}),
and since August 2019 also by bound (limits: {cpu, …}, requests: {…}).
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from jobcommon.cli.convert.finding import Notes
from jobcommon.cli.convert.section import Section

GPU = "nvidia.com/gpu"
_NAMES = {"cpu": "cpu", "memory": "memory", "gpu": GPU}
_BOUNDS = ("requests", "limits")
_QUANTITY = re.compile(r"(\d+(\.\d*)?|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE]\d+)?", re.ASCII)

Resources = dict[str, dict[str, str]]


def read_resources(section: Section) -> Resources:
    """``{requests: {…}, limits: {…}}`` in the names and units of Kubernetes."""
    asked: dict[str, dict[str, str]] = {}
    for bound in _BOUNDS:
        if section.has(bound):
            _by_bound(section.section(bound), bound, asked)
    for name in _NAMES:
        if section.has(name):
            _by_resource(section.section(name), name, asked)
    section.close()
    if "gpu" in asked:
        asked["gpu"] = _equal(asked["gpu"], f"{section.path}.gpu", section.notes)
    found = {bound: {_NAMES[name]: amounts[bound] for name, amounts in asked.items() if bound in amounts} for bound in _BOUNDS}
    return {bound: amounts for bound, amounts in found.items() if amounts}


def gpu_count(resources: Mapping[str, Any]) -> int:
    """How many GPUs a task with these resources gets."""
    return int(resources.get("limits", {}).get(GPU, 0))


def without_gpus(resources: Mapping[str, Mapping[str, str]]) -> Resources:
    """The resources without GPUs."""
    kept = {bound: {name: amount for name, amount in r.items() if name != GPU} for bound, r in resources.items()}
    return {bound: amounts for bound, amounts in kept.items() if amounts}


def _by_resource(section: Section, name: str, asked: dict[str, dict[str, str]]) -> None:
    if section.has("request") and not section.has("requests"):
        # The older documents' spelling.
        _set(section, "request", name, "requests", asked)
    for bound in _BOUNDS:
        _set(section, bound, name, bound, asked)
    section.close()


def _by_bound(section: Section, bound: str, asked: dict[str, dict[str, str]]) -> None:
    for name in _NAMES:
        _set(section, name, name, bound, asked)
    section.close()


def _set(section: Section, key: str, name: str, bound: str, asked: dict[str, dict[str, str]]) -> None:
    path, value = section.at(key), section.take(key)
    if value is None:
        return
    amounts = asked.setdefault(name, {})
    amount = _amount(name, value)
    if amount is None:
        unit = {"cpu": "cores", "memory": "MiB, or text with a unit such as 2Gi"}.get(name, "whole devices")
        section.notes.error(path, f"must be a number of {unit}, 0 or more")
    elif bound in amounts:
        section.notes.error(path, f"{name} {bound} are given twice")
    else:
        amounts[bound] = amount


def _amount(name: str, value: object) -> str | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        if name == "gpu":
            return str(int(value)) if re.fullmatch(r"\d{1,6}", value, re.ASCII) else None
        return value if _QUANTITY.fullmatch(value) else None
    if not isinstance(value, int | float) or value < 0:
        return None
    if name == "gpu":
        return str(int(value)) if value == int(value) else None
    number = format(Decimal(str(value)), "f")
    return f"{number}Mi" if name == "memory" else number


def _equal(amounts: Mapping[str, str], path: str, notes: Notes) -> dict[str, str]:
    """Kubernetes cannot share a device: what is requested is the limit."""
    asked = amounts.get("limits", amounts.get("requests", "0"))
    if len(set(amounts.values())) > 1:
        notes.warn(path, f"requests and limits of devices must be equal in Kubernetes; both are {asked}, the limit")
    return dict.fromkeys(_BOUNDS, asked) if asked != "0" else {}
