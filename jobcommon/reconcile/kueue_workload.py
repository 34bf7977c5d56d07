"""The parts of a job's Workload: the podSets that it asks for, what Kueue has admitted of them, and the status.

Replicas with the same template are one podSet. The status has what Kueue has to know of the job, as the controllers of batch
Jobs write it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any

import msgspec

from jobcommon.api import kueue, labels
from jobcommon.api.job import TopologyMode
from jobcommon.api.kueue import Workload
from jobcommon.api.replica import Replica
from jobcommon.api.status import ConditionType
from jobcommon.api.template import Positions, mapping_of, mappings_in
from jobcommon.api.timestamp import format_time, parse_time
from jobcommon.api.view import ObjectView
from jobcommon.framework import Job
from jobcommon.manifests.children import MAX_LABEL
from jobcommon.reconcile.rendering import end_of
from jobcommon.reconcile.slots import recorded_success


@dataclass(frozen=True, slots=True)
class PodSet:
    """The replicas of one type that have the same template."""

    type: str
    positions: Positions
    count: int
    template: Mapping[str, Any]
    whole: bool
    topology: Mapping[str, str]
    least: int | None = None

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
        request = self._topology_request()
        if self.least is not None and self.whole and request.keys() <= {"podIndexLabel"}:
            # Kueue admits one podSet of a Workload in part, and none that asks for a topology.
            return {**found, "minCount": self.least}
        return {**found, "topologyRequest": request} if request else found

    def _topology_request(self) -> dict[str, Any]:
        """From the template's annotations, or the job's policy. The index label gives the rank unless indexes have gaps."""
        own = annotations_of(self.template)
        annotations = own if asks_for_topology(own) else {**own, **self.topology}
        request: dict[str, Any] = {field: annotations[key] for key, field in kueue.TOPOLOGY.items() if key in annotations}
        if not request and kueue.UNCONSTRAINED in annotations:
            request["unconstrained"] = annotations[kueue.UNCONSTRAINED] == "true"
        if size := kueue.number_of(str(annotations.get(kueue.SLICE_SIZE, ""))):
            request["podSetSliceSize"] = size
        if request and kueue.GROUP_NAME in annotations:
            request["podSetGroupName"] = annotations[kueue.GROUP_NAME]
        return {**request, "podIndexLabel": labels.REPLICA_INDEX} if self.whole else request


@dataclass(frozen=True)
class PodSets:
    """All podSets of a job. `least`: by type, the fewest replicas with which it runs."""

    job: Job
    least: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def all(self) -> tuple[PodSet, ...]:
        """The podSets, types in order."""
        return tuple(self._found())

    def name_of(self, replica: Replica) -> str:
        """The name of the podSet that the replica belongs to."""
        return _name(replica.type, self.job.replica_specs[replica.type].templates.of(replica.index))

    @property
    def counts(self) -> dict[str, int]:
        """The number of pods of each podSet, by name."""
        return {one.name: one.count for one in self.all}

    @cached_property
    def digest(self) -> str:
        """A digest of what the user asks for alone, so that another release of the operator does not change it."""
        asked = [(one.name, one.least or one.count, one.template, one.topology) for one in self.all]
        return sha256(msgspec.json.encode(asked, order="deterministic")).hexdigest()[:16]

    def _found(self) -> Iterator[PodSet]:
        topology = topology_of(self.job)
        for kind, spec in self.job.replica_specs.items():
            total = self.job.asked_of(kind)
            counts = Counter(positions for index, positions in spec.templates.applied.items() if index < total)
            counts[()] = total - counts.total()
            used = [positions for positions in spec.templates.distinct if counts[positions]] or [()]
            for positions in used:
                yield PodSet(
                    kind,
                    positions,
                    counts[positions],
                    spec.templates.at(positions),
                    len(used) == 1,
                    topology,
                    self.least.get(kind),
                )


def _name(kind: str, positions: Positions) -> str:
    return "-".join([kind.lower(), *map(str, positions)])


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


def as_admitted(
    job: Job, found: Workload, name: str, flavors: Iterable[ObjectView], replica: Replica, pod: dict[str, Any]
) -> dict[str, Any]:
    """The pod of that podSet as it is admitted: with its flavors' node labels and tolerations, its topology gate, and what
    checks add.
    """
    metadata, spec = pod["metadata"], pod["spec"]
    cluster_queue = str(mapping_of(found.status.get("admission")).get("clusterQueue") or "")
    queue_labels = {kueue.LOCAL_QUEUE_LABEL: found.spec.get("queueName"), kueue.CLUSTER_QUEUE_LABEL: cluster_queue}
    added_labels = {kueue.POD_SET_LABEL: name, **{k: v for k, v in queue_labels.items() if v and len(v) <= MAX_LABEL}}
    offset = job.index_offsets.get(replica.type.lower())
    annotations = {kueue.WORKLOAD_ANNOTATION: found.view.name} | ({kueue.INDEX_OFFSET: str(offset)} if offset else {})
    selector: dict[str, Any] = {}
    tolerations, gates = list(spec.get("tolerations") or ()), list(spec.get("schedulingGates") or ())
    if found.assignments[name].get("topologyAssignment"):
        gates += [] if {"name": kueue.TOPOLOGY_GATE} in gates else [{"name": kueue.TOPOLOGY_GATE}]
        if not asks_for_topology(annotations_of(pod)):
            annotations |= topology_of(job) or {kueue.UNCONSTRAINED: "true"}
    specs = (mapping_of(flavor.raw.get("spec")) for flavor in flavors)
    of_flavors = ({"nodeSelector": one.get("nodeLabels"), "tolerations": one.get("tolerations")} for one in specs)
    for change in (*of_flavors, *_updates(found, name)):
        selector |= mapping_of(change.get("nodeSelector"))
        added_labels |= mapping_of(change.get("labels"))
        annotations |= mapping_of(change.get("annotations"))
        tolerations += [one for one in mappings_in(change.get("tolerations")) if one not in tolerations]
    lists = {"tolerations": tolerations, "schedulingGates": gates}
    added: dict[str, Any] = {key: value for key, value in lists.items() if value}
    added |= {"nodeSelector": {**(spec.get("nodeSelector") or {}), **selector}} if selector else {}
    own_annotations = {**(metadata.get("annotations") or {}), **annotations}
    marked = {**metadata, "labels": {**added_labels, **metadata["labels"]}, "annotations": own_annotations}
    return {**pod, "metadata": marked, "spec": {**spec, **added}}


def flavors_of(assigned: Mapping[str, Any]) -> list[str]:
    """The flavors that are assigned to a podSet, each once."""
    return list(dict.fromkeys(map(str, mapping_of(assigned.get("flavors")).values())))


def _updates(found: Workload, name: str) -> Iterator[Mapping[str, Any]]:
    """What admission checks add to the pods of a podSet."""
    for check in mappings_in(found.status.get("admissionChecks")):
        yield from (update for update in mappings_in(check.get("podSetUpdates")) if update.get("name") == name)


_REQUEUED_AT_ONCE = ("Preempted", "NodeFailures")
# Of a condition: its type, whether it holds, its reason and its message.
_Change = tuple[str, bool, str, str]


def workload_status(
    job: Job, found: Workload, pod_sets: PodSets, now: float, *, active: bool, used: Mapping[str, int]
) -> Mapping[str, Any]:
    """The status that the Workload is to have. `active`: pods of the job may run, so an evicted job keeps its quota.

    `used`: by type, how many pods a job that may be smaller than it asks for has, or is to have.
    """
    status = dict(found.status)
    changes: list[_Change] = []
    evicted = found.conditions.get("Evicted", {})
    if job.status.finished and not found.has("Finished"):
        failed = job.status.has(ConditionType.FAILED)
        changes.append(("Finished", True, "Failed" if failed else "Succeeded", end_of(job.status)))
    elif found.has("Evicted") and found.has("QuotaReserved"):
        if active:
            return found.status
        reason, message = str(evicted.get("reason")), str(evicted.get("message"))
        if found.has("Admitted") and (since := parse_time(found.conditions["Admitted"].get("lastTransitionTime"))):
            before = status.get("accumulatedPastExecutionTimeSeconds") or 0
            status["accumulatedPastExecutionTimeSeconds"] = before + max(int(now - since), 0)
        changes += [
            ("Requeued", reason in _REQUEUED_AT_ONCE, reason, message),
            ("QuotaReserved", False, "PendingEvaluation", message),
            ("Admitted", False, "NoReservation", "The workload has no reservation"),
        ]
        if found.has("PodsReady"):
            changes.append(("PodsReady", False, "WaitForStart", "Not all pods are ready or succeeded"))
        status.pop("admission", None)
        if pod_sets.least:
            # It is resumed with what is asked for by then.
            status.pop("reclaimablePods", None)
    elif found.admitted:
        changes += _readiness(job, found)
        status |= _reclaimable(job, found, pod_sets, used)
    new = {**status, "conditions": _conditions(found, changes, now)}
    return found.status if new == {"conditions": [], **found.status} else new


def _readiness(job: Job, found: Workload) -> list[_Change]:
    ready, before = job.status.has(ConditionType.RUNNING), found.conditions.get("PodsReady", {})
    if ready and not found.has("PodsReady"):
        again = before.get("reason") == "WaitForRecovery"
        text = "All pods reached readiness and the workload is running"
        return [("PodsReady", True, "Recovered" if again else "Started", text)]
    if not ready and found.has("PodsReady"):
        return [("PodsReady", False, "WaitForRecovery", "At least one pod has failed, waiting for recovery")]
    return []


def _reclaimable(job: Job, found: Workload, pod_sets: PodSets, used: Mapping[str, int]) -> dict[str, Any]:
    """How many pods of each podSet have succeeded and are not run again, or are left out. The numbers only grow."""
    before = found.reclaimable
    counts = dict(before)
    for one in pod_sets.all:
        if one.whole and one.type in used and one.name in found.assignments:
            spare = int(found.assignments[one.name].get("count") or 0) - used[one.type]
            counts |= {one.name: max(spare, counts.get(one.name, 0))} if spare > 0 else {}
    for kind, indexes in recorded_success(job).items() if not job.restarts_together else ():
        done = Counter(pod_sets.name_of(Replica(kind, index)) for index in indexes.intersection(job.indexes(kind)))
        counts |= {name: max(number, counts.get(name, 0)) for name, number in done.items() if name in found.assignments}
    return {"reclaimablePods": [{"name": k, "count": v} for k, v in counts.items()]} if counts != before else {}


def _conditions(found: Workload, changes: Iterable[_Change], now: float) -> list[Mapping[str, Any]]:
    """The conditions after the changes. The time of a transition changes with its status alone."""
    known = dict(found.conditions)
    generation = mapping_of(found.raw.get("metadata")).get("generation") or 0
    for kind, is_true, reason, message in changes:
        status, old = "True" if is_true else "False", known.get(kind, {})
        since = old.get("lastTransitionTime") if old.get("status") == status else format_time(now)
        new = {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}
        known[kind] = {**new, "observedGeneration": generation}
    return list(known.values())
