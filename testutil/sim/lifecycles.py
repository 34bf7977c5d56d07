"""Lifecycles for the jobs of any framework, whichever of its replicas decide.

The pods end one after the other, the first replica of the first type last, so that a job has run whole whatever its rule of
success is. Types that do not run to completion serve until they are stopped.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from itertools import pairwise
from operator import attrgetter
from typing import Any

from jobcommon.api import labels
from jobcommon.api.job import RestartPolicy
from jobcommon.framework import Framework, Job
from jobcommon.spec import read_job
from jobcommon.testutil.builders import Manifest, job_manifest
from jobcommon.testutil.cluster_model import ClusterModel
from jobcommon.testutil.frameworks import path_of
from jobcommon.testutil.sim.scenario import Exit, Scenario, UserStep, When, ask, change

FAILS = "L3-permanent-exit"
"""The lifecycle whose job fails; those of the others succeed."""
TRAINS: When = attrgetter("trains")
"""All replicas run: the rendezvous of a training job."""


def whole_job(framework: Framework) -> Manifest:
    """A job with one replica of each type, and two of the last one where it may have two."""
    *_, last = framework.replica_types
    counts = {kind.name: max(1, kind.min_replicas) for kind in framework.replica_types}
    if last.max_replicas is None or last.max_replicas > 1:
        counts[last.name] = max(2, last.min_replicas)
    return {**job_manifest(framework, counts), "metadata": {"name": "demo", "namespace": "default"}}


def lifecycles_of(framework: Framework, job: Mapping[str, Any] | None = None) -> Mapping[str, Scenario]:
    """By name, those of `job`; without one, of a job that has every type. Raises ValueError for a job that is invalid."""
    manifest = deepcopy(dict(job)) if job is not None else whole_job(framework)
    read = read_job(framework, manifest)
    if read.errors:
        raise ValueError(f"this {framework.kind} is invalid, give another as `job`: {'; '.join(map(str, read.errors))}")
    ending = [read.pod_name(replica) for replica in read.replicas if framework.runs_to_completion(replica.type)][::-1]
    first, done, restarts = ending[0], Exit(0, cue=TRAINS), _with_policy(framework, manifest)
    suspend, resume = (change(framework, read.name, runPolicy={"suspend": wanted}) for wanted in (True, False))
    lives: dict[str, tuple[Manifest, Sequence[Exit], tuple[UserStep, ...]]] = {
        "L1-success": (manifest, [done], ()),
        "L2-retryable-exit": (restarts, [Exit(137, cue=TRAINS), done], ()),
        FAILS: (restarts, [Exit(3, "no such file", TRAINS)], ()),
        "L8-suspend-resume": (
            manifest,
            [Exit(), done],
            (UserStep(suspend, TRAINS, after=1), UserStep(resume, lambda world: not world.pods, after=20)),
        ),
        "L13-pod-deleted": (
            restarts,
            [Exit(), done],
            (UserStep(lambda server: ask(server, "DELETE", path_of("pods", first)), TRAINS, after=1),),
        ),
    }
    for name, method in (("L19-resize", "Recreate"), ("L20-resize-in-place", "Auto")):
        lives |= {name: resized} if (resized := _resized(framework, read, restarts, method)) is not None else {}
    rest = {pod: [Exit(0, cue=_after(before))] for before, pod in pairwise(ending)}
    return {name: Scenario((framework,), (body,), {**rest, first: runs}, steps) for name, (body, runs, steps) in lives.items()}


def _after(pod: str) -> When:
    """The pod has succeeded by itself: one that is deleted may end with 0, and is replaced."""

    def when(world: ClusterModel) -> bool:
        found = world.pods.get(pod)
        return found is not None and found.view.phase == "Succeeded" and found.view.deletion_time is None

    return when


def _sized(kind: str, size: int, attempt: int) -> When:
    """That attempt or a later one has that size, and all of its replicas run."""

    def when(world: ClusterModel) -> bool:
        status = world.job.status
        present = status.attempt or 0
        same = all(pod.view.annotations.get(labels.ATTEMPT, "0") == str(present) for pod in world.pods.values())
        return world.trains and same and present >= attempt and status.attempt_replicas.get(kind) == size

    return when


def _resized(
    framework: Framework, job: Job, manifest: Manifest, method: str
) -> tuple[Manifest, Sequence[Exit], tuple[UserStep, ...]] | None:
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
    steps = tuple(
        UserStep(
            change(framework, job.name, **{framework.replica_specs: {spelled: {"replicas": wanted}}}),
            _sized(kind, size, attempt),
            after=5,
        )
        for attempt, size, wanted in ((0, before, before + 1), (1, before + 1, before))
    )
    return body, [Exit(0, cue=_sized(kind, before, 2))], steps


def _with_policy(framework: Framework, manifest: Manifest) -> Manifest:
    """The job with ExitCode for the types that may have it."""
    found = deepcopy(manifest)
    for kind in framework.replica_types:
        if kind.name in found["spec"][framework.replica_specs] and RestartPolicy.EXIT_CODE in kind.restart_policies:
            found["spec"][framework.replica_specs][kind.name]["restartPolicy"] = RestartPolicy.EXIT_CODE.value
    return found
