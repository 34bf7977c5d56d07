"""The size of an attempt: the replicas of each type that its programs know of.

Programs read their world when they start, so each attempt of a job with `restartScope: Job` has one size from its beginning to
its end. It is in the status; another number in the spec is for the next attempt.
"""

from collections.abc import Mapping
from dataclasses import replace

from jobcommon.api.job import MAX_REPLICAS, Elasticity
from jobcommon.api.replica import replica_count
from jobcommon.api.status import ConditionType
from jobcommon.framework import Framework, Job


def sized(framework: Framework, job: Job) -> Job:
    """The job with the replicas of its present attempt, and with those that are asked for while it has none."""
    if not job.restarts_together:
        return job
    asked = {kind: job.asked_of(kind) for kind in job.replica_specs}
    if (elastic := elastic_of(framework, job)) is not None:
        asked[framework.scaled_type] = within_bounds(elastic, asked[framework.scaled_type])
    return _with(replace(job, asked=asked), asked | _recorded(framework, job))


def with_size(framework: Framework, job: Job, text: str) -> Job | None:
    """The job with the size that was written so by `size_text`; None if it cannot be read."""
    pairs = [entry.partition("=") for entry in text.split(",") if entry]
    if not all(kind in job.replica_specs and count.isdecimal() and len(count) < 6 for kind, _, count in pairs):
        return None
    size = dict.fromkeys(fixed_counts(framework, job), 0) | {kind: int(count) for kind, _, count in pairs}
    return _with(job, size) if pairs and sum(size.values()) <= MAX_REPLICAS else None


def size_text(framework: Framework, job: Job) -> str:
    """The size of the present attempt, as pods have it."""
    return ",".join(f"{kind}={count}" for kind, count in fixed_counts(framework, job).items())


def elastic_of(framework: Framework, job: Job) -> Elasticity | None:
    """The job's `runPolicy.elastic`, if it has replicas of the type that it is about."""
    elastic = job.run_policy.elastic
    return elastic if job.restarts_together and framework.scaled_type in job.replica_specs else None


def fewest(elastic: Elasticity) -> int:
    """The fewest replicas with which the job goes on."""
    return elastic.min_replicas or 1


def within_bounds(elastic: Elasticity, count: int) -> int:
    """The number of replicas within the bounds."""
    most = elastic.max_replicas if elastic.max_replicas is not None else MAX_REPLICAS
    return max(min(count, most), fewest(elastic))


def fixed_counts(framework: Framework, job: Job, counts: Mapping[str, int] | None = None) -> dict[str, int]:
    """The replicas of each type whose number is fixed in an attempt: `counts`, or those of the present one."""
    kinds = (kind for kind in job.replica_specs if not framework.joins(job, kind))
    return {kind: job.count(kind) if counts is None else counts[kind] for kind in kinds}


def _with(job: Job, size: Mapping[str, int]) -> Job:
    specs = {
        kind: spec if (count := size.get(kind)) in (None, replica_count(spec)) else spec.model_copy(update={"replicas": count})
        for kind, spec in job.replica_specs.items()
    }
    return replace(job, replica_specs=specs)


def _recorded(framework: Framework, job: Job) -> dict[str, int]:
    """The size on record, without types that were added since. A job that is suspended has none: it is resumed with what is
    asked for by then.
    """
    known = job.status.attempt_replicas
    if not known or job.status.has(ConditionType.SUSPENDED):
        return {}
    size = {kind: known.get(kind, 0) for kind in fixed_counts(framework, job)}
    valid = all(count >= 0 for count in size.values()) and sum(size.values()) <= MAX_REPLICAS
    return size if valid else {}


def named(kind: str, count: int = 2) -> str:
    """So many replicas of that type in words: ``workers``, ``worker`` for one, ``PS replicas``."""
    many = "" if count == 1 else "s"
    return f"{kind.lower()}{many}" if kind != kind.upper() else f"{kind} replica{many}"
