"""The podSets of a job's Workload: replicas with the same template are asked for together."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Any

import msgspec

from jobcommon.api import kueue, labels
from jobcommon.api.job import TopologyMode
from jobcommon.api.replica import Replica
from jobcommon.api.template import Positions, mapping_of, mappings_in
from jobcommon.framework import Job


@dataclass(frozen=True, slots=True)
class PodSet:
    """The replicas of one type that have the same template."""

    type: str
    positions: Positions
    count: int
    template: Mapping[str, Any]
    whole: bool
    topology: Mapping[str, str]

    @property
    def name(self) -> str:
        """Its name in the Workload."""
        return _name(self.type, self.positions)

    def to_json(self) -> dict[str, Any]:
        """The podSet as the Workload has it."""
        metadata, spec = mapping_of(self.template.get("metadata")), mapping_of(self.template.get("spec"))
        kept = {key: metadata[key] for key in ("labels", "annotations") if metadata.get(key)}
        containers = {
            key: [_without_repeated_variables(container) for container in mappings_in(spec[key])]
            for key in ("initContainers", "containers")
            if spec.get(key)
        }
        template = {"metadata": kept, "spec": {**spec, **containers}}
        found = {"name": self.name, "count": self.count, "template": template}
        return {**found, "topologyRequest": request} if (request := self._topology_request()) else found

    def _topology_request(self) -> dict[str, Any]:
        """From the template's annotations, or the job's policy. The index label gives the rank unless indexes have gaps."""
        own = annotations_of(self.template)
        annotations = own if asks_for_topology(own) else {**own, **self.topology}
        request: dict[str, Any] = {field: annotations[key] for key, field in kueue.TOPOLOGY.items() if key in annotations}
        if not request and kueue.UNCONSTRAINED in annotations:
            request["unconstrained"] = annotations[kueue.UNCONSTRAINED] == "true"
        if (size := str(annotations.get(kueue.SLICE_SIZE, ""))).isdecimal():
            request["podSetSliceSize"] = int(size)
        if request and kueue.GROUP_NAME in annotations:
            request["podSetGroupName"] = annotations[kueue.GROUP_NAME]
        return {**request, "podIndexLabel": labels.REPLICA_INDEX} if self.whole else request


@dataclass(frozen=True)
class PodSets:
    """All podSets of a job."""

    job: Job

    @cached_property
    def all(self) -> tuple[PodSet, ...]:
        """The podSets, types in order. Too many for a Workload are merged, those of a type for which Kueue counts the same."""
        return tuple({one.name: one for one in self._merged.values()}.values()) or self._distinct

    def name_of(self, replica: Replica) -> str:
        """The name of the podSet that the replica belongs to."""
        name = _name(replica.type, self.job.replica_specs[replica.type].templates.of(replica.index))
        return self._merged[name].name if name in self._merged else name

    @property
    def counts(self) -> dict[str, int]:
        """The number of pods of each podSet, by name."""
        return {one.name: one.count for one in self.all}

    @cached_property
    def digest(self) -> str:
        """A digest of what the user asks for alone, so that another release of the operator does not change it."""
        asked = [(one.name, one.count, one.template, one.topology) for one in self._distinct]
        return sha256(msgspec.json.encode(asked, order="deterministic")).hexdigest()[:16]

    def too_many(self, replica_specs: str) -> str:
        """Why a Workload cannot have so many podSets; "" if it can. `replica_specs`: the field of the spec to change."""
        if (number := len(self.all)) <= kueue.MAX_POD_SETS:
            return ""
        kinds = Counter(one.type for one in self.all)
        return (
            f"spec.{replica_specs}.{kinds.most_common(1)[0][0]}.overrides: templates that differ in resources, nodes, "
            f"tolerations or topology would be {number} podSets, and a Workload has at most {kueue.MAX_POD_SETS}; "
            "make more of them equal in these"
        )

    @cached_property
    def _distinct(self) -> tuple[PodSet, ...]:
        return tuple(self._found())

    @cached_property
    def _merged(self) -> Mapping[str, PodSet]:
        """By the name of each of too many podSets, the one that asks for its pods; empty if there are not too many."""
        if len(self._distinct) <= kueue.MAX_POD_SETS:
            return {}
        groups: dict[tuple[str, bytes], list[PodSet]] = {}
        for one in self._distinct:
            groups.setdefault((one.type, _counted(one.template)), []).append(one)
        numbers = Counter(kind for kind, _ in groups)
        sums = (
            (members, replace(members[0], count=sum(one.count for one in members), whole=numbers[kind] == 1))
            for (kind, _), members in groups.items()
        )
        return {one.name: together for members, together in sums for one in members}

    def _found(self) -> Iterator[PodSet]:
        topology = topology_of(self.job)
        for kind, spec in self.job.replica_specs.items():
            total = self.job.count(kind)
            counts = Counter(positions for index, positions in spec.templates.applied.items() if index < total)
            counts[()] = total - counts.total()
            used = [positions for positions in spec.templates.distinct if counts[positions]] or [()]
            for positions in used:
                yield PodSet(kind, positions, counts[positions], spec.templates.at(positions), len(used) == 1, topology)


def _name(kind: str, positions: Positions) -> str:
    return "-".join([kind.lower(), *map(str, positions)])


def _counted(template: Mapping[str, Any]) -> bytes:
    """What decides where the pods of a template may run, and what quota they need: all but what their containers do."""
    spec = mapping_of(template.get("spec"))
    containers = {
        key: [{field: one.get(field) for field in ("resources", "restartPolicy")} for one in mappings_in(spec.get(key))]
        for key in ("initContainers", "containers")
    }
    asked = {key: value for key, value in annotations_of(template).items() if key.startswith(kueue.KUEUE_PREFIX)}
    return msgspec.json.encode([{**spec, **containers}, asked], order="deterministic")


def asks_for_topology(annotations: Mapping[str, Any]) -> bool:
    """Whether they ask for a topology."""
    return any(key in annotations for key in (*kueue.TOPOLOGY, kueue.UNCONSTRAINED))


def topology_of(job: Job) -> dict[str, str]:
    """The topology of the job's policy as the annotation of a template; nothing if it has none."""
    policy = job.run_policy.scheduling_policy
    if policy is None or (topology := policy.topology) is None:
        return {}
    return {kueue.PREFERRED if topology.mode == TopologyMode.PREFERRED else kueue.REQUIRED: topology.key}


def annotations_of(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """The annotations of an object or template."""
    return mapping_of(mapping_of(manifest.get("metadata")).get("annotations"))


def _without_repeated_variables(container: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of variables with the same name the last counts; a Workload may have each once."""
    variables = {entry.get("name"): entry for entry in mappings_in(container.get("env"))}
    return {**container, "env": list(variables.values())} if variables else container
