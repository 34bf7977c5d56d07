"""``jobcommon run``: jobs on an embedded cluster, from the manifest to their end."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from rich.console import Console

from jobcommon.cli.display import Display, summary
from jobcommon.cli.errors import JOB_FAILED, STUCK, UserError
from jobcommon.cli.frameworks import installed, of_manifest
from jobcommon.cli.manifests import Manifest
from jobcommon.cli.plan import checked
from jobcommon.cli.resources import Cluster
from jobcommon.cli.stalls import State
from jobcommon.cli.watch import FollowedJob, Follower
from jobcommon.framework import Framework
from jobcommon.localcluster.cluster import LocalCluster
from jobcommon.localcluster.training import training_cluster

OURS = "kubeflow.org"
#: Kinds whose controllers the embedded cluster does not have, so that they create no pods.
WORKLOADS = ("Job", "CronJob", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController")


@dataclass(frozen=True)
class Wanted:
    """What a user's manifests ask for: the jobs, by framework, and the objects they need."""

    jobs: Sequence[tuple[Manifest, Framework]]
    others: Sequence[Manifest]
    followed: Sequence[FollowedJob] = field(default=(), compare=False)

    @classmethod
    def of(cls, manifests: Sequence[Manifest], namespace: str = "default") -> "Wanted":
        """Sort and check them; objects without a namespace are created in `namespace`.

        Raises `UserError` for an invalid job, one that no operator here runs, an object named twice, and when there is no job.
        """
        _refuse_repeated(manifests, namespace)
        jobs: list[tuple[Manifest, Framework]] = []
        others: list[Manifest] = []
        kinds = ", ".join(framework.kind for framework in installed().values())
        for manifest in manifests:
            framework = of_manifest(manifest.body)
            if framework is not None:
                jobs.append((manifest, framework))
            elif str(manifest.body["apiVersion"]).startswith(f"{OURS}/"):
                raise UserError(f'{manifest.place}: kind: "{manifest.kind}" is not a kind supported here: {kinds}')
            else:
                others.append(manifest)
        if not jobs:
            raise UserError(_no_job(manifests, kinds))
        followed: list[FollowedJob] = []
        for manifest, framework in jobs:
            job = checked(manifest, framework)
            followed.append(FollowedJob(framework, manifest.namespace or namespace, manifest.name, job.total_replicas))
            if job.managed_elsewhere:
                text = f'"{job.run_policy.managed_by}" runs this job, not the operator here; remove the field'
                raise UserError(f"{manifest.place}: spec.runPolicy.managedBy: {text}")
        return cls(jobs, others, followed)

    @property
    def frameworks(self) -> list[Framework]:
        """The frameworks of the jobs, each once."""
        return list({framework.kind: framework for _, framework in self.jobs}.values())


def _refuse_repeated(manifests: Sequence[Manifest], namespace: str) -> None:
    """The second of two objects with one name would change the first while it runs: an error in the files."""
    first: dict[tuple[str, str, str, str], Manifest] = {}
    for manifest in manifests:
        group = str(manifest.body["apiVersion"]).rpartition("/")[0]
        earlier = first.setdefault((group, manifest.kind, manifest.namespace or namespace, manifest.name), manifest)
        if earlier is not manifest:
            where = f"{earlier.source}:{earlier.line}"
            raise UserError(f"{manifest.place}: is given twice, first in {where}; leave one out, or give it another name")


def _no_job(manifests: Sequence[Manifest], kinds: str) -> str:
    nothing = f"{manifests[0].source}: no job in it; a job's kind is one of {kinds}"
    job = next((manifest for manifest in manifests if manifest.kind == "Job"), None)
    if job is None:
        return nothing
    return (
        f"{job.place}: a Job of batch/v1 runs on a cluster only (jobcommon convert FILE | kubectl apply -f -); "
        f"a polyaxonfile that names a framework, as in `framework: pytorch`, becomes a job that runs here: one of {kinds}"
    )


@dataclass(frozen=True)
class Limits:
    """The seconds that a run may take, and that it may be stuck; None and 0: no limit."""

    timeout: float | None = None
    stuck_after: float = 0.0


async def run(manifests: Sequence[Manifest], console: Console, *, namespace: str, limits: Limits) -> int:
    """Run the jobs to their end, or to a limit; the exit code. Raises `UserError` for bad input."""
    wanted = Wanted.of(manifests, namespace)
    display = Display(console, datetime.now)
    async with training_cluster(wanted.frameworks) as running:
        follower = await _follow(running, wanted, display, namespace, limits)
        for job in follower.jobs:
            summary(console, job, list(follower.pods.values()))
        console.print(f"\nended after {display.elapsed}")
    if any(map(follower.stuck, follower.jobs)):
        return STUCK
    return 0 if all(job.succeeded for job in follower.jobs) else JOB_FAILED


async def _follow(running: LocalCluster, wanted: Wanted, display: Display, namespace: str, limits: Limits) -> Follower:
    jobs = wanted.followed
    follower = Follower(running.transport, running.pods, jobs, display, stuck_after=limits.stuck_after)
    with display:
        display.show(jobs)
        try:
            await _apply(running, wanted, display, namespace)
            async with asyncio.timeout(limits.timeout):
                await follower.run(until=_enough)
        except TimeoutError:
            display.say(f"not over after {limits.timeout:g} s (--timeout): stopping", "red")
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


async def _apply(running: LocalCluster, wanted: Wanted, display: Display, namespace: str) -> None:
    target = Cluster(running.transport)
    manifests = (*wanted.others, *(manifest for manifest, _ in wanted.jobs))
    for name in dict.fromkeys(manifest.namespace or namespace for manifest in manifests):
        if await target.ensure_namespace(name):
            display.say(f"namespace/{name} created")
    for manifest in manifests:
        await target.apply(manifest, namespace)
        display.say(f"{manifest.kind.lower()}/{manifest.name} applied")
        if manifest.kind in WORKLOADS:
            display.warning(
                f"{manifest.kind.lower()}/{manifest.name}", f"makes no pods here: no controller for a {manifest.kind}"
            )


def _enough(follower: Follower) -> bool:
    """Whether nothing more can happen: each job is over, stuck, or suspended in a cluster that no other client can reach."""
    return all(
        job.over or follower.stuck(job) or (job.suspended and job.current and job.current.type == "Suspended")
        for job in follower.jobs
    )


def _cause(follower: Follower, job: FollowedJob) -> str:
    """Why the job is stuck: the cause of its first pod that does not run, else the job's own condition."""
    ours = [pod for pod in follower.pods.values() if pod.job == job.key and not pod.gone]
    waiting = [pod for pod in ours if pod.progress is State.WAITS]
    if not waiting:
        return f"no pods; {job.current.message}" if job.current else "no pods and no condition; does its operator run?"
    pod = min(waiting, key=lambda pod: not pod.cause)
    more = f", and {len(waiting) - 1} more pods do not run" if len(waiting) > 1 else ""
    return f"pod/{pod.name} {pod.state}{': ' + pod.cause if pod.cause else ''}{more}"
