"""A gang of Kubernetes' own scheduler: the Workload and the PodGroup of a job.

The scheduler forgets pods that have ended, so `minCount` follows the replicas that have not succeeded (kubernetes#142330).
v1alpha2 does not let it be changed: while none of the pods has a node both objects are made anew, and later a replacement that
the group could not place any more is no member of it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from jobcommon.api import workload
from jobcommon.api.gang import POD_GROUPS
from jobcommon.api.observed import Observed
from jobcommon.api.replica import Replica
from jobcommon.api.template import mapping_of
from jobcommon.api.view import ObjectView
from jobcommon.api.workload import WORKLOADS, PodGroupTemplate
from jobcommon.framework import Framework, Job, Tally
from jobcommon.reconcile.wanted import Wanted

# The name of the one group in its Workload.
_GROUP = "gang"


def objects(job: Job, observed: Observed) -> Mapping[str, ObjectView]:
    """The job's PodGroup and its Workload as they are, by plural."""
    found = {plural: observed.companions.get((plural, job.name)) for plural in (POD_GROUPS, WORKLOADS)}
    return {plural: view for plural, view in found.items() if view is not None}


def wanted(
    job: Job,
    api_version: str,
    found: Mapping[str, ObjectView],
    count: int,
    priority_class: str,
    topology: str,
    metadata: Mapping[str, Any],
) -> Iterator[Wanted]:
    """The Workload and the PodGroup of a gang of `count` pods; `topology`: the key of a node label, or "".

    Of those `found`, `minCount` follows where it may be changed.
    """
    template = PodGroupTemplate(
        _GROUP, count, topology=topology, disrupt_all=job.restarts_together, priority_class=priority_class
    )
    group, _, _ = job.api_version.rpartition("/")
    controller = {"apiGroup": group, "kind": job.kind, "name": job.name}
    manifests = {
        WORKLOADS: workload.workload_manifest(api_version, metadata, [template], controller),
        POD_GROUPS: workload.pod_group_manifest(api_version, metadata, template, job.name),
    }
    for plural, manifest in manifests.items():
        fixed = api_version == workload.V1ALPHA2 or plural not in found
        corrected = {} if fixed else {"spec": workload.with_min_count(found[plural].raw, count)["spec"]}
        after = (WORKLOADS, job.name) if plural == POD_GROUPS else None
        yield Wanted(api_version, plural, job.name, manifest, corrected, after=after)


def comes_later(framework: Framework, job: Job, replica: Replica) -> bool:
    """Whether the replica's pod is created only when others are ready: in a gang with them it would wait for itself."""
    return not framework.may_create(job, replica, {kind: Tally(wanted=job.count(kind)) for kind in job.replica_specs})


def refused(framework: Framework, job: Job) -> str:
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
    return f"{field}.schedulerName is {other}, that of other pods {first}; write the same for all"
