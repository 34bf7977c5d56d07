"""The command ``run``: jobs on a cluster of their own or on that of a kubeconfig, from the manifests to their end."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rich.console import Console

from jobcommon.api.status import ConditionType, read_status
from jobcommon.cli.display import Display
from jobcommon.cli.errors import JOB_FAILED, STUCK, UserError
from jobcommon.cli.followed import FollowedJob
from jobcommon.cli.jobs.access import Api, Place, connected
from jobcommon.cli.jobs.lookup import FoundJob, find_job, surroundings
from jobcommon.cli.jobs.resources import Cluster, owner_of
from jobcommon.cli.jobs.wait import exit_code
from jobcommon.cli.jobs.why import show
from jobcommon.cli.manifests import Manifest
from jobcommon.cli.python import Python
from jobcommon.cli.wanted import Wanted
from jobcommon.cli.watch import Follower
from jobcommon.client.errors import StatusError
from jobcommon.client.objects import merge, object_path
from jobcommon.diagnosis import Diagnosis, diagnose

#: Kinds whose controllers the embedded cluster does not have, so that they create no pods.
WORKLOADS = ("Job", "CronJob", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController")


@dataclass(frozen=True)
class Limits:
    """The seconds that a run may take, and that a job may be stuck; None and 0: no limit.

    `alone`: the cluster is of this run alone, and ends with it.
    """

    timeout: float | None = None
    stuck_after: float = 0.0
    alone: bool = False


async def run_here(manifests: Sequence[Manifest], console: Console, *, namespace: str, limits: Limits, python: Python) -> int:
    """Run the jobs on a cluster of their own to their end, or to a limit; the exit code. Raises `UserError` for bad input."""
    from jobcommon.cli.embedded import training_cluster
    from jobcommon.cli.up import refusals

    wanted = Wanted.of(manifests, namespace)
    console.print(str(python), soft_wrap=True, highlight=False, markup=False)
    display = Display(console, wanted.followed)
    with refusals():
        async with training_cluster(wanted.frameworks, python=python.path) as running:
            api = Api(running.client, namespace)
            for name in dict.fromkeys(manifest.namespace or namespace for manifest in manifests):
                if await Cluster(api).ensure_namespace(name):
                    display.say(f"namespace/{name} created")
            jobs = await _applied(api, wanted, display)
            for other in wanted.others:
                if other.kind in WORKLOADS:
                    named = f"{other.kind.lower()}/{other.name}"
                    display.warning(named, f"creates no pods here: no controller for {other.kind}")
            return await _followed(api, wanted, jobs, display, replace(limits, alone=True))


async def run_on_cluster(
    place: Place,
    manifests: Sequence[Manifest],
    console: Console,
    *,
    limits: Limits,
    wait: bool,
    started: Callable[[FoundJob], None],
) -> int:
    """Apply everything and, if `wait`, follow the jobs to their end; the exit code. Raises `UserError`.

    `started` is called with each job that is there, for what is to be said if the command is left early.
    """
    async with connected(place) as api:
        wanted = Wanted.of(manifests, api.namespace)
        await _refuse_finished(api, wanted)
        display = Display(console, wanted.followed)
        jobs = await _applied(api, wanted, display)
        for job in jobs:
            started(job)
        return await _followed(api, wanted, jobs, display, limits) if wait else 0


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
                f"{job.title} exists in namespace {job.target.namespace} and has finished; give the new job another name, or "
                f"run the old job again with: kubectl train restart {job.target.name} --recreate"
            )


async def _applied(api: Api, wanted: Wanted, display: Display) -> list[FoundJob]:
    """The jobs, once everything is applied; a ConfigMap with a script is deleted with its job."""
    target = Cluster(api)
    for followed in wanted.followed:
        for warning in followed.warnings:
            display.warning(followed.title, warning)
    for manifest in (*wanted.others, *(job for job, _ in wanted.jobs)):
        await target.apply(manifest)
        display.say(f"{manifest.kind.lower()}/{manifest.name} applied")
    jobs = [await find_job(Api(api.transport, job.target.namespace), job.title) for job in wanted.followed]
    for script in (manifest for manifest in wanted.others if manifest.owned):
        path = object_path("v1", "configmaps", jobs[0].namespace, script.name)
        await api.send(merge(path, {"metadata": {"ownerReferences": [owner_of(jobs[0].body)]}}))
    return jobs


async def _followed(api: Api, wanted: Wanted, jobs: Sequence[FoundJob], display: Display, limits: Limits) -> int:
    follower = Follower(api.transport, wanted.followed, display, stuck_after=limits.stuck_after)
    with display:
        try:
            async with asyncio.timeout(limits.timeout):
                await follower.run(until=lambda: _is_over(follower, limits))
        except TimeoutError:
            then = "stopping" if limits.alone else "the jobs continue"
            display.say(f"not finished after {limits.timeout:g} s (--timeout): {then}", "red")
        except asyncio.CancelledError:
            if limits.alone:
                display.say(f"stopping what runs here, after {display.elapsed}", "yellow")
            raise
    codes: list[int] = []
    for job, state in zip(jobs, wanted.followed, strict=True):
        stuck = follower.stuck(state)
        made = None if state.succeeded else await _diagnosis(api, job, follower)
        display.console.print()
        if made is not None:
            show(display.console, job.title, made, time.time())
        else:
            end = state.current.type if state.current and state.status.finished else "was deleted before it had finished"
            display.console.print(f"{job.title}  {end}")
        if stuck:
            left = f"and is left there; suspend it with: kubectl train suspend {job.name}"
            text = f"{job.title} has been stuck for {limits.stuck_after:g} s (--stuck-after)"
            display.say(f"{text}: stopping" if limits.alone else f"{text} {left}", "red")
        elif limits.alone and state.suspended and not state.over:
            display.say(f"{job.title} is suspended, and nothing here will resume it; try it with jobcommon up", "yellow")
        code = exit_code(state.status, made)
        codes.append(STUCK if stuck else min(code, JOB_FAILED) if limits.alone else code)
    display.console.print(f"\nended after {display.elapsed}")
    return next((code for code in codes if code), 0)


def _is_over(follower: Follower, limits: Limits) -> bool:
    """Whether each job is over, stuck, or suspended in a cluster that no other client can reach.

    Replicas that may end by themselves after the success do so first, or are deleted by the operator.
    """
    ending = {job.key for job in follower.jobs if job.succeeded and job.grace}
    if any(pod.job in ending and pod.state == "Running" for pod in follower.pods.values()):
        return False
    return all(job.over or follower.stuck(job) or (limits.alone and _is_suspended(job)) for job in follower.jobs)


def _is_suspended(job: FollowedJob) -> bool:
    return job.suspended and job.current is not None and job.current.type == ConditionType.SUSPENDED


async def _diagnosis(api: Api, job: FoundJob, follower: Follower) -> Diagnosis | None:
    """Why it is as it is now, by what its pods have printed, too; None if it was deleted."""
    there = Api(api.transport, job.namespace)
    try:
        found = await surroundings(there, await find_job(there, job.title))
    except UserError:
        return None
    key = job.framework.kind, job.namespace, job.name
    tails = {pod.name: tuple(pod.tail) for pod in follower.pods.values() if pod.tail and pod.job == key}
    return diagnose(replace(found, logs={**found.logs, **tails}), time.time(), condition=False)
