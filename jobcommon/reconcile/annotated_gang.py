"""Gangs without a PodGroup: YuniKorn and Koordinator read all they need from the pods.

Each reads it from the first pod that it sees, so all pods of a job that are created at one time have the same annotations.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from jobcommon.api import gang as names
from jobcommon.api.job import SchedulingPolicy
from jobcommon.reconcile.resources import Resources

# What a placeholder must have in common with the pod whose place it holds.
_PLACED_BY = ("nodeSelector", "tolerations", "affinity", "topologySpreadConstraints")


class GangMember(NamedTuple):
    """One pod of a gang: its type, which of the type's templates it has, what it requests, and whether the gang needs it."""

    type: str
    template: int
    resources: Resources
    spec: Mapping[str, Any]
    needed: bool


def group_name(kind: str, template: int) -> str:
    """The task group of the pods of a type with the same template, which is 0 for the one without overrides."""
    return f"{kind.lower()}-{template}" if template else kind.lower()


def yunikorn(
    uid: str, policy: SchedulingPolicy, members: Iterable[GangMember]
) -> tuple[Mapping[str, str], Mapping[str, str], Mapping[tuple[str, int], str]]:
    """Labels and annotations of all pods, and the name of the task group of each type's templates that has one.

    Placeholders hold the places of each group's `minMember` pods until all have one. Every pod has all groups in an annotation,
    so templates of a type that differ in nothing that counts here share one.
    """
    counts: Counter[tuple[str, int]] = Counter()
    shapes: dict[tuple[str, int], dict[str, Any]] = {}
    for member in members:
        key = member.type, member.template
        counts[key] += member.needed
        if key not in shapes:
            amounts = {name: str(amount) for name, amount in sorted(member.resources.items())}
            shapes[key] = {"minResource": amounts, **{name: value for name in _PLACED_BY if (value := member.spec.get(name))}}
    named: dict[tuple[str, int], str] = {}
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for key, count in counts.items():
        if count:
            new = {"name": group_name(*key), "minMember": 0, **shapes[key]}
            group = found.setdefault((key[0], json.dumps(shapes[key], sort_keys=True)), new)
            group["minMember"] += count
            named[key] = group["name"]
    groups = [*found.values()]
    labels = dict.fromkeys((names.YUNIKORN_APP, "applicationId"), uid)
    labels |= dict.fromkeys((names.YUNIKORN_QUEUE, "queue"), policy.queue) if policy.queue else {}
    seconds = policy.schedule_timeout_seconds
    parameters = "gangSchedulingStyle=Hard" + (f" placeholderTimeoutInSeconds={seconds}" if seconds else "")
    annotations = {names.YUNIKORN_GROUPS: json.dumps(groups, separators=(",", ":")), names.YUNIKORN_PARAMETERS: parameters}
    return labels, annotations, named


def koordinator(name: str, policy: SchedulingPolicy, least: int, total: int) -> dict[str, str]:
    """The annotations of a pod in a gang of `total` pods, of which `least` are placed at once."""
    prefix, seconds = names.KOORDINATOR_PREFIX, policy.schedule_timeout_seconds
    wanted = {"name": name, "min-available": least, "total-number": max(least, total)}
    wanted |= {"waiting-time": f"{seconds}s"} if seconds else {}
    return {f"{prefix}/{key}": str(value) for key, value in wanted.items()}
