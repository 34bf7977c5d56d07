"""What the members of a gang request."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from jobcommon.api.gang import PRIORITY_CLASSES, default_priority_class
from jobcommon.api.job import SchedulingPolicy
from jobcommon.api.replica import Replica
from jobcommon.api.resources import Resources, parse_quantity, pod_resources, total
from jobcommon.api.template import Positions, mapping_of
from jobcommon.api.view import ObjectView
from jobcommon.framework import Job


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


@dataclass(frozen=True, eq=False, slots=True)
class _Shape:
    """What counts of one template. One that is shared by thousands of replicas is counted as itself, not compared."""

    priority_class: str
    resources: Resources


def _shape(template: Mapping[str, Any]) -> _Shape:
    return _Shape(str(mapping_of(template.get("spec")).get("priorityClassName") or ""), pod_resources(template))
