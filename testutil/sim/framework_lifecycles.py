"""Lifecycles for the jobs of any framework, whichever of its replicas decide.

The pods end one after the other, the first replica of the first type last, so that a job has run whole whatever its rule of
success is. Types that do not run to completion serve until they are stopped.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import pairwise
from typing import Any

from jobcommon.api.job import RestartPolicy
from jobcommon.api.replica import Replica
from jobcommon.framework import Framework, Job
from jobcommon.spec import read_job
from jobcommon.testutil.builders import job_manifest
from jobcommon.testutil.sim import user
from jobcommon.testutil.sim.scenario import FOREVER, Exit, Scenario, UserStep

SUCCEEDED, FAILED = "Succeeded", "Failed"
ENDS = {
    "L1-success": SUCCEEDED,
    "L2-retryable-exit": SUCCEEDED,
    "L3-permanent-exit": FAILED,
    "L8-suspend-resume": SUCCEEDED,
    "L13-pod-deleted": SUCCEEDED,
    "L19-resize": SUCCEEDED,
    "L20-resize-in-place": SUCCEEDED,
}
"""The lifecycles and how the job of each ends."""
Obj = dict[str, Any]


def whole_job(framework: Framework) -> Obj:
    """A job with one replica of each type, and two of the last one where it may have two."""
    *_, last = framework.replica_types
    counts = {kind.name: max(1, kind.min_replicas) for kind in framework.replica_types}
    if last.max_replicas is None or last.max_replicas > 1:
        counts[last.name] = max(2, last.min_replicas)
    return {**job_manifest(framework, counts), "metadata": {"name": "demo", "namespace": user.NAMESPACE}}


def lifecycles_of(framework: Framework, job: Mapping[str, Any] | None = None) -> tuple[Scenario, ...]:
    """The lifecycles of `job`; without one, of a job that has every type. Raises ValueError for a job that is invalid."""
    manifest = deepcopy(dict(job)) if job is not None else whole_job(framework)
    read = read_job(framework, manifest)
    if read.errors:
        raise ValueError(f"this {framework.kind} is invalid, give another as `job`: {'; '.join(map(str, read.errors))}")
    pods = tuple(read.pod_name(replica) for replica in read.replicas)
    ending = [read.pod_name(replica) for replica in read.replicas if framework.runs_to_completion(replica.type)][::-1]
    together = user.peers(*pods)
    first, done = ending[0], Exit(5, cue=together)
    rest: dict[str, Sequence[Exit]] = {pod: [Exit(5, cue=_after(before))] for before, pod in pairwise(ending)}
    suspend, resume = (user.run_policy(framework, read.name, suspend=wanted) for wanted in (True, False))
    restarts = _with_policy(framework, manifest)
    behaviour = {
        "L1-success": (manifest, [done], ()),
        "L2-retryable-exit": (restarts, [Exit(5, 137, cue=together), done], ()),
        "L3-permanent-exit": (restarts, [Exit(5, 3, message="no such file", cue=together)], ()),
        "L8-suspend-resume": (manifest, [Exit(), done], (
            UserStep("suspend", suspend, when=user.running(*pods), after=1),
            UserStep("resume", resume, when=user.gone("pods", *pods), after=20),
        )),
        "L13-pod-deleted": (restarts, [Exit(), done], (
            UserStep("delete", user.delete("pods", first), when=user.running(*pods), after=1),
        )),
    }  # fmt: skip
    for name, method in (("L19-resize", "Recreate"), ("L20-resize-in-place", "Auto")):
        behaviour |= {name: resized} if (resized := _resized(framework, read, restarts, method)) is not None else {}
    return tuple(
        Scenario(f"{framework.name}/{name}", (framework,), (body,), _behaviour({**rest, first: runs}, name), steps)
        for name, (body, runs, steps) in behaviour.items()
    )


def _behaviour(scripts: Mapping[str, Sequence[Exit]], lifecycle: str) -> Mapping[str, Sequence[Exit]]:
    """What the pods run. A program that answers SIGTERM with 0 has ended, and its pod cannot be kept."""
    if "resize" not in lifecycle:
        return scripts
    return {pod: [replace(one, term=143) for one in runs] for pod, runs in [*scripts.items(), ("*", FOREVER)]}


def _resized(framework: Framework, job: Job, manifest: Obj, method: str) -> tuple[Obj, list[Exit], tuple[UserStep, ...]] | None:
    """A resize to one replica more, and back, of the last type that may have more; each when the attempt before it runs.

    It succeeds in the attempt of the second resize alone. None for a job that no resize restarts.
    """
    kinds = [kind.name for kind in framework.replica_types if kind.name in job.replica_specs and kind.max_replicas is None]
    if not kinds or framework.joins(job, kinds[-1]):
        return None
    body, kind, before = deepcopy(manifest), kinds[-1], job.count(kinds[-1])
    body["spec"]["runPolicy"] = {**(body["spec"].get("runPolicy") or {}), "restartScope": "Job", "restartMethod": method}
    if read_job(framework, body).errors:
        return None
    (spelled,) = (name for name in body["spec"][framework.replica_specs] if name.lower() == kind.lower())
    pods = [job.pod_name(replica) for replica in job.replicas]
    first, larger, smaller = (
        user.sized(framework, job.name, kind, size, attempt, *pods, *added)
        for attempt, size, added in ((0, before, ()), (1, before + 1, (job.pod_name(Replica(kind, before)),)), (2, before, ()))
    )
    steps = (
        UserStep("grow", user.scale(framework, job.name, spelled, before + 1), when=first, after=5),
        UserStep("shrink", user.scale(framework, job.name, spelled, before), when=larger, after=5),
    )
    return body, [Exit(5, cue=lambda server, _runs: smaller(server))], steps


def _after(pod: str) -> user.Cue:
    """The pod has succeeded by itself: one that is deleted may end with 0, and is replaced."""
    ended, leaving = user.phase(pod, SUCCEEDED), user.leaving(pod)
    return lambda server, _runs: ended(server) and not leaving(server)


def _with_policy(framework: Framework, manifest: Obj) -> Obj:
    """The job with ExitCode for the types that may have it."""
    found = deepcopy(manifest)
    for kind in framework.replica_types:
        if kind.name in found["spec"][framework.replica_specs] and RestartPolicy.EXIT_CODE in kind.restart_policies:
            found["spec"][framework.replica_specs][kind.name]["restartPolicy"] = RestartPolicy.EXIT_CODE.value
    return found
