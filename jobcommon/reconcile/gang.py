"""Gang scheduling: one PodGroup for each job, and pods that are marked as its members.

The reference wrote the PodGroup in every pass, read no priorities and ordered equal ones by chance; here only fields of
ours that differ are written, and the same job always gets the same PodGroup. A job is a gang as a whole or not at all: while
pods of it run that were created without a gang, a PodGroup would wait for members that never come.

Kubernetes' own scheduler has a Workload beside the PodGroup, and forgets pods that have ended, so `minCount` follows the
replicas that have not succeeded (kubernetes#142330).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from jobcommon.api import gang as names
from jobcommon.api import kueue, reasons
from jobcommon.api.definition import Watch
from jobcommon.api.gang import POD_GROUP, POD_GROUPS, WORKLOAD, WORKLOADS, GangScheduler, default_priority_class
from jobcommon.api.job import SchedulingPolicy, TopologyMode
from jobcommon.api.merge_patch import merged
from jobcommon.api.observed import Observed
from jobcommon.api.replica import Replica
from jobcommon.api.resources import parse_quantity, pod_resources, total
from jobcommon.api.status import ConditionType
from jobcommon.api.template import mapping_of, mappings_in
from jobcommon.api.view import ObjectView
from jobcommon.framework import Framework, Job, Options, Tallies, Tally
from jobcommon.manifests.children import job_selector, owned
from jobcommon.manifests.size import elastic_of, fewest
from jobcommon.reconcile.intents import Course
from jobcommon.reconcile.plan import NORMAL, WARNING, Action, Event
from jobcommon.reconcile.rendering import Note, Wait, Why
from jobcommon.reconcile.view import Admission, Lifecycle, PodShape, Proposal, Remark
from jobcommon.reconcile.wanted import Wanted, changes

# The fields of a PodGroup's spec that we own. Other fields belong to other writers.
_OWNED = {
    names.VOLCANO_API: ("minMember", "minResources", "queue", "priorityClassName", "networkTopology"),
    names.COSCHEDULING_API: ("minMember", "minResources", "scheduleTimeoutSeconds"),
}
# kubectl's annotation describes the job; on another object it would be wrong.
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# The name of the one group in its Workload, of a native gang.
_GROUP = "gang"
_NOT_TAKEN_UP = ("", "Pending")
# A Role cannot grant access to cluster-scoped objects; without priorities all pods are equal.
WATCHED_PRIORITIES = Watch(names.PRIORITY_CLASS_API, names.PRIORITY_CLASSES, namespaced=False)
AWAITED = "its pods wait for "
"""How the hold of a gang begins."""


class Gang(PodShape, Admission, Lifecycle):
    """The gang of one job in one pass. Without a gang scheduler it has no PodGroup and delays nothing."""

    @classmethod
    def access(cls, options: Options) -> Iterable[Watch]:
        """The PodGroups, and where the cluster has them Workloads, and the priorities of pods."""
        if (gang := options.gang) is not None:
            verbs, off = ("create", "delete", "patch"), f"{POD_GROUP} ({gang.api_version}) is not installed in this cluster"
            if gang.native:
                off = (
                    f"the API server serves no {POD_GROUP} of scheduling.k8s.io/v1beta1; Kubernetes 1.37 has it (feature gate "
                    "GenericWorkload), with the API server's flag --runtime-config=scheduling.k8s.io/v1beta1=true"
                )
            for plural in gang.resources:
                yield Watch(gang.api_version, plural, verbs, owned=True, optional=(404,), unserved=off)
            yield WATCHED_PRIORITIES

    @classmethod
    def concerns(cls, job: Job) -> bool:
        """See `Feature`."""
        return job.options.gang is not None or job.run_policy.scheduling_policy is not None

    @cached_property
    def off(self) -> str:
        """Why this job's pods are scheduled one by one although a gang scheduler is configured; "" if they are not."""
        chosen = self.job.options.gang
        if chosen is None:
            return ""
        if off := self.observed.missing.get(POD_GROUPS):
            return off
        if chosen.native and (why := _refused(self.framework, self.job)):
            return why
        kept = (slot.pod for slot in self.view.slots.wanted.values() if not slot.deleting)
        outside = any(pod.annotations.get(names.MEMBER, "").removesuffix(names.ALONE) != chosen.api_version for pod in kept)
        return "the job has pods that were created without the gang; suspend and resume the job" if outside else ""

    @property
    def scheduler(self) -> GangScheduler | None:
        """The scheduler that places this job's pods together, if one does."""
        return None if self.off else self.job.options.gang

    @property
    def _native(self) -> bool:
        """Whether that is Kubernetes' own, with its PodGroup and its Workload."""
        return self.scheduler is not None and self.scheduler.native

    @cached_property
    def _objects(self) -> Mapping[str, ObjectView]:
        """The job's PodGroup and its Workload as they are, by plural."""
        known = {plural: self.observed.companions.get((plural, self.job.name)) for plural in (POD_GROUPS, WORKLOADS)}
        return {plural: view for plural, view in known.items() if view is not None}

    @cached_property
    def _found(self) -> Mapping[str, Any]:
        """The PodGroup as it is; empty without one."""
        return self._objects[POD_GROUPS].raw if POD_GROUPS in self._objects else {}

    def wait(self) -> Wait | None:
        """What the creation of the job's missing pods waits for; None if they may be created."""
        return Wait(Why.NOT_YET, Note(AWAITED + self._awaited)) if self._awaited else None

    @cached_property
    def _awaited(self) -> str:
        if self.scheduler is None or not self.members:
            return ""
        if any(view.deleting for view in self._objects.values()) and not self._is_in_use:
            return f"the previous PodGroup {self.job.name} to be deleted"
        phase = mapping_of(self._found.get("status")).get("phase") or ""
        if not self.scheduler.holds_pods or phase not in _NOT_TAKEN_UP:
            return ""
        return f"{self.scheduler.name} to accept PodGroup {self.job.name}"

    @cached_property
    def members(self) -> tuple[Replica, ...]:
        """The replicas that run or are to run now.

        Not those that have succeeded or have failed for good in a job that goes on, nor those that the framework creates only
        when others are ready: of a native gang never.
        """
        return tuple(
            r
            for r in self.job.replicas
            if r.index not in self.view.tallies[r.type].succeeded_indexes
            and not self._gives_up(r)
            and (r in self.view.slots.wanted or self.framework.may_create(self.job, r, self._once_created))
            and not (self._native and _comes_later(self.framework, self.job, r))
        )

    @cached_property
    def _once_created(self) -> Tallies:
        """The slots as they are once each has a pod: one who waits for no more than that is a member from the beginning."""
        tallies = self.view.tallies
        return {kind: replace(t, pending=t.wanted - t.active - t.succeeded) for kind, t in tallies.items()}

    def _gives_up(self, replica: Replica) -> bool:
        slot = self.view.slots.wanted.get(replica)
        return slot is not None and slot.given_up

    @property
    def min_member(self) -> int:
        """The number of pods that must be placed together.

        If it exceeds the number of pods, the job waits, as in the reference. Non-members do not count: the members would
        wait for them for ever (mpi-operator#608).
        """
        wanted, everything = _policy(self.job).min_available, self.job.total_replicas
        elastic = elastic_of(self.framework, self.job)
        if elastic is not None:
            kind = self.framework.scaled_type
            least = everything - self.job.count(kind) + min(fewest(elastic), self.job.count(kind))
            wanted = least if wanted is None else min(wanted, least)
        if wanted is not None and wanted > everything:
            return wanted
        return min(everything if wanted is None else wanted, len(self.members))

    @property
    def _min_resources(self) -> dict[str, str]:
        """The policy's, or what the `min_member` most important pods request; of equal ones the first in order."""
        given, specs = _policy(self.job).min_resources, self.job.replica_specs
        if given is not None:
            return {name: str(parse_quantity(amount)) for name, amount in sorted(given.items())}
        classes = {name: view for (plural, name), view in self.observed.cluster.items() if plural == names.PRIORITY_CLASSES}
        if (default := default_priority_class(self.observed.cluster)) is not None:
            classes[""] = default
        values = {name: value for name, view in classes.items() if isinstance(value := view.raw.get("value"), int)}
        # Thousands of replicas share a template, which is counted as itself.
        members = [(replica.type, specs[replica.type].templates.of(replica.index)) for replica in self.members]
        templates = {key: specs[key[0]].templates.at(key[1]) for key in dict.fromkeys(members)}
        importance = {key: values.get(_priority_class(template), 0) for key, template in templates.items()}
        chosen = Counter(sorted(members, key=lambda key: -importance[key])[: self.min_member])
        requests = {key: pod_resources(templates[key]) for key in chosen}
        needs = total({name: amount * count for name, amount in requests[key].items()} for key, count in chosen.items())
        return {name: str(amount) for name, amount in needs.items()}

    @property
    def _priority(self) -> str:
        """The policy's class, or that of the first template that names one, as in the reference for MPIJob."""
        named = (_priority_class(spec.template) for spec in self.job.replica_specs.values())
        return _policy(self.job).priority_class or next(filter(None, named), "")

    @property
    def _is_in_use(self) -> bool:
        """Whether pods keep a native PodGroup that is being deleted, and are placed by it."""
        return self._native and any(slot.stays for slot in self.view.slots.wanted.values())

    def _of_kubernetes(self, api_version: str) -> Iterator[Wanted]:
        """The Workload and the PodGroup."""
        job, metadata = self.job, owned(self.job, self.job.name, job_selector(self.framework, self.job))
        count = {"schedulingPolicy": {"gang": {"minCount": max(self.min_member, 1)}}}
        fields: dict[str, Any] = dict(count)
        if topology := _required(job):
            fields["schedulingConstraints"] = {"topology": [{"key": topology}]}
        if job.restarts_together:
            fields["disruptionMode"] = {"all": {}}
        if self._priority:
            fields["priorityClassName"] = self._priority
        controller = {"apiGroup": job.api_version.rpartition("/")[0], "kind": job.kind, "name": job.name}
        specs: Iterable[tuple[str, str, dict[str, Any]]] = (
            (WORKLOADS, WORKLOAD, {"podGroupTemplates": [{"name": _GROUP, **fields}], "controllerRef": controller}),
            (POD_GROUPS, POD_GROUP, {"workloadRef": {"workloadName": job.name, "templateName": _GROUP}, **fields}),
        )
        for plural, kind, spec in specs:
            manifest = {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}
            corrected: dict[str, Any] = {}
            if (found := self._objects.get(plural)) is not None:
                templates = mappings_in(mapping_of(found.raw.get("spec")).get("podGroupTemplates"))
                changed = count if plural == POD_GROUPS else {"podGroupTemplates": [{**one, **count} for one in templates]}
                corrected = {"spec": changed}
            after = (WORKLOADS, job.name) if plural == POD_GROUPS else None
            yield Wanted(api_version, plural, job.name, manifest, corrected, after=after)

    # -- what is written ----------------------------------------------------------------------------------------------

    def act(self, course: Course | None) -> Iterable[Proposal]:
        """Keep its objects as they are to be, and report problems of the gang."""
        yield from self._changes(course)
        yield from self._reports() if course is Course.GO_ON else ()

    def _changes(self, course: Course | None) -> Iterable[Action]:
        """Create and correct the PodGroup of a job that goes on; delete that of one that does not."""
        if course is None or (course is Course.GO_ON and self.view.facts.blocked.types):
            return ()
        wanted = self.wanted() if course is Course.GO_ON else unwanted(self.job, self.observed)
        return changes(self.job, self.observed, wanted)

    def wanted(self) -> Iterable[Wanted]:
        """The gang's objects as they are to be; none without pods to place."""
        if self.scheduler is None or not self.members:
            return unwanted(self.job, self.observed)
        api_version, job = self.scheduler.api_version, self.job
        if self._native:
            return self._of_kubernetes(api_version)
        metadata = owned(job, job.name, job_selector(self.framework, job))
        if annotations := {key: value for key, value in job.annotations.items() if key != _LAST_APPLIED}:
            metadata["annotations"] = annotations
        spec = self._group_spec(mapping_of(self._found.get("spec")), api_version)
        manifest = {"apiVersion": api_version, "kind": POD_GROUP, "metadata": metadata, "spec": merged({}, spec)}
        return [Wanted(api_version, POD_GROUPS, job.name, manifest, {"spec": spec})]

    def _group_spec(self, found: Mapping[str, Any], api_version: str) -> dict[str, Any]:
        """Our fields of the spec of the PodGroup, where it is now as `found`. None: the field must not be there."""
        job, policy = self.job, _policy(self.job)
        fields: dict[str, Any] = {
            "minMember": self.min_member,
            "minResources": _amounts(mapping_of(found.get("minResources")), self._min_resources),
            "queue": policy.queue or job.annotations.get(names.VOLCANO_QUEUE) or found.get("queue"),
            "priorityClassName": self._priority or None,
            "scheduleTimeoutSeconds": policy.schedule_timeout_seconds,
            # A server that does not know the field drops it; then it must not be written again and again.
            "networkTopology": found.get("networkTopology") if self._found else _network_topology(policy) or None,
        }
        return {key: fields[key] for key in _OWNED[api_version]}

    def shape(self, replica: Replica, pod: dict[str, Any]) -> dict[str, Any]:
        """The pod as a member of the gang. A schedulerName in its template is kept."""
        if self.scheduler is None:
            return pod
        metadata, spec, name = pod["metadata"], pod["spec"], self.job.name
        annotations = {**(metadata.get("annotations") or {}), names.MEMBER: self.scheduler.api_version}
        if self._native:
            if alone := _comes_later(self.framework, self.job, replica):
                annotations[names.MEMBER] += names.ALONE
            pod = {**pod, "metadata": {**metadata, "annotations": annotations}}
            return pod if alone else {**pod, "spec": {**spec, "schedulingGroup": {"podGroupName": name}}}
        group: Mapping[str, str] = {}
        if self.scheduler.api_version == names.VOLCANO_API:
            groups = (names.VOLCANO_GROUP, names.VOLCANO_OWN_GROUP)
            annotations |= {**dict.fromkeys(groups, name), names.VOLCANO_TASK: replica.type.lower()}
        else:
            group = {names.COSCHEDULING_GROUP: name}
        return {
            **pod,
            "metadata": {**metadata, "labels": {**metadata["labels"], **group}, "annotations": annotations},
            "spec": {**spec, "schedulerName": spec.get("schedulerName") or self.scheduler.name},
        }

    @property
    def _topology_ignored(self) -> str:
        """Why the topology of the policy is not applied: the field and its remedy; "" if it is, or without a topology."""
        topology, scheduler = _policy(self.job).topology, self.scheduler
        queued = self.job.options.kueue and self.job.labels.get(kueue.QUEUE_LABEL)
        if topology is None or self.off or queued:
            return ""
        field = "spec.runPolicy.schedulingPolicy.topology"
        if scheduler is None or not (scheduler.native or scheduler == names.VOLCANO):
            who = f"the gang scheduler {scheduler.name}" if scheduler else "an operator without a gang scheduler"
            advice = "remove it, or run the operator with --gang-scheduler-name kubernetes or volcano"
            return f"{field}: {who} does not support it; {advice}"
        if scheduler.native and topology.mode == TopologyMode.PREFERRED:
            return f"{field}.mode: Kubernetes supports only Required, so pods are placed without it"
        name = "schedulingConstraints" if scheduler.native else "networkTopology"
        if not self._found or mapping_of(self._found.get("spec")).get(name):
            return ""
        gate = "the feature gate TopologyAwareWorkloadScheduling" if scheduler.native else "Volcano's definition of PodGroup"
        return f"{field}: PodGroup {self.job.name} was created without it; check {gate}, then suspend and resume the job"

    # -- what is reported ---------------------------------------------------------------------------------------------

    def _problems(self) -> Iterator[tuple[str, str]]:
        """What is wrong with the gang, the most important first, and the reasons of events on it; "" for none."""
        if self.off:
            yield reasons.GANG_OFF, f"gang scheduling is off: {self.off}"
        if self.scheduler is not None and self.min_member > (many := self.job.total_replicas):
            field = "spec.runPolicy.schedulingPolicy.minAvailable"
            yield "", f"{field}: {self.min_member} is more than the {many} replicas; lower it, or the job waits"
        if self._topology_ignored:
            yield reasons.TOPOLOGY_IGNORED, self._topology_ignored

    def _reports(self) -> Iterator[Proposal]:
        """Events, each emitted once, and the first problem for the condition of a job without a more important message."""
        problems = list(self._problems())
        yield from (Event(WARNING, reason, text, lasting=True) for reason, text in problems if reason)
        yield from (Remark(ConditionType.CREATED, Note(text)) for _, text in problems[:1])
        if self._awaited:
            yield Event(NORMAL, reasons.WAITING, f"Pods wait for {self._awaited}", lasting=True)
        if self.scheduler is not None and not self._native and (others := other_schedulers(self.job, self.scheduler.name)):
            kept = f"Templates name the scheduler {', '.join(others)}, which is kept"
            text = f"{kept}; {self.scheduler.name} places only the other pods"
            yield Event(WARNING, reasons.OTHER_SCHEDULER, text, lasting=True)


def unwanted(job: Job, observed: Observed, why: str = "no pods to place") -> list[Wanted]:
    """The PodGroup of a job without pods, and its Workload: it would reserve resources in its queue."""
    if job.options.gang is None or POD_GROUPS in observed.missing:
        return []
    return [Wanted(job.options.gang.api_version, plural, job.name, None, why=why) for plural in job.options.gang.resources]


def other_schedulers(job: Job, name: str) -> list[str]:
    """The schedulers other than `name` that templates of the job ask for."""
    templates = [t for spec in job.replica_specs.values() for t in (spec.template, *(o.template for o in spec.overrides))]
    named = {mapping_of(template.get("spec")).get("schedulerName") for template in templates}
    return sorted(str(other) for other in named if other and other != name)


def _policy(job: Job) -> SchedulingPolicy:
    return job.run_policy.scheduling_policy or SchedulingPolicy()


def _priority_class(template: Mapping[str, Any]) -> str:
    return str(mapping_of(template.get("spec")).get("priorityClassName") or "")


def _required(job: Job) -> str:
    """The key of the node label that all pods of the gang must have in common; "" without one."""
    topology = _policy(job).topology
    return topology.key if topology is not None and topology.mode != TopologyMode.PREFERRED else ""


def _network_topology(policy: SchedulingPolicy) -> dict[str, str]:
    """Volcano's. Its tiers that are discovered by labels are named by their keys; only the hard mode reads the name."""
    if policy.topology is None:
        return {}
    if policy.topology.mode == TopologyMode.PREFERRED:
        return {"mode": "soft"}
    return {"mode": "hard", "highestTierName": policy.topology.key}


def _amounts(found: Mapping[str, Any], wanted: Mapping[str, str]) -> Mapping[str, Any] | None:
    """What is wanted, and None for other resources; what is `found` if a server has only written the same amounts otherwise."""
    try:
        as_we_write = {name: str(parse_quantity(amount)) for name, amount in found.items()}
    except ValueError:
        as_we_write = {}
    return (found if as_we_write == wanted else {**dict.fromkeys(found), **wanted}) if wanted else None


def _comes_later(framework: Framework, job: Job, replica: Replica) -> bool:
    """Whether the replica's pod is created only when others are ready: in a gang with them it would wait for itself."""
    return not framework.may_create(job, replica, {k: Tally(job.count(k), pending=job.count(k)) for k in job.replica_specs})


def _refused(framework: Framework, job: Job) -> str:
    """Why the templates of the job rule a gang out: the field and its remedy; "" if they do not."""
    schedulers: dict[str, str] = {}
    for kind, spec in job.replica_specs.items():
        field = f"spec.{framework.replica_specs}[{kind}].template.spec"
        for template in (spec.template, *(override.template for override in spec.overrides)):
            pod = mapping_of(template.get("spec"))
            if pod.get("schedulingGroup"):
                return f"{field}.schedulingGroup names another gang; remove it, the operator sets it"
            if template is spec.template or pod.get("schedulerName"):
                schedulers.setdefault(str(pod.get("schedulerName") or "default-scheduler"), field)
    if len(schedulers) < 2:
        return ""
    (first, _), (other, field) = list(schedulers.items())[:2]
    return f"{field}.schedulerName is {other}, but other pods have {first}; use the same for all"
