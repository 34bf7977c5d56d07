"""Kueue's Workload of a job that is labelled for a queue, where this operator owns it (``--kueue own``).

While the Workload is not admitted, the job is treated as suspended, though its spec is not: `Queue.suspension` says why.
What is admitted goes into the pods, and the job's state into the Workload (`workload`). It keeps its quota until the pods have
ended.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from hashlib import sha256
from typing import Any

from jobcommon.api import kueue, labels, reasons
from jobcommon.api.definition import Right, Watch
from jobcommon.api.gang import PRIORITY_CLASSES, default_priority_class
from jobcommon.api.job import SchedulingPolicy
from jobcommon.api.kueue import KUEUE_API, KUEUE_WORKLOADS, Workload
from jobcommon.api.merge_patch import merged
from jobcommon.api.replica import Replica
from jobcommon.api.status import ConditionType
from jobcommon.api.template import mapping_of, mappings_in
from jobcommon.framework import Job, Options
from jobcommon.manifests.children import MAX_LABEL, job_selector, owned, owner_reference
from jobcommon.manifests.size import elastic_of, fewest
from jobcommon.reconcile import limits
from jobcommon.reconcile.facts import Facts, Go, Stop
from jobcommon.reconcile.gang import WATCHED_PRIORITIES
from jobcommon.reconcile.intents import Course
from jobcommon.reconcile.kueue_workload import PodSets, annotations_of, as_admitted, flavors_of, workload_status
from jobcommon.reconcile.plan import WARNING, Action, Event, Get
from jobcommon.reconcile.rendering import Note, Wait, Why
from jobcommon.reconcile.view import Admission, Lifecycle, PodShape, Proposal, Remark, View
from jobcommon.reconcile.wanted import Wanted, changes

_Fields = Mapping[str, Any] | None


class Queue(PodShape, Admission, Lifecycle):
    """The queue of one job in one pass. One that the operator does not look after holds nothing and writes nothing."""

    @classmethod
    def access(cls, options: Options) -> Iterable[Watch | Right]:
        """The Workloads, and what they are made from and admitted to."""
        if options.kueue:
            verbs = ("create", "delete", "patch")
            off = f"Workload ({KUEUE_API}) is not served in this cluster; install Kueue, or run the operator without --kueue"
            denied = "the operator may not list workloads.kueue.x-k8s.io; set the chart's value kueue: own"
            workloads = Watch(KUEUE_API, KUEUE_WORKLOADS, verbs, owned=True, adopted=True)
            yield replace(workloads, unserved=off, forbidden=denied)
            yield Right(KUEUE_API, "workloads/status", ("patch",))
            yield from (Watch(KUEUE_API, plural, namespaced=False) for plural in kueue.CLUSTER_WIDE)
            yield WATCHED_PRIORITIES

    def __init__(self, view: View | Facts) -> None:
        # Of the facts alone, before there is a view, it says what quota the job has.
        super().__init__(view)  # type: ignore[arg-type]

    @property
    def _off(self) -> str:
        """Why Workloads cannot be used now; "" if they can."""
        return self.observed.missing.get(KUEUE_WORKLOADS, "")

    @classmethod
    def concerns(cls, job: Job) -> bool:
        """See `Feature`."""
        return job.options.kueue or kueue.QUEUE_LABEL in job.labels

    @cached_property
    def queue(self) -> str:
        """The queue of the job; "" if it has none, or if the operator leaves it to others.

        A label that is removed or changed has no effect while there is quota, as Kueue's own integrations refuse it.
        """
        label = str(self.job.labels.get(kueue.QUEUE_LABEL) or "") if self.job.options.kueue else ""
        return self._holding or label

    @property
    def _holding(self) -> str:
        """The queue in which the job has quota; "" without."""
        found = self.found
        return (
            str(found.spec.get("queueName") or "") if found is not None and self._is_ours and found.has("QuotaReserved") else ""
        )

    @classmethod
    def quota(cls, facts: Facts) -> Go | Stop:
        """Whether its Workload is admitted, and with how many replicas of a type that may have fewer than are asked for."""
        made = cls(facts)
        if made.suspension is not None:
            return Stop(made.suspension, made._as_cached, bool(made.queue))
        return Go(made._most, bool(made.queue))

    def act(self, course: Course | None) -> Iterable[Proposal]:
        """Keep its Workload as it is to be, and report that the job is not queued, or keeps its quota."""
        yield from self._changes(course)
        if self._not_queued:
            yield Event(WARNING, reasons.NOT_QUEUED, self._not_queued, lasting=True)
            yield Remark(ConditionType.RUNNING, Note(self._not_queued))
        yield from (Remark(None, note) for note in self._keeps_quota())

    def _keeps_quota(self) -> Iterable[Note]:
        """That its label names another queue than that of its quota, or none."""
        label = str(self.job.labels.get(kueue.QUEUE_LABEL) or "")
        if not self._holding or label == self._holding:
            return []
        keeps = f"the job keeps its quota in queue {self.queue} until its last pod has ended"
        return [Note(f"the label {kueue.QUEUE_LABEL} {f'names {label}' if label else 'is gone'}; {keeps}")]

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
        if not self.job.options.kueue or self._off:
            return None
        if self.prebuilt:
            view = self.observed.companions.get((KUEUE_WORKLOADS, self.prebuilt))
            return Workload(view) if view is not None else None
        views = (view for (plural, _), view in sorted(self.observed.companions.items()) if plural == KUEUE_WORKLOADS)
        return next((Workload(view) for view in views if view.owner is not None and view.owner.uid == self.job.uid), None)

    @property
    def _is_ours(self) -> bool:
        """Whether the Workload is the job's, and not about to be taken over, or another one's."""
        owner = self.found.view.owner if self.found is not None else None
        return owner is not None and owner.uid == self.job.uid

    @property
    def _as_cached(self) -> tuple[Get, str] | None:
        """The Workload, and the version of it that is decided upon; the cache of it may be older than that of jobs."""
        if self._off:
            return None
        if self.found is None:
            return Get(KUEUE_API, KUEUE_WORKLOADS, self.workload_name), ""
        return Get(KUEUE_API, KUEUE_WORKLOADS, self.found.view.name), self.found.view.resource_version

    @cached_property
    def suspension(self) -> Note | None:
        """Why the queue does not let the job run; None if it does. A job that runs goes on when Kueue's API is gone."""
        if not self.queue or (self._off and limits.is_started(self.job)):
            return None
        return Note(waits_in(self.queue), why) if (why := self._not_admitted()) else None

    @cached_property
    def _assignments(self) -> Mapping[str, Mapping[str, Any]]:
        """What is assigned to each podSet, by name; nothing without an admitted Workload."""
        return self.found.assignments if self.found is not None and self.found.has("Admitted") else {}

    def wait(self) -> Wait | None:
        """What is missing to create pods as they are admitted."""
        known = self.observed.cluster
        unread = [
            flavor for one in self._assignments.values() for flavor in flavors_of(one) if (kueue.FLAVORS, flavor) not in known
        ]
        text = "does not exist, or the operator may not list and watch resourceflavors"
        return Wait(Why.NOT_ALLOWED, Note(f"ResourceFlavor {unread[0]} {text}")) if unread else None

    def shape(self, replica: Replica, pod: dict[str, Any]) -> dict[str, Any]:
        """The pod as it is admitted."""
        name = self._pod_sets.name_of(replica)
        if self.found is None or name not in self._assignments:
            return pod
        flavors = [self.observed.cluster.get((kueue.FLAVORS, one)) for one in flavors_of(self._assignments[name])]
        return as_admitted(self.job, self.found, name, [view for view in flavors if view is not None], replica, pod)

    @cached_property
    def _not_queued(self) -> str:
        found = not_queued(self.job)
        return f"not queued: {'; '.join(found)}" if found else ""

    # -- what is written ----------------------------------------------------------------------------------------------

    def _changes(self, course: Course | None) -> Iterable[Action]:
        """Create, correct or delete the Workload, or write its status.

        While pods may run its quota is in use. MultiKueue runs the job elsewhere once its Workload is admitted here.
        """
        if not self.job.options.kueue or (self.job.managed_elsewhere and self.job.managed_by != kueue.MULTIKUEUE):
            return ()
        stopping = course is not None and course is not Course.FINISHED_NONE
        active = course is Course.GO_ON or (stopping and not all(slot.over for slot in self.view.slots.ours))
        # One that is under our name and not the job's is not corrected: it is in the way of ours, which the create shows.
        there = {(KUEUE_WORKLOADS, self.found.view.name): self.found.view} if self.found is not None else {}
        return changes(self.job, replace(self.observed, companions=there), self._workload(active=active))

    def _workload(self, *, active: bool) -> Sequence[Wanted]:
        """The Workload as it is to be."""
        found, job = self.found, self.job
        if found is None:
            if active or not self.queue or self._off:
                return []
            left_out = self.prebuilt or job.run_policy.suspend or job.status.finished or job.errors or self._not_made
            return [] if left_out else [self._wanted()]
        if found.view.deleting:
            return []
        if not self._is_ours:
            unowned = found.view.owner is None and not job.status.finished
            return [self._wanted({"metadata": self._ownership(found)})] if unowned else []
        if job.status.finished:
            return [] if active else [self._wanted(status=self._status(found, active=active))]
        if not self.queue:
            return [self._unwanted(found, "the job has no queue label")]
        if job.run_policy.suspend and not self.prebuilt:
            return [] if active else [self._unwanted(found, "job is suspended")]
        if self._stale(found):
            return [] if active or self.prebuilt else [self._replaced(found)]
        # One that Kueue has made says nothing of the job's pods but how many there are.
        digest = {} if self.prebuilt or job.errors else {"metadata": {"annotations": {kueue.POD_SETS: self._pod_sets.digest}}}
        corrected = {**digest, "spec": self._queue_and_priority(found)}
        return [self._wanted(corrected, self._status(found, active=active))]

    # -- why it waits -------------------------------------------------------------------------------------------------

    def _not_admitted(self) -> str:
        found = self.found
        if self._off:
            return self._off
        if found is None and self.prebuilt:
            return (
                f"there is no Workload {self.prebuilt} (label {kueue.PREBUILT}) with the labels "
                f"{labels.OPERATOR_NAME}={self.framework.operator_name} and {labels.JOB_NAME}={self.job.name}"
            )
        if found is None:
            rejected = self.observed.rejections.get((KUEUE_WORKLOADS, self.workload_name))
            refused = rejected.message if rejected is not None else self.observed.refusal
            invalid = "its Workload is created when its spec is valid" if self.job.errors else ""
            return invalid or self._not_made or refused or "its Workload has not been created yet"
        if found.view.deleting:
            return f"its Workload {found.view.name} is being deleted"
        if not self._is_ours:
            other = found.view.owner
            state = f"owned by {other.kind} {other.name}" if other else "about to be taken over"
            return f"its Workload {found.view.name} is {state}"
        if self._stale(found):
            return f"its Workload {found.view.name} was made for another spec of the job"
        if not found.admitted:
            return found.why_not_admitted
        hold = self.wait()
        return "" if limits.is_started(self.job) or hold is None else str(hold.words)

    @cached_property
    def _not_made(self) -> str:
        """Why the job's Workload cannot be made; "" if it can be."""
        return self._priority if isinstance(self._priority, str) else ""

    @cached_property
    def _pod_sets(self) -> PodSets:
        elastic = elastic_of(self.framework, self.job)
        return PodSets(self.job, {self.framework.scaled_type: fewest(elastic)} if elastic is not None else {})

    @property
    def _most(self) -> Mapping[str, int] | None:
        """By type the replicas for which there is quota, of a job that may run with fewer than it asks for."""
        found = self.found
        if found is None or not found.admitted or not self._pod_sets.least:
            return None
        most = dict.fromkeys(self._pod_sets.least, 0)
        for one in self._pod_sets.all:
            if one.type in most:
                admitted = int(found.assignments.get(one.name, {}).get("count") or 0)
                most[one.type] += admitted - found.reclaimable.get(one.name, 0)
        return most

    def _stale(self, found: Workload) -> bool:
        """Whether the Workload asks for other pods than the job has. While its spec is invalid, nothing of the job changes."""
        if self.job.errors:
            return False
        if self._pod_sets.least and not found.has("QuotaReserved") and found.counts != self._pod_sets.counts:
            return True
        digest = annotations_of(found.raw).get(kueue.POD_SETS)
        return digest != self._pod_sets.digest if digest else found.counts != self._pod_sets.counts

    # -- the parts of the Workload ------------------------------------------------------------------------------------

    def _wanted(self, corrected: _Fields = None, status: _Fields = None, *, exact: bool = False) -> Wanted:
        name, manifest = (self.workload_name, self._manifest) if self.found is None else (self.found.view.name, {})
        # Whether it is refused depends on the job's labels, too, which may change without a change of its spec.
        return Wanted(KUEUE_API, KUEUE_WORKLOADS, name, manifest, corrected, status, exact, required=False, retried=True)

    @property
    def _manifest(self) -> dict[str, Any]:
        job = self.job
        metadata = owned(job, self.workload_name, {**job_selector(self.framework, job), kueue.JOB_UID_LABEL: job.uid})
        passed_on = {k: v for k, v in job.annotations.items() if k.startswith(kueue.PROVISIONING_PREFIX)}
        metadata["annotations"] = {**passed_on, kueue.POD_SETS: self._pod_sets.digest}
        spec = merged({}, self._spec)
        return {"apiVersion": KUEUE_API, "kind": kueue.KUEUE_WORKLOAD, "metadata": metadata, "spec": spec}

    @staticmethod
    def _unwanted(found: Workload, why: str) -> Wanted:
        return Wanted(KUEUE_API, KUEUE_WORKLOADS, found.view.name, None, why=why)

    @property
    def _spec(self) -> dict[str, Any]:
        most = kueue.number_of(str(self.job.labels.get(kueue.MAX_TIME_LABEL, "")))
        priority = {} if isinstance(self._priority, str) else self._priority
        spec = {"podSets": [one.to_json() for one in self._pod_sets.all], "queueName": self.queue, "priorityClassRef": None}
        return {**spec, **priority, "maximumExecutionTimeSeconds": most or None}

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
        view = known.get((plural, name)) if name else default_priority_class(known)
        if view is None and not name:
            return {"priority": 0}
        if view is None:
            field = f"the label {kueue.PRIORITY_LABEL}" if kind == kueue.WORKLOAD_PRIORITY else "priorityClassName"
            return (
                f"{field} names {kind} {name}, which does not exist or which the operator may not list; create it or name "
                "another"
            )
        return {"priorityClassRef": {"group": group, "kind": kind, "name": view.name}, "priority": view.raw.get("value") or 0}

    def _queue_and_priority(self, found: Workload) -> Mapping[str, Any]:
        """The queue and the priority that the job has now, as far as Kueue lets them change."""
        priority = self._priority
        if self.prebuilt or isinstance(priority, str):
            return {}
        reserved, old, new = found.has("QuotaReserved"), found.spec.get("priorityClassRef"), priority.get("priorityClassRef")
        spec: dict[str, Any] = {} if reserved else {"queueName": self.queue}
        kinds = {mapping_of(one).get("kind") for one in (old, new)}
        if old != new and (not reserved or kinds == {kueue.WORKLOAD_PRIORITY}):
            spec |= {"priorityClassRef": None, **priority}
        return spec

    def _ownership(self, found: Workload) -> Mapping[str, Any]:
        own = {**job_selector(self.framework, self.job), kueue.JOB_UID_LABEL: self.job.uid}
        owners = mappings_in(mapping_of(found.raw.get("metadata")).get("ownerReferences"))
        return {"labels": own, "ownerReferences": [*owners, owner_reference(self.job)]}

    def _replaced(self, found: Workload) -> Wanted:
        """A Workload without quota asks for the new pods and keeps its place; with quota it cannot be changed."""
        if self._not_made or found.has("QuotaReserved"):
            return self._unwanted(found, "the job has changed")
        annotations = {kueue.POD_SETS: self._pod_sets.digest}
        return self._wanted({"metadata": {"annotations": annotations}, "spec": self._spec}, exact=True)

    def _status(self, found: Workload, *, active: bool) -> Mapping[str, Any]:
        """The status that it is to have, and None for what goes."""
        used: dict[str, int] = {}
        if self.job.status.attempt_replicas:
            ours = Counter(slot.replica.type for slot in self.view.slots.ours if not slot.over)
            used = {kind: max(self.job.count(kind), ours[kind]) for kind in self._pod_sets.least}
        status = workload_status(self.job, found, self._pod_sets, self.now, active=active, used=used)
        return {**dict.fromkeys(found.status), **status}


def waits_in(queue: str) -> str:
    """How the hold of a job in that queue begins."""
    return f"it waits in queue {queue}: "


UNQUEUED = labels.PREFIX + "unqueued"
"""The annotation of a job that may have a queue's label and run without it, with the value ``allowed``."""


OWN_IT = "run the operator with --kueue own (docs/kueue.md)"
"""What to do for a kind that Kueue does not queue itself. It does not start with an integration that it does not have."""


def not_queued(job: Job) -> tuple[str, str] | tuple[()]:
    """That the job is not queued, and what to change; nothing for a job that is, or that needs no queue.

    Kueue's webhook suspends each new job of a kind whose integration is on, and Kueue later sets `suspend` to false. Since
    Kueue 0.19.0 most kinds of kubeflow.org are off by default (kueue#12606): such a job has no `suspend`.
    """
    queue = job.labels.get(kueue.QUEUE_LABEL)
    if not queue or job.options.kueue or job.run_policy.suspend is not None or job.annotations.get(UNQUEUED) == "allowed":
        return ()
    integration = kueue.integration_of(job.api_version, job.kind)
    add = f"add {integration} to integrations.frameworks of Kueue's configuration"
    return (
        f"the label {kueue.QUEUE_LABEL} names queue {queue}, but Kueue has not suspended the job",
        f"{add if integration in kueue.INTEGRATED else OWN_IT}, or annotate the job with {UNQUEUED}=allowed",
    )
