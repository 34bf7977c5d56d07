"""What the members of a gang request, and how YuniKorn and Koordinator, which have no PodGroup, read it from the pods.

Each reads it from the first pod that it sees, so all pods of a job that are created at one time have the same annotations.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from jobcommon.api import gang as names
from jobcommon.api.gang import PRIORITY_CLASSES, YUNIKORN, default_priority_class
from jobcommon.api.job import SchedulingPolicy
from jobcommon.api.replica import Replica
from jobcommon.api.resources import Resources, parse_quantity, pod_resources, total
from jobcommon.api.template import Positions, mapping_of
from jobcommon.api.view import ObjectView
from jobcommon.framework import Job

# What a placeholder must have in common with the pod whose place it holds.
_PLACED_BY = ("nodeSelector", "tolerations", "affinity", "topologySpreadConstraints")


def koordinator(name: str, policy: SchedulingPolicy, least: int, total: int) -> dict[str, str]:
    """The annotations of a pod in a gang of `total` pods, of which `least` are placed at once."""
    prefix, seconds = names.KOORDINATOR_PREFIX, policy.schedule_timeout_seconds
    wanted = {"name": name, "min-available": least, "total-number": max(least, total)}
    wanted |= {"waiting-time": f"{seconds}s"} if seconds else {}
    return {f"{prefix}/{key}": str(value) for key, value in wanted.items()}


@dataclass(frozen=True)
class Needs:
    """The needs of a gang with those members, of which `least` must be placed together. `cluster`: see `Observed`."""

    job: Job
    policy: SchedulingPolicy
    members: tuple[Replica, ...]
    least: int
    cluster: Mapping[tuple[str, str], ObjectView]

    @property
    def resources(self) -> dict[str, str]:
        """The policy's, or what the `least` most important pods request; of equal ones the first in order."""
        given = self.policy.min_resources
        if given is not None:
            return {name: str(parse_quantity(amount)) for name, amount in sorted(given.items())}
        shapes = sorted(map(self._shape, self.members), key=lambda shape: -self._importance(shape))
        chosen = Counter(shapes[: self.least])
        needs = total({name: amount * count for name, amount in shape.resources.items()} for shape, count in chosen.items())
        return {name: str(amount) for name, amount in needs.items()}

    @property
    def priority_class(self) -> str:
        """The policy's, or that of the first template that names one, as in the reference for MPIJob."""
        named = (shapes[()].priority_class for shapes in self._shapes.values())
        return self.policy.priority_class or next(filter(None, named), "")

    @cached_property
    def task_groups(self) -> tuple[Mapping[str, str], Mapping[str, str], Mapping[tuple[str, int], str]]:
        """The labels and annotations of all pods for YuniKorn, and the task groups' names by type and template.

        Placeholders hold the places of each group's `minMember` pods, of the most important members, until all have one. Every
        pod has all groups in an annotation, so templates of a type that differ in nothing that counts here share one.
        """
        counts: Counter[tuple[str, int]] = Counter()
        shapes: dict[tuple[str, int], dict[str, Any]] = {}
        for position, replica in enumerate(sorted(self.members, key=lambda r: -self._importance(self._shape(r)))):
            key = replica.type, self.template_of(replica)
            counts[key] += position < self.least
            if key not in shapes:
                templates = self.job.replica_specs[replica.type].templates
                spec = mapping_of(templates.at(templates.of(replica.index)).get("spec"))
                amounts = {name: str(amount) for name, amount in sorted(self._shape(replica).resources.items())}
                shapes[key] = {"minResource": amounts, **{name: value for name in _PLACED_BY if (value := spec.get(name))}}
        named: dict[tuple[str, int], str] = {}
        found: dict[tuple[str, str], dict[str, Any]] = {}
        for (kind, template), count in counts.items():
            if count:
                shape = shapes[kind, template]
                # The template without overrides is 0.
                new = {"name": f"{kind.lower()}-{template}" if template else kind.lower(), "minMember": 0, **shape}
                group = found.setdefault((kind, json.dumps(shape, sort_keys=True)), new)
                group["minMember"] += count
                named[kind, template] = group["name"]
        labels = dict.fromkeys((names.YUNIKORN_APP, "applicationId"), self.job.uid)
        labels |= dict.fromkeys((names.YUNIKORN_QUEUE, "queue"), self.policy.queue) if self.policy.queue else {}
        seconds = self.policy.schedule_timeout_seconds
        parameters = "gangSchedulingStyle=Hard" + (f" placeholderTimeoutInSeconds={seconds}" if seconds else "")
        groups = json.dumps([*found.values()], separators=(",", ":"))
        return labels, {names.YUNIKORN_GROUPS: groups, names.YUNIKORN_PARAMETERS: parameters}, named

    def template_of(self, replica: Replica) -> int:
        """Which of its type's templates the replica has; 0 is the one without overrides."""
        templates = self.job.replica_specs[replica.type].templates
        return sorted({(), *templates.distinct}).index(templates.of(replica.index))

    def _shape(self, replica: Replica) -> "_Shape":
        return self._shapes[replica.type][self.job.replica_specs[replica.type].templates.of(replica.index)]

    def _importance(self, shape: "_Shape") -> int:
        return self._priorities.get(shape.priority_class, 0)

    @cached_property
    def _priorities(self) -> Mapping[str, int]:
        classes = {name: view for (plural, name), view in self.cluster.items() if plural == PRIORITY_CLASSES}
        if (default := default_priority_class(self.cluster)) is not None:
            classes[""] = default
        return {name: value for name, view in classes.items() if isinstance(value := view.raw.get("value"), int)}

    @cached_property
    def _shapes(self) -> "Mapping[str, Mapping[Positions, _Shape]]":
        """By type and by what applies of its overrides, what matters of the template."""
        return {
            kind: {positions: _shape(spec.templates.at(positions)) for positions in spec.templates.distinct}
            for kind, spec in self.job.replica_specs.items()
        }


def annotations_of_all(job: Job) -> Mapping[str, str]:
    """The annotations that grow with the job and stand on each of its pods: YuniKorn's task groups of the whole gang."""
    if job.options.gang != YUNIKORN:
        return {}
    first: dict[tuple[str, Positions], Replica] = {}
    for replica in job.replicas:
        first.setdefault((replica.type, job.replica_specs[replica.type].templates.of(replica.index)), replica)
    policy = job.run_policy.scheduling_policy or SchedulingPolicy()
    return Needs(job, policy, tuple(first.values()), len(first), {}).task_groups[1]


@dataclass(frozen=True, eq=False, slots=True)
class _Shape:
    """What counts of one template. One that is shared by thousands of replicas is counted as itself, not compared."""

    priority_class: str
    resources: Resources


def _shape(template: Mapping[str, Any]) -> _Shape:
    return _Shape(str(mapping_of(template.get("spec")).get("priorityClassName") or ""), pod_resources(template))
