"""``jobcommon run``: jobs on a cluster of their own, from the manifest to their end."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from rich.console import Console

from jobcommon.cli.display import Display, summary
from jobcommon.cli.embedded import TrainingCluster, training_cluster
from jobcommon.cli.errors import JOB_FAILED, STUCK
from jobcommon.cli.jobs.access import Api
from jobcommon.cli.jobs.lookup import find_job
from jobcommon.cli.jobs.surroundings import surroundings
from jobcommon.cli.jobs.why import show
from jobcommon.cli.manifests import Manifest
from jobcommon.cli.python import Python
from jobcommon.cli.resources import Cluster
from jobcommon.cli.stalls import State
from jobcommon.cli.up import refusals
from jobcommon.cli.wanted import Limits, Wanted
from jobcommon.cli.watch import FollowedJob, Follower
from jobcommon.diagnosis import diagnose

#: Kinds whose controllers the embedded cluster does not have, so that they create no pods.
WORKLOADS = ("Job", "CronJob", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController")


async def run(
    manifests: Sequence[Manifest],
    console: Console,
    *,
    namespace: str,
    limits: Limits,
    server: str | None = None,
    python: Python,
) -> int:
    """Run the jobs to their end, or to a limit; the exit code. Raises `UserError` for bad input."""
    wanted = Wanted.of(manifests, namespace)
    console.print(str(python), soft_wrap=True, highlight=False, markup=False)
    display = Display(console, datetime.now)
    with refusals():
        async with training_cluster(wanted.frameworks, server=server, python=python.path) as running:
            follower = await _follow(running, wanted, display, namespace, limits)
            for job in follower.jobs:
                summary(console, job, list(follower.pods.values()))
                if not job.succeeded and not job.gone:
                    await _show_why(running, follower, job, console)
            console.print(f"\nended after {display.elapsed}")
    if any(map(follower.stuck, follower.jobs)):
        return STUCK
    return 0 if all(job.succeeded for job in follower.jobs) else JOB_FAILED


async def _follow(running: TrainingCluster, wanted: Wanted, display: Display, namespace: str, limits: Limits) -> Follower:
    jobs = wanted.followed
    follower = Follower(running.client, jobs, display, stuck_after=limits.stuck_after)
    with display:
        display.show(jobs)
        try:
            await _apply(running, wanted, display, namespace)
            async with asyncio.timeout(limits.timeout):
                await follower.run(until=_enough)
        except TimeoutError:
            display.say(f"not finished after {limits.timeout:g} s (--timeout): stopping", "red")
        except asyncio.CancelledError:
            display.say(f"stopping what runs here, after {display.elapsed}", "yellow")
            raise
        for job in jobs:
            if follower.stuck(job):
                text = f"{job.title} has been stuck for {limits.stuck_after:g} s (--stuck-after): stopping"
                display.say(f"{text}; {_cause(follower, job)}", "red")
            elif job.suspended and not job.over:
                display.say(f"{job.title} is suspended, and nothing here will resume it; try it with jobcommon up", "yellow")
    return follower


async def _show_why(running: TrainingCluster, follower: Follower, job: FollowedJob, console: Console) -> None:
    """Why the job failed or is stuck, what to do, and what would happen next."""
    api = Api(running.client, job.namespace)
    found = await surroundings(api, await find_job(api, job.title))
    tails = {pod.name: tuple(pod.tail) for pod in follower.pods.values() if pod.tail and pod.job == job.key}
    made = diagnose(replace(found, logs=tails), time.time(), condition=False)
    console.print()
    # Its last lines have just been printed, and its conditions when they came.
    show(console, job.title, replace(made, lines=()), time.time())


async def _apply(running: TrainingCluster, wanted: Wanted, display: Display, namespace: str) -> None:
    target = Cluster(running.client)
    manifests = (*wanted.others, *(manifest for manifest, _ in wanted.jobs))
    for name in dict.fromkeys(manifest.namespace or namespace for manifest in manifests):
        if await target.ensure_namespace(name):
            display.say(f"namespace/{name} created")
    for manifest in manifests:
        await target.apply(manifest, namespace)
        display.say(f"{manifest.kind.lower()}/{manifest.name} applied")
        if manifest.kind in WORKLOADS:
            display.warning(
                f"{manifest.kind.lower()}/{manifest.name}", f"creates no pods here: no controller for {manifest.kind}"
            )


def _enough(follower: Follower) -> bool:
    """Whether nothing more can happen: each job is over, stuck, or suspended in a cluster that no other client can reach.

    Replicas that may end by themselves after the success do so first, or are deleted by the operator.
    """
    ending = {job.key for job in follower.jobs if job.succeeded and job.grace}
    if any(pod.job in ending and pod.state == "Running" for pod in follower.pods.values()):
        return False
    return all(
        job.over or follower.stuck(job) or (job.suspended and job.current and job.current.type == "Suspended")
        for job in follower.jobs
    )


def _cause(follower: Follower, job: FollowedJob) -> str:
    """Why the job is stuck: the cause of its first pod that does not run, else the job's own condition."""
    ours = [pod for pod in follower.pods.values() if pod.job == job.key and not pod.gone]
    waiting = [pod for pod in ours if pod.progress is State.WAITS]
    if not waiting:
        return f"no pods; {job.current.message}" if job.current else "no pods and no condition; is its operator running?"
    pod = min(waiting, key=lambda pod: not pod.cause)
    more = f", and {len(waiting) - 1} more pods are not running" if len(waiting) > 1 else ""
    return f"pod/{pod.name} {pod.state}{': ' + pod.cause if pod.cause else ''}{more}"
