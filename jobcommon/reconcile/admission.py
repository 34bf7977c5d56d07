"""What Kueue has admitted of a job, and how its pods get it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from jobcommon.api import kueue
from jobcommon.api.kueue import Workload
from jobcommon.api.replica import Replica
from jobcommon.api.template import mapping_of, mappings_in
from jobcommon.api.view import ObjectView
from jobcommon.framework import Job
from jobcommon.reconcile.children import MAX_LABEL
from jobcommon.reconcile.pod_sets import PodSets, annotations_of, asks_for_topology, topology_of
from jobcommon.reconcile.rendering import Hold


@dataclass(frozen=True)
class Admission:
    """What is admitted of one job: nothing without an admitted Workload. `cluster`: see `Observed`."""

    job: Job
    workload: Workload | None
    pod_sets: PodSets
    cluster: Mapping[tuple[str, str], ObjectView]

    @cached_property
    def assignments(self) -> Mapping[str, Mapping[str, Any]]:
        """What is assigned to each podSet, by name."""
        return self.workload.assignments if self.workload is not None and self.workload.has("Admitted") else {}

    @property
    def hold(self) -> Hold | None:
        """What is missing to create pods as they are admitted; None if nothing is."""
        missing = dict.fromkeys(flavor for one in self.assignments.values() for flavor in _flavors(one))
        unread = [flavor for flavor in missing if (kueue.FLAVORS, flavor) not in self.cluster]
        text = "is not there, or the operator may not list and watch resourceflavors"
        return Hold(f"ResourceFlavor {unread[0]} {text}") if unread else None

    def place(self, replica: Replica, pod: dict[str, Any]) -> dict[str, Any]:
        """The pod as it is admitted: with its flavors' node labels and tolerations, its topology gate, and what checks add."""
        name = self.pod_sets.name_of(replica)
        assigned, found = self.assignments.get(name), self.workload
        if assigned is None or found is None:
            return pod
        metadata, spec = pod["metadata"], pod["spec"]
        cluster_queue = str(mapping_of(found.status.get("admission")).get("clusterQueue") or "")
        queue_labels = {kueue.LOCAL_QUEUE_LABEL: found.spec.get("queueName"), kueue.CLUSTER_QUEUE_LABEL: cluster_queue}
        added_labels = {kueue.POD_SET_LABEL: name, **{k: v for k, v in queue_labels.items() if v and len(v) <= MAX_LABEL}}
        offset = self.job.index_offsets.get(replica.type.lower())
        annotations = {kueue.WORKLOAD_ANNOTATION: found.view.name} | ({kueue.INDEX_OFFSET: str(offset)} if offset else {})
        selector: dict[str, Any] = {}
        tolerations, gates = list(spec.get("tolerations") or ()), list(spec.get("schedulingGates") or ())
        if assigned.get("topologyAssignment"):
            gates += [] if {"name": kueue.TOPOLOGY_GATE} in gates else [{"name": kueue.TOPOLOGY_GATE}]
            if not asks_for_topology(annotations_of(pod)):
                annotations |= topology_of(self.job) or {kueue.UNCONSTRAINED: "true"}
        for change in (*self._flavor_changes(assigned), *_updates(found, name)):
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

    def _flavor_changes(self, assigned: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        for flavor in _flavors(assigned):
            if (view := self.cluster.get((kueue.FLAVORS, flavor))) is not None:
                spec = mapping_of(view.raw.get("spec"))
                yield {"nodeSelector": spec.get("nodeLabels"), "tolerations": spec.get("tolerations")}


def _flavors(assigned: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(map(str, mapping_of(assigned.get("flavors")).values())))


def _updates(found: Workload, name: str) -> Iterator[Mapping[str, Any]]:
    """What admission checks add to the pods of a podSet."""
    for check in mappings_in(found.status.get("admissionChecks")):
        yield from (update for update in mappings_in(check.get("podSetUpdates")) if update.get("name") == name)
