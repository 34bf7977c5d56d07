"""``jobcommon run``: jobs on an embedded cluster, from the manifest to their end."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from rich.console import Console

from cli.display import Display, summary
from cli.errors import JOB_FAILED, UserError
from cli.following import FollowedJob, Follower
from cli.frameworks import installed, of_manifest
from cli.manifests import Manifest
from cli.planning import checked
from cli.resources import Cluster
from jobcommon.framework import Framework
from localcluster.cluster import LocalCluster
from localcluster.training import training_cluster

OURS = "kubeflow.org"
#: Objects that make pods only where a controller of the cluster's own looks after them, which the embedded one does not have.
WORKLOADS = ("Job", "CronJob", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController")


@dataclass(frozen=True)
class Wanted:
    """What a user's manifests ask for: the jobs, by framework, and the objects they need."""

    jobs: Sequence[tuple[Manifest, Framework]]
    others: Sequence[Manifest]

    @classmethod
    def of(cls, manifests: Sequence[Manifest]) -> "Wanted":
        """Sort and check them. Raises `UserError` for an invalid job, a job nobody here runs, and when there is no job."""
        jobs: list[tuple[Manifest, Framework]] = []
        others: list[Manifest] = []
        kinds = ", ".join(framework.kind for framework in installed().values())
        for manifest in manifests:
            framework = of_manifest(manifest.body)
            if framework is not None:
                jobs.append((manifest, framework))
            elif str(manifest.body["apiVersion"]).startswith(f"{OURS}/"):
                raise UserError(f'{manifest.place}: kind: "{manifest.kind}" is none of the kinds there are here: {kinds}')
            else:
                others.append(manifest)
        if not jobs:
            raise UserError(_no_job(manifests, kinds))
        for manifest, framework in jobs:
            job = checked(manifest, framework)
            if job.managed_elsewhere:
                text = f'"{job.run_policy.managed_by}" runs this job, not the operator here; remove the field'
                raise UserError(f"{manifest.place}: spec.runPolicy.managedBy: {text}")
        return cls(jobs, others)

    @property
    def frameworks(self) -> list[Framework]:
        """The frameworks of the jobs, each once."""
        return list({framework.kind: framework for _, framework in self.jobs}.values())


def _no_job(manifests: Sequence[Manifest], kinds: str) -> str:
    nothing = f"{manifests[0].source}: no job in it; a job's kind is one of {kinds}"
    job = next((manifest for manifest in manifests if manifest.kind == "Job"), None)
    if job is None:
        return nothing
    return (
        f"{job.place}: a Job of batch/v1 runs on a cluster only (jobcommon convert FILE | kubectl apply -f -); "
        f"a polyaxonfile that names a framework, as in `framework: pytorch`, becomes a job that runs here: one of {kinds}"
    )


async def run(manifests: Sequence[Manifest], console: Console, *, namespace: str, limit: float | None) -> int:
    """Run the jobs to their end, at most `limit` seconds; the exit code. Raises `UserError` for bad input."""
    wanted = Wanted.of(manifests)
    jobs = [FollowedJob(framework, m.namespace or namespace, m.name) for m, framework in wanted.jobs]
    async with training_cluster(wanted.frameworks) as running:
        follower = await _follow(running, wanted, jobs, console, namespace, limit)
        for job in jobs:
            summary(console, job, list(follower.pods.values()))
    return 0 if all(job.succeeded for job in jobs) else JOB_FAILED


async def _follow(
    running: LocalCluster,
    wanted: Wanted,
    jobs: Sequence[FollowedJob],
    console: Console,
    namespace: str,
    limit: float | None,
) -> Follower:
    with Display(console, datetime.now) as display:
        display.show(jobs)
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
        follower = Follower(running.transport, running.pods, jobs, display)
        try:
            async with asyncio.timeout(limit):
                await follower.run(until=_enough)
        except TimeoutError:
            display.say(f"not over after {limit:g} s (--timeout): stopping", "red")
        else:
            for job in jobs:
                if not job.over:
                    display.say(f"{job.title} is suspended and nobody here will resume it; try it with jobcommon up", "yellow")
    return follower


def _enough(follower: Follower) -> bool:
    """Whether nothing more can happen: each job is over, or suspended in a cluster that nobody else can reach."""
    return all(job.over or (job.suspended and job.current and job.current.type == "Suspended") for job in follower.jobs)
