"""Kueue's Workload of a job that is labelled for a queue, where this operator owns it (``--kueue own``).

While the Workload is not admitted, the job is treated as suspended, though its spec does not say so: `Queue.held` tells why.
What is admitted goes into the pods, and the Workload is told of the job's state. It keeps its quota until the pods have ended.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

from jobcommon.api import kueue, labels
from jobcommon.api.gang import PRIORITY_CLASSES
from jobcommon.api.job import SchedulingPolicy
from jobcommon.api.kueue import KUEUE_API, WORKLOADS, Workload
from jobcommon.api.observed import Observed
from jobcommon.api.replica import Replica
from jobcommon.api.status import ConditionType
from jobcommon.api.template import mapping_of, mappings_in
from jobcommon.api.timestamp import format_time, parse_time
from jobcommon.framework import Framework, Job
from jobcommon.reconcile import begun
from jobcommon.reconcile.children import MAX_LABEL, job_selector, owned, owner_reference
from jobcommon.reconcile.plan import Action, Create, Delete, Update
from jobcommon.reconcile.pod_sets import PodSets, annotations_of, asks_for_topology, topology_of
from jobcommon.reconcile.slots import recorded_success

# What no event of the job tells, such as that a priority class has come into being, is looked for again after so many seconds.
RECHECK_SECONDS = 30.0
_REQUEUED_AT_ONCE = ("Preempted", "NodeFailures")


@dataclass(frozen=True)
class Queue:
    """The queue of one job in one pass. One that the operator does not look after holds nothing and writes nothing."""

    framework: Framework
    job: Job
    observed: Observed

    @cached_property
    def name(self) -> str:
        """The queue that the job is labelled for; "" if there is none, or if the operator leaves it to others."""
        return str(self.job.labels.get(kueue.QUEUE_LABEL) or "") if self.job.options.kueue else ""

    @cached_property
    def workload_name(self) -> str:
        """The name of the job's Workload. A job that was deleted and created again gets another one."""
        job = self.job
        base = f"{job.kind.lower()}-{job.name}"[: MAX_LABEL - 6].rstrip("-.")
        return self.prebuilt or f"{base}-{sha256(job.uid.encode()).hexdigest()[:5]}"

    @property
    def prebuilt(self) -> str:
        """The name of the Workload that others have made for the job; "" for none."""
        return kueue.prebuilt_name(self.job.labels, self.job.annotations)

    @cached_property
    def found(self) -> Workload | None:
        """The job's Workload as it is."""
        if not self.job.options.kueue or self.observed.kueue_off:
            return None
        view = self.observed.companions.get((WORKLOADS, self.workload_name))
        return Workload(view) if view is not None else None

    @cached_property
    def held(self) -> str:
        """Why the queue does not let the job run; "" if it does. A job that runs goes on when Kueue's API is gone."""
        if not self.name or (self.observed.kueue_off and begun.is_started(self.job)):
            return ""
        why = self._unadmitted()
        return f"it waits in queue {self.name}: {why}" if why else ""

    @property
    def lacks(self) -> str:
        """What is missing to create pods as they are admitted; "" if nothing is."""
        missing = dict.fromkeys(flavor for one in self._assignments.values() for flavor in _flavors(one))
        unread = [flavor for flavor in missing if (kueue.FLAVORS, flavor) not in self.observed.cluster]
        return (
            f"ResourceFlavor {unread[0]} is not there, or the operator may not list and watch resourceflavors" if unread else ""
        )

    def wake_at(self, now: float) -> float | None:
        """When to look again for what no event tells (seconds since the epoch)."""
        return now + RECHECK_SECONDS if self.lacks or (self.name and self.found is None and self._obstacle) else None

    # -- what is written ----------------------------------------------------------------------------------------------

    def actions(self, now: float, *, active: bool) -> list[Action]:
        """Create, correct, tell or delete the Workload. `active`: pods of the job may run, so its quota is in use."""
        found, job = self.found, self.job
        if found is None:
            none = self.prebuilt or self._obstacle or job.run_policy.suspend or job.status.finished or job.errors
            return [] if none or active or not self.name or self.observed.kueue_off else [self._create()]
        if found.view.deleting:
            return []
        if found.view.owner is None or found.view.owner.uid != job.uid:
            return [self._take_over(found)] if found.view.owner is None and not job.status.finished else []
        if job.status.finished:
            return [] if active else self._told(found, now, active=active)
        if not self.name:
            return [self._delete(found, "the job has no queue label")]
        if job.run_policy.suspend and not self.prebuilt:
            return [] if active else [self._delete(found, "job is suspended")]
        if self._stale(found):
            return [] if active or self.prebuilt else self._replaced(found)
        changed = self._queue_and_priority(found)
        if changed != found.spec:
            return [Update(KUEUE_API, WORKLOADS, found.view.name, {**found.raw, "spec": changed})]
        return self._told(found, now, active=active)

    def place(self, replica: Replica, pod: dict[str, Any]) -> dict[str, Any]:
        """The pod as it is admitted: with its flavors' node labels and tolerations, its topology gate, and what checks add."""
        name = self._pod_sets.name_of(replica)
        assigned, found = self._assignments.get(name), self.found
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

    # -- why it waits -------------------------------------------------------------------------------------------------

    def _unadmitted(self) -> str:
        found = self.found
        if self.observed.kueue_off:
            return self.observed.kueue_off
        if found is None and self.prebuilt:
            return (
                f"there is no Workload {self.prebuilt} (label {kueue.PREBUILT}) with the labels "
                f"{labels.OPERATOR_NAME}={self.framework.operator_name} and {labels.JOB_NAME}={self.job.name}"
            )
        if found is None:
            rejected = self.observed.rejections.get((WORKLOADS, self.workload_name))
            refused = rejected.message if rejected is not None else self.observed.refusal
            return self._obstacle or refused or "its Workload is to be created"
        if found.view.deleting:
            return f"its Workload {found.view.name} is being deleted"
        if found.view.owner is None or found.view.owner.uid != self.job.uid:
            other = found.view.owner
            return f"its Workload {found.view.name} is {f'that of {other.kind} {other.name}' if other else 'to be taken over'}"
        if self._stale(found):
            return self._too_many or f"the job is not the one for which its Workload {found.view.name} asks"
        if not found.admitted:
            return found.said
        return "" if begun.is_started(self.job) else self.lacks

    @cached_property
    def _obstacle(self) -> str:
        """Why the job's Workload cannot be made; "" if it can be."""
        return self._too_many or (self._priority if isinstance(self._priority, str) else "")

    @cached_property
    def _too_many(self) -> str:
        return self._pod_sets.too_many(self.framework.replica_specs)

    @cached_property
    def _pod_sets(self) -> PodSets:
        return PodSets(self.job)

    def _stale(self, found: Workload) -> bool:
        """Whether the Workload asks for other pods than the job has. An invalid change of the job changes nothing."""
        if self.job.errors:
            return False
        digest = annotations_of(found.raw).get(kueue.POD_SETS)
        return digest != self._pod_sets.digest if digest else found.counts != self._pod_sets.counts

    # -- the parts of the Workload ------------------------------------------------------------------------------------

    def _create(self) -> Create:
        job = self.job
        metadata = owned(job, self.workload_name, {**job_selector(self.framework, job), kueue.JOB_UID_LABEL: job.uid})
        passed_on = {k: v for k, v in job.annotations.items() if k.startswith(kueue.PROVISIONING_PREFIX)}
        metadata["annotations"] = {**passed_on, kueue.POD_SETS: self._pod_sets.digest}
        manifest = {"apiVersion": KUEUE_API, "kind": kueue.WORKLOAD, "metadata": metadata, "spec": self._spec}
        return Create(KUEUE_API, WORKLOADS, self.workload_name, manifest, required=False)

    @property
    def _spec(self) -> dict[str, Any]:
        most = str(self.job.labels.get(kueue.MAX_TIME_LABEL, ""))
        priority = {} if isinstance(self._priority, str) else self._priority
        spec = {"podSets": [one.to_json() for one in self._pod_sets.all], "queueName": self.name, **priority}
        return {**spec, "maximumExecutionTimeSeconds": int(most)} if most.isdecimal() and int(most) else spec

    @cached_property
    def _priority(self) -> dict[str, Any] | str:
        """The fields of the priority, or why it is not known. Kueue's class wins over that of the pods."""
        job, known = self.job, self.observed.cluster
        if name := str(job.labels.get(kueue.PRIORITY_LABEL) or ""):
            kind, plural, group = kueue.WORKLOAD_PRIORITY, kueue.WORKLOAD_PRIORITIES, KUEUE_API.partition("/")[0]
        else:
            kind, plural, group = kueue.POD_PRIORITY, PRIORITY_CLASSES, "scheduling.k8s.io"
            of_pods = (mapping_of(one.template.get("spec")).get("priorityClassName") for one in self._pod_sets.all)
            policy = job.run_policy.scheduling_policy or SchedulingPolicy()
            name = policy.priority_class or next((str(one) for one in of_pods if one), "")
        if not name:
            classes = (view.raw for (of, _), view in known.items() if of == PRIORITY_CLASSES)
            defaults = [one for one in classes if one.get("globalDefault") is True]
            if not defaults:
                return {"priority": 0}
            name = str(min(defaults, key=lambda one: one.get("value") or 0)["metadata"]["name"])
        if (view := known.get((plural, name))) is None:
            field = f"the label {kueue.PRIORITY_LABEL}" if kind == kueue.WORKLOAD_PRIORITY else "priorityClassName"
            return (
                f"{field} names {kind} {name}, which is not there or which the operator may not list; create it or name another"
            )
        return {"priorityClassRef": {"group": group, "kind": kind, "name": name}, "priority": view.raw.get("value") or 0}

    def _queue_and_priority(self, found: Workload) -> Mapping[str, Any]:
        """The spec with the queue and the priority that the job has now, as far as Kueue lets them change."""
        spec, priority = dict(found.spec), self._priority
        if self.prebuilt or isinstance(priority, str):
            return spec
        reserved, old, new = found.has("QuotaReserved"), spec.get("priorityClassRef"), priority.get("priorityClassRef")
        if not reserved:
            spec["queueName"] = self.name
        kinds = {mapping_of(one).get("kind") for one in (old, new)}
        if old != new and (not reserved or kinds == {kueue.WORKLOAD_PRIORITY}):
            spec = {key: value for key, value in spec.items() if key != "priorityClassRef"} | priority
        return spec

    def _take_over(self, found: Workload) -> Update:
        metadata = mapping_of(found.raw.get("metadata"))
        own = {**job_selector(self.framework, self.job), kueue.JOB_UID_LABEL: self.job.uid}
        owners = [*mappings_in(metadata.get("ownerReferences")), owner_reference(self.job)]
        metadata = {**metadata, "labels": {**mapping_of(metadata.get("labels")), **own}, "ownerReferences": owners}
        return Update(KUEUE_API, WORKLOADS, found.view.name, {**found.raw, "metadata": metadata})

    def _replaced(self, found: Workload) -> list[Action]:
        """A Workload without quota asks for the new pods and keeps its place; with quota it cannot be changed."""
        if self._obstacle or found.has("QuotaReserved"):
            return [self._delete(found, "the job has changed")]
        metadata = mapping_of(found.raw.get("metadata"))
        annotations = {**mapping_of(metadata.get("annotations")), kueue.POD_SETS: self._pod_sets.digest}
        kept = {"active": found.spec["active"]} if "active" in found.spec else {}
        manifest = {**found.raw, "metadata": {**metadata, "annotations": annotations}, "spec": {**self._spec, **kept}}
        return [Update(KUEUE_API, WORKLOADS, found.view.name, manifest)]

    def _delete(self, found: Workload, why: str) -> Delete:
        return Delete(KUEUE_API, WORKLOADS, found.view.name, found.view.uid, why)

    # -- what the Workload is told ------------------------------------------------------------------------------------

    def _told(self, found: Workload, now: float, *, active: bool) -> list[Action]:
        """The Workload's status with what Kueue has to know of the job; nothing if it has it already."""
        status = dict(found.status)
        conditions = _Conditions(found, now)
        job, evicted = self.job, found.conditions.get("Evicted", {})
        if job.status.finished and not found.has("Finished"):
            failed = job.status.has(ConditionType.FAILED)
            end = job.status.condition(ConditionType.FAILED if failed else ConditionType.SUCCEEDED)
            conditions.set("Finished", True, "Failed" if failed else "Succeeded", end.message if end else "")
        elif found.has("Evicted") and found.has("QuotaReserved"):
            if active:
                return []
            reason, message = str(evicted.get("reason")), str(evicted.get("message"))
            if found.has("Admitted") and (since := parse_time(found.conditions["Admitted"].get("lastTransitionTime"))):
                before = status.get("accumulatedPastExecutionTimeSeconds") or 0
                status["accumulatedPastExecutionTimeSeconds"] = before + max(int(now - since), 0)
            conditions.set("Requeued", reason in _REQUEUED_AT_ONCE, reason, message)
            conditions.set("QuotaReserved", False, "PendingEvaluation", message)
            conditions.set("Admitted", False, "NoReservation", "The workload has no reservation")
            if found.has("PodsReady"):
                conditions.set("PodsReady", False, "WaitForStart", "Not all pods are ready or succeeded")
            status.pop("admission", None)
        elif found.admitted:
            self._tell_readiness(found, conditions)
            status |= self._reclaimable(found)
        told = {**status, "conditions": conditions.listed}
        if told == {"conditions": [], **found.status}:
            return []
        return [Update(KUEUE_API, WORKLOADS, found.view.name, {**found.raw, "status": told}, "status")]

    def _tell_readiness(self, found: Workload, conditions: "_Conditions") -> None:
        ready, before = self.job.status.has(ConditionType.RUNNING), found.conditions.get("PodsReady", {})
        if ready and not found.has("PodsReady"):
            again = before.get("reason") == "WaitForRecovery"
            text = "All pods reached readiness and the workload is running"
            conditions.set("PodsReady", True, "Recovered" if again else "Started", text)
        elif not ready and found.has("PodsReady"):
            text = "At least one pod has failed, waiting for recovery"
            conditions.set("PodsReady", False, "WaitForRecovery", text)

    def _reclaimable(self, found: Workload) -> dict[str, Any]:
        """How many pods of each podSet have succeeded and are not run again. The numbers only grow."""
        if self.job.restarts_together:
            return {}
        before = {str(one.get("name")): one.get("count") or 0 for one in mappings_in(found.status.get("reclaimablePods"))}
        counts = dict(before)
        for kind, indexes in recorded_success(self.job).items():
            done = Counter(self._pod_sets.name_of(Replica(kind, index)) for index in indexes if index < self.job.count(kind))
            counts |= {name: max(number, counts.get(name, 0)) for name, number in done.items() if name in self._assignments}
        return {"reclaimablePods": [{"name": k, "count": v} for k, v in counts.items()]} if counts != before else {}

    # -- what is admitted ---------------------------------------------------------------------------------------------

    @cached_property
    def _assignments(self) -> Mapping[str, Mapping[str, Any]]:
        return self.found.assignments if self.found is not None and self.found.has("Admitted") else {}

    def _flavor_changes(self, assigned: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        for flavor in _flavors(assigned):
            if (view := self.observed.cluster.get((kueue.FLAVORS, flavor))) is not None:
                spec = mapping_of(view.raw.get("spec"))
                yield {"nodeSelector": spec.get("nodeLabels"), "tolerations": spec.get("tolerations")}


class _Conditions:
    """The conditions of a Workload, to be changed."""

    def __init__(self, found: Workload, now: float) -> None:
        self._found, self._now = dict(found.conditions), format_time(now)
        self._generation = mapping_of(found.raw.get("metadata")).get("generation") or 0

    def set(self, kind: str, is_true: bool, reason: str, message: str) -> None:
        """Set one condition. The time of its transition changes with its status alone."""
        status, old = "True" if is_true else "False", self._found.get(kind, {})
        since = old.get("lastTransitionTime") if old.get("status") == status else self._now
        new = {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}
        self._found[kind] = {**new, "observedGeneration": self._generation}

    @property
    def listed(self) -> list[Mapping[str, Any]]:
        """All of them."""
        return list(self._found.values())


def _flavors(assigned: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(map(str, mapping_of(assigned.get("flavors")).values())))


def _updates(found: Workload, name: str) -> Iterator[Mapping[str, Any]]:
    """What admission checks add to the pods of a podSet."""
    for check in mappings_in(found.status.get("admissionChecks")):
        yield from (update for update in mappings_in(check.get("podSetUpdates")) if update.get("name") == name)
