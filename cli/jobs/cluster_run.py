"""``run`` and ``wait`` on a cluster: apply jobs, follow them to their end, and end with the job's exit code."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from http import HTTPStatus
from typing import Any

from rich.console import Console

from jobcommon.api.status import ConditionType, JobStatus, read_status
from jobcommon.cli.display import Display, summary
from jobcommon.cli.errors import JOB_FAILED, STUCK, UserError
from jobcommon.cli.jobs.access import Api, Place, connected
from jobcommon.cli.jobs.lookup import FoundJob, find_job
from jobcommon.cli.jobs.why import show, why
from jobcommon.cli.manifests import Manifest
from jobcommon.cli.resources import Cluster, owner_of
from jobcommon.cli.wanted import Limits, Wanted
from jobcommon.cli.watch import FollowedJob, Follower
from jobcommon.client.errors import ClientError, StatusError
from jobcommon.client.objects import merge, object_path
from jobcommon.diagnosis import Diagnosis
from jobcommon.sdk.following import states

MAX_EXIT_CODE = 255
AIMS = ("finished", "succeeded", "failed", "running", "suspended", "deleted")


async def run_on_cluster(
    place: Place,
    manifests: Sequence[Manifest],
    console: Console,
    *,
    limits: Limits,
    wait: bool,
    started: Callable[[FoundJob], None],
) -> int:
    """Apply everything, and unless told otherwise follow the jobs to their end; the exit code. Raises `UserError`.

    `started` is called with each job that is there, for what is to be said if the command is left early.
    """
    async with connected(place) as api:
        wanted = Wanted.of(manifests, api.namespace)
        await _refuse_finished(api, wanted)
        display = Display(console, datetime.now)
        await _apply(api, wanted, display)
        jobs = [await find_job(Api(api.transport, job.namespace), job.title) for job in wanted.followed]
        for job in jobs:
            started(job)
        if not wait:
            return 0
        return await _followed(api, wanted.followed, jobs, display, limits)


async def _followed(
    api: Api, followed: Sequence[FollowedJob], jobs: Sequence[FoundJob], display: Display, limits: Limits
) -> int:
    follower = Follower(api.transport, followed, display, stuck_after=limits.stuck_after, everything=False)
    with display:
        display.show(followed)
        try:
            async with asyncio.timeout(limits.timeout):
                await follower.run(until=lambda f: all(job.over or f.stuck(job) for job in followed))
        except TimeoutError:
            display.say(f"not finished after {limits.timeout:g} s (--timeout): the jobs continue", "red")
    codes: list[int] = []
    for job, state in zip(jobs, followed, strict=True):
        summary(display.console, state, list(follower.pods.values()), causes=False)
        stuck = follower.stuck(state)
        made = None
        if not state.succeeded:
            made = await _diagnosis(api, job)
            if made is not None:
                display.console.print()
                show(display.console, job.title, made, time.time())
        if stuck:
            text = f"{job.title} has been stuck for {limits.stuck_after:g} s (--stuck-after) and is left there; "
            display.say(text + f"suspend it with: kubectl train suspend {job.name}", "red")
        codes.append(STUCK if stuck else exit_code(state.status, made))
    display.console.print(f"\nended after {display.elapsed}")
    return next((code for code in codes if code), 0)


async def _diagnosis(api: Api, job: FoundJob) -> Diagnosis | None:
    """Why it is as it is now; None if it was deleted."""
    there = Api(api.transport, job.namespace)
    try:
        return await why(there, await find_job(there, job.title), condition=False)
    except UserError:
        return None


def exit_code(status: JobStatus, made: Diagnosis | None) -> int:
    """The exit code of a job: 0, that of the program that failed it, or 1."""
    if status.has(ConditionType.SUCCEEDED):
        return 0
    code = made.exit_code if made is not None and status.has(ConditionType.FAILED) else None
    return code if code is not None and 0 < code <= MAX_EXIT_CODE else JOB_FAILED


async def _refuse_finished(api: Api, wanted: Wanted) -> None:
    """A job that is over would be reported as the result of this run."""
    for job in wanted.followed:
        try:
            there = await api.get(job.target.path)
        except StatusError as error:
            if error.code == 404:
                continue
            raise
        if read_status(there.get("status")).finished:
            raise UserError(
                f"{job.title} exists in namespace {job.namespace} and has finished; give the new job another name, or run the "
                f"old job again with: kubectl train restart {job.name} --recreate"
            )


async def _apply(api: Api, wanted: Wanted, display: Display) -> None:
    target = Cluster(api.transport)
    owned: list[Manifest] = []
    for manifest in wanted.others:
        await target.apply(manifest, api.namespace)
        display.say(f"{manifest.kind.lower()}/{manifest.name} applied")
        if manifest.owned:
            owned.append(manifest)
    for (manifest, _), followed in zip(wanted.jobs, wanted.followed, strict=True):
        for warning in followed.warnings:
            display.warning(followed.title, warning)
        made = await target.apply(manifest, api.namespace)
        display.say(f"{manifest.kind.lower()}/{manifest.name} applied")
        for other in owned:
            await _own(api, other, made)


async def _own(api: Api, manifest: Manifest, job: Mapping[str, Any]) -> None:
    """Make the job the owner of the ConfigMap with its script, so that they are deleted together."""
    path = object_path("v1", "configmaps", job["metadata"]["namespace"], manifest.name)
    await api.send(merge(path, {"metadata": {"ownerReferences": [owner_of(job)]}}))


async def wait_for(api: Api, job: FoundJob, aim: str, seconds: float | None) -> tuple[JobStatus | None, bool]:
    """The job's status once it is what `aim` says, or can no longer be (None if it is deleted), and whether it is.

    Raises `UserError` after `seconds`.
    """
    try:
        async with asyncio.timeout(seconds), aclosing(states(api.transport, job.target)) as seen:
            async for state in seen:
                if isinstance(state, ClientError):
                    continue
                if state["metadata"].get("uid") != job.uid:
                    break
                status = read_status(state.get("status"))
                if _is_so(status, aim):
                    return status, True
                if status.finished and aim != "deleted":
                    return status, False
    except TimeoutError:
        raise UserError(
            f"{job.title} is not {aim} after {seconds:g} s (--timeout); why: kubectl train why {job.name}", JOB_FAILED
        ) from None
    except StatusError as error:
        if error.code != HTTPStatus.NOT_FOUND:
            raise
    return None, aim == "deleted"


def _is_so(status: JobStatus, aim: str) -> bool:
    if aim == "finished":
        return status.finished
    kinds = {
        "succeeded": ConditionType.SUCCEEDED, "failed": ConditionType.FAILED,
        "running": ConditionType.RUNNING, "suspended": ConditionType.SUSPENDED,
    }  # fmt: skip
    return aim in kinds and status.has(kinds[aim])
