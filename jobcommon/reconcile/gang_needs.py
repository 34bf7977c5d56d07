"""What the members of a gang request: their resources, their priorities, and their task groups for YuniKorn."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from jobcommon.api.gang import PRIORITY_CLASSES, YUNIKORN, default_priority_class
from jobcommon.api.job import SchedulingPolicy
from jobcommon.api.quantity import parse_quantity
from jobcommon.api.replica import Replica
from jobcommon.api.template import Positions, mapping_of
from jobcommon.api.view import ObjectView
from jobcommon.framework import Job
from jobcommon.reconcile import annotated_gang
from jobcommon.reconcile.resources import Resources, pod_resources, total


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

        The gang needs the most important members.
        """
        ordered = sorted(self.members, key=lambda r: -self._importance(self._shape(r)))
        members = [self._member(replica, needed=position < self.least) for position, replica in enumerate(ordered)]
        return annotated_gang.yunikorn(self.job.uid, self.policy, members)

    def _member(self, replica: Replica, *, needed: bool) -> annotated_gang.GangMember:
        templates = self.job.replica_specs[replica.type].templates
        pod = mapping_of(templates.at(templates.of(replica.index)).get("spec"))
        return annotated_gang.GangMember(replica.type, self.template_of(replica), self._shape(replica).resources, pod, needed)

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
