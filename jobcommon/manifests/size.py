"""The members of an attempt: the replicas that its programs know of.

Programs read their world when they start, so each attempt of a job with `restartScope: Job` has the same members from its
beginning to its end: those of each type from index 0 on, without those that are left out because they have no node. They are
in the status; another number in the spec is for the next attempt. Indexes name pods, and ranks count members.
"""

from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256

from jobcommon.api.job import MAX_REPLICAS, Elasticity
from jobcommon.api.replica import format_indexes, parse_indexes, replica_count
from jobcommon.api.status import ConditionType
from jobcommon.framework import Framework, Job

_GAPS = " without "
# Of an annotation no more is read than a word has.
_MAX_GAPS = 400


def sized(framework: Framework, job: Job) -> Job:
    """The job with the members of its present attempt, and with all that are asked for while it has none."""
    if not job.restarts_together:
        return job
    asked = {kind: job.asked_of(kind) for kind in job.replica_specs}
    if (elastic := elastic_of(framework, job)) is not None:
        most = elastic.max_replicas or MAX_REPLICAS
        asked[framework.scaled_type] = max(min(asked[framework.scaled_type], most), fewest(elastic))
    job, known = replace(job, asked=asked), job.status.attempt_replicas
    if job.status.has(ConditionType.SUSPENDED) or not (known or job.is_gathering):
        # One that is suspended is resumed with what is asked for by then.
        return _with(job, asked, {})
    kind = framework.scaled_type
    out = {kind: parse_indexes(job.status.left_out.get(kind), MAX_REPLICAS)} if job.status.left_out and kind in asked else {}
    if job.is_gathering:
        return _with(job, {kind: n - sum(i < n for i in out.get(kind, ())) for kind, n in asked.items()}, out)
    # Types that were added since have no replicas in it.
    size = {kind: known.get(kind, 0) for kind in fixed_counts(framework, job)}
    valid = all(count >= 0 for count in size.values()) and sum(size.values()) <= MAX_REPLICAS
    return _with(job, asked | size, out) if valid else _with(job, asked, {})


def size_text(framework: Framework, job: Job) -> str:
    """The members of the present attempt, as pods have them: ``Master=1,Worker=3 without 1``."""
    return ",".join(f"{kind}={count}{_gaps(job, kind)}" for kind, count in fixed_counts(framework, job).items())


def _gaps(job: Job, kind: str) -> str:
    if not (out := job.left_out.get(kind)) or not (members := job.indexes(kind)):
        return ""
    text = format_indexes({index for index in out if index < members[-1]}) or ""
    text = text.replace(",", " ") if len(text) <= _MAX_GAPS else sha256(text.encode()).hexdigest()[:16]
    return f"{_GAPS}{text}" if text else ""


def elastic_of(framework: Framework, job: Job) -> Elasticity | None:
    """The job's `runPolicy.elastic`, if it has replicas of the type that it is about."""
    elastic = job.run_policy.elastic
    return elastic if job.restarts_together and framework.scaled_type in job.replica_specs else None


def fewest(elastic: Elasticity) -> int:
    """The fewest replicas with which the job goes on."""
    return elastic.min_replicas or 1


def fixed_counts(framework: Framework, job: Job, counts: Mapping[str, int] | None = None) -> dict[str, int]:
    """The replicas of each type whose number is fixed in an attempt: `counts`, or those of the present one."""
    kinds = (kind for kind in job.replica_specs if not framework.joins(job, kind))
    return {kind: job.count(kind) if counts is None else counts[kind] for kind in kinds}


def _with(job: Job, size: Mapping[str, int], left_out: Mapping[str, frozenset[int]]) -> Job:
    specs = {
        kind: spec if (count := size.get(kind)) in (None, replica_count(spec)) else spec.model_copy(update={"replicas": count})
        for kind, spec in job.replica_specs.items()
    }
    return replace(job, replica_specs=specs, left_out=left_out)


def named(kind: str, count: int = 2) -> str:
    """So many replicas of that type in words: ``workers``, ``worker`` for one, ``PS replicas``."""
    many = "" if count == 1 else "s"
    return f"{kind.lower()}{many}" if kind != kind.upper() else f"{kind} replica{many}"
