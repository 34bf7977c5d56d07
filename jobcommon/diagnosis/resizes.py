"""The size of a job: that of the present attempt, what this waits for, and when the next one begins with another."""

from collections.abc import Sequence
from math import inf, isfinite

from jobcommon.api.kueue import QUEUE_LABEL
from jobcommon.api.observed import Observed
from jobcommon.api.replica import Replica
from jobcommon.api.template import mapping_of
from jobcommon.api.timestamp import format_time, parse_time
from jobcommon.causes.cause import Cause, in_short, listed
from jobcommon.causes.cause_reasons import Reason
from jobcommon.diagnosis.found import Found
from jobcommon.diagnosis.pods import cause_of
from jobcommon.manifests.size import elastic_of, fewest, named
from jobcommon.reconcile import in_place
from jobcommon.reconcile.elastic import Elastic
from jobcommon.reconcile.ending import is_over
from jobcommon.reconcile.features import features_of
from jobcommon.reconcile.slots import attempt_of
from jobcommon.reconcile.spec_warnings import unaware
from jobcommon.reconcile.view import look


def stops_awaited(found: Found, now: float) -> tuple[str, float | None] | None:
    """What a restart in place waits for, and until when; None if it does not stop programs now."""
    job = found.read
    replicas = {job.pod_name(replica): replica for replica in job.replicas if job.restarts_in_place}
    earlier = [
        m.pod for m in found.members if m.pod.name in replicas and attempt_of(m.pod) < job.attempt and not is_over(m.pod)
    ]
    if not earlier:
        return None
    asked = [pod for pod in earlier if pod.deletion_time is None and len(pod.containers) == 1]
    left = [pod for pod in earlier if pod not in asked or not in_place.is_stopped(pod)]
    if not left:
        return f"attempt {job.attempt} begins: all replicas have stopped", None
    due = min((in_place.given_up_at(job, replicas[pod.name], pod, now) for pod in asked), default=inf)
    names = listed([str(replicas[pod.name]) for pod in left])
    rest = "; a replica that has not stopped by then gets a new pod" if isfinite(due) else ""
    return f"attempt {job.attempt} begins when {names} {'has' if len(left) == 1 else 'have'} stopped{rest}", due if isfinite(
        due
    ) else None


def next_resizes(found: Found, now: float) -> tuple[float | None, float | None]:
    """When the job is resized by itself next, as far as its pods tell: to fewer replicas, and to more."""
    if elastic_of(found.framework, found.read) is None:
        return None, None
    pods = tuple(member.pod for member in (*found.members, *found.spare))
    return Elastic(look(found.framework, found.read, Observed(pods=pods), now, features_of(found.framework))).due


def smaller(found: Found, now: float) -> tuple[Cause, Sequence[str]] | None:
    """That a job which runs has fewer replicas than it asks for, and what is known of the others; None if it has all."""
    job, kind = found.read, found.framework.scaled_type
    elastic, have, asked = elastic_of(found.framework, job), job.count(kind), job.asked_of(kind)
    _, grows_at = next_resizes(found, now)
    if elastic is None or have >= asked or grows_at is None:
        return None
    since = parse_time(job.status.last_resize_time)
    text = f"with {have} of {asked} {named(kind)}" + (f" since {format_time(since)}" if since is not None else "")
    wait = [(member, cause) for member in found.spare if (cause := cause_of(member, found, now)) is not None]
    facts = [f"{member.replica}: {cause.text}" for member, cause in wait]
    what = "nodes and quota" if QUEUE_LABEL in job.labels else "nodes"
    left_out = listed([str(Replica(kind, index)) for index in range(asked) if not job.has(Replica(kind, index))])
    if job.status.awaited_checkpoint is not None:
        then, at = f"it grows when a checkpoint after this one is reported: {job.status.awaited_checkpoint}", None
    elif now < grows_at:
        then, at = f"{what} are requested again for {left_out}", grows_at
    else:
        then, at = f"it grows when {what} are free for {left_out}", None
    return Cause(Reason.FEWER_REPLICAS, text, wait[0][1].advice if wait else "", then=then, at=at), facts


def resizing(found: Found) -> Cause:
    """That all replicas are restarted in another number."""
    job, before = found.read, in_short(found.status.last_restart_cause or "")
    return Cause(Reason.RESIZING, f"{job.kind} {job.name} begins attempt {job.attempt}: {before}")


def scaled_in_vain(found: Found) -> list[str]:
    """The warnings that the job was scaled, of which some of its pods do not know and will not learn."""
    oldest = min((member.pod.creation_time or 0.0 for member in found.members), default=inf)
    texts = {unaware(found.framework, found.read, kind) for kind in found.read.replica_specs}
    return [event.message for event in found.events_of(found.read.uid) if event.message in texts and event.at >= oldest]


def bounds(found: Found) -> list[str]:
    """That `runPolicy.elastic` keeps the job from having as many replicas as its spec says."""
    job, kind = found.read, found.framework.scaled_type
    if (elastic := elastic_of(found.framework, job)) is None:
        return []
    specs = mapping_of(mapping_of(found.job.get("spec")).get(found.framework.replica_specs))
    said = next((mapping_of(spec).get("replicas") for name, spec in specs.items() if str(name).lower() == kind.lower()), None)
    asked = job.asked_of(kind)
    if not isinstance(said, int) or said == asked:
        return []
    name = "maxReplicas" if said > asked else "minReplicas"
    value = elastic.max_replicas if said > asked else fewest(elastic)
    return [f"the spec requests {said} {named(kind)}: runPolicy.elastic.{name} is {value}"]
