"""``suspend``, ``resume``, ``restart`` and ``scale``: what changes a job."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from jobcommon.api.kueue import QUEUE_LABEL
from jobcommon.api.status import ConditionType, read_status
from jobcommon.api.timestamp import format_time
from jobcommon.cli.errors import JOB_FAILED, UserError
from jobcommon.cli.jobs.access import Api
from jobcommon.cli.jobs.lookup import FoundJob, pods_of
from jobcommon.cli.jobs.resources import as_written, owner_of
from jobcommon.cli.script import SCRIPT_SUFFIX
from jobcommon.client.errors import StatusError
from jobcommon.client.objects import collection_path, create, delete, merge, object_path
from jobcommon.diagnosis import Found
from jobcommon.diagnosis.resizes import bounds, next_resizes
from jobcommon.manifests.size import named
from jobcommon.reconcile.spec_warnings import unaware

Say = Callable[[str], None]
# Waiting is asking: a watch would be for three changes of one object.
PERIOD = 0.5


async def suspend(api: Api, job: FoundJob, say: Say) -> None:
    """Stop the job's pods until it is resumed."""
    _check_unfinished(job, "suspended")
    if _is_suspended(job):
        say(f"{job.title} is already suspended")
        return
    await _set_suspended(api, job, value=True)
    say(f"{job.title} suspended: its pods are stopped; kubectl train resume {job.name} starts it again")


async def resume(api: Api, job: FoundJob, say: Say) -> None:
    """Start a suspended job."""
    _check_unfinished(job, "resumed")
    if not _is_suspended(job):
        say(f"{job.title} is not suspended")
        return
    await _set_suspended(api, job, value=False)
    queue = (job.body["metadata"].get("labels") or {}).get(QUEUE_LABEL)
    say(f"{job.title} resumed" + (f"; if its kind is queued, it waits until its queue {queue} has room" if queue else ""))


async def restart(api: Api, job: FoundJob, say: Say, *, recreate: bool, seconds: float) -> None:
    """Run all replicas afresh: a running job by suspension and resume, a finished one as a new job if `recreate`."""
    if job.status.finished:
        if not recreate:
            lost = "deletes it with its status, pods and logs, and recreates it"
            raise UserError(f"{job.title} has finished ({job.state}); --recreate {lost}")
        await _recreate(api, job, say, seconds)
        return
    was_suspended = _is_suspended(job)
    say(f"{job.title}: stopping its pods")
    try:
        async with asyncio.timeout(seconds):
            if not was_suspended:
                await _set_suspended(api, job, value=True)
            await _until(lambda: _has_stopped(api, job))
    except TimeoutError:
        text = f"{job.title} has not stopped within {seconds:g} s (--timeout), and stays suspended"
        raise UserError(f"{text}: see kubectl train why {job.name}, then kubectl train resume {job.name}", JOB_FAILED) from None
    except asyncio.CancelledError:
        say(f"{job.title} stays suspended: kubectl train resume {job.name}")
        raise
    await _set_suspended(api, job, value=False)
    say(f"{job.title} restarted")


async def scale(api: Api, job: FoundJob, replicas: int, kind: str | None, say: Say, *, dry_run: bool = False) -> None:
    """Change the number of replicas of one type, and say before what follows. With `dry_run` nothing is changed.

    Raises `UserError` for a number that the job may not have.
    """
    _check_unfinished(job, "scaled")
    if job.framework.scale is None:
        raise UserError(f"{job.title} cannot be scaled: its kind has no number of replicas that may be changed")
    kind = _scaled_type(job, kind)
    read = job.read
    before = read.asked_of(kind)
    changed = {"spec": {job.framework.replica_specs: {_spelling(job, kind): {"replicas": replicas}}}}
    _check_count(job, kind, replicas)
    after = replace(job, body=_merged(job.body, changed))
    errors = after.read.errors
    if errors and not read.errors:
        raise UserError("\n".join(map(str, errors)))
    say(f"{job.title}: {kind} {before} → {replicas}" + (" (dry run)" if dry_run else ""))
    for text in _forecast(after, kind, before, time.time()):
        say(text)
    if not dry_run:
        await api.send(merge(job.target.path, changed))


def _forecast(job: FoundJob, kind: str, before: int, now: float) -> Iterator[str]:
    """What follows when the job is changed so, of which so many replicas were asked for."""
    read, found = job.read, Found(*job.specialized)
    yield from bounds(found)
    have, asked = read.count(kind), read.asked_of(kind)
    if not read.restarts_together:
        if before != asked and read.status.has(ConditionType.RUNNING) and (text := unaware(job.framework, read, kind)):
            yield f"warning: {text}"
        return
    if not read.status.attempt_replicas or read.suspended:
        yield f"it begins with {asked} {named(kind, asked)} when it starts"
    elif job.framework.joins(read, kind):
        yield "nothing restarts: the running replicas notice"
    elif have == asked:
        yield f"nothing restarts: attempt {read.attempt} has {have} {named(kind, have)}"
    else:
        how = "in their pods, where these can be kept" if read.restarts_in_place else "with new pods"
        text = f"attempt {read.attempt + 1} begins with {asked} {named(kind, asked)}: all replicas restart, {how}"
        _, at = next_resizes(found, now)
        if at is not None:
            since = f" from {format_time(at)} on" if at > now else ""
            text = f"nodes for {asked - have} more are requested{since}; when they are free, {text}"
        yield text


def _scaled_type(job: FoundJob, wanted: str | None) -> str:
    """The replica type to scale: the one named, else the only one whose number is free, else Worker."""
    read = job.read
    there = {kind.name: kind for kind in job.framework.replica_types if kind.name in read.replica_specs}
    if wanted is not None:
        name = next((name for name in there if name.lower() == wanted.lower()), None)
        if name is None:
            raise UserError(f"--type {wanted}: {job.title} has no such replica type; it has {', '.join(there)}")
        return name
    free = [name for name, kind in there.items() if kind.max_replicas != 1]
    if len(free) == 1:
        return free[0]
    if "Worker" in free:
        return "Worker"
    raise UserError(f"{job.title} has the replica types {', '.join(there) or 'none'}; name one with --type")


def _check_count(job: FoundJob, kind: str, replicas: int) -> None:
    """Whether the bounds of an elastic job allow so many; the others are checked with the spec."""
    elastic: Any = getattr(job.read.spec, "elastic_policy", None) if kind == "Worker" else None
    if elastic is not None:
        least, most = elastic.min_replicas or 0, elastic.max_replicas
        if replicas < least or (most is not None and replicas > most):
            allowed = f"{least} to {most}" if most is not None else f"{least} or more"
            raise UserError(f"--replicas {replicas}: the limits of spec.elasticPolicy are {allowed}")


def _spelling(job: FoundJob, kind: str) -> str:
    """The type as the manifest spells it."""
    specs = (job.body.get("spec") or {}).get(job.framework.replica_specs) or {}
    return next((name for name in specs if name.lower() == kind.lower()), kind)


def _merged(body: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(body)
    for key, value in patch.items():
        merged[key] = _merged(merged.get(key) or {}, value) if isinstance(value, Mapping) else value
    return merged


async def _recreate(api: Api, job: FoundJob, say: Say, seconds: float) -> None:
    script = await _own_script(api, job)
    if script is not None:
        # It would be deleted with the job.
        await api.send(merge(script, {"metadata": {"ownerReferences": None}}))
    await api.send(delete(job.target.path, job.uid))
    say(f"{job.title} deleted")
    try:
        async with asyncio.timeout(seconds):
            await _until(lambda: _is_gone(api, job))
    except TimeoutError:
        raise UserError(
            f"{job.title} is still being deleted after {seconds:g} s (--timeout); create it when it is gone"
        ) from None
    path = collection_path(job.framework.api_version, job.framework.plural, job.namespace)
    made = await api.send(create(path, as_written(job.body)))
    if script is not None:
        await api.send(merge(script, {"metadata": {"ownerReferences": [owner_of(made)]}}))
    say(f"{job.title} recreated")


async def _own_script(api: Api, job: FoundJob) -> str | None:
    """The path of the ConfigMap that `run SCRIPT` made for the job, if it did."""
    path = object_path("v1", "configmaps", job.namespace, f"{job.name}{SCRIPT_SUFFIX}")
    try:
        found = await api.get(path)
    except StatusError as error:
        if error.code in (403, 404):
            return None
        raise
    owners = found["metadata"].get("ownerReferences") or ()
    return path if any(owner.get("uid") == job.uid for owner in owners) else None


async def _is_gone(api: Api, job: FoundJob) -> bool:
    try:
        there = await api.get(job.target.path)
    except StatusError as error:
        if error.code != 404:
            raise
        return not await pods_of(api, job)
    return bool(there["metadata"].get("uid") != job.uid)


async def _has_stopped(api: Api, job: FoundJob) -> bool:
    status = read_status((await api.get(job.target.path)).get("status"))
    return status.has(ConditionType.SUSPENDED) and not await pods_of(api, job)


async def _until(holds: Callable[[], Awaitable[bool]]) -> None:
    while not await holds():  # noqa: ASYNC110  the change is in another process
        await asyncio.sleep(PERIOD)


async def _set_suspended(api: Api, job: FoundJob, *, value: bool) -> None:
    await api.send(merge(job.target.path, job.framework.with_suspend(value)))


def _is_suspended(job: FoundJob) -> bool:
    return job.read.suspended


def _check_unfinished(job: FoundJob, what: str) -> None:
    if job.status.finished:
        raise UserError(
            f"{job.title} has finished ({job.state}) and cannot be {what}; kubectl train restart --recreate runs it again"
        )
