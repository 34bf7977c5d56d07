"""The lifecycles L1-L14 of reliability.md section 5, for every operator, as scenarios of two to four pods.

Each is built so that its end does not depend on how long the operator was away: containers wait for each other, as training
does, and what runs while nobody watches either runs until it is stopped or ends the same way whenever that is seen.
`LIFECYCLES` holds them all by name, with those of `testutil.sim.own_lifecycles`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from jobcommon.runtime.settings import Settings
from jobcommon.testutil.sim import user
from jobcommon.testutil.sim.kubelet import DOWN
from jobcommon.testutil.sim.own_lifecycles import own_lifecycles
from jobcommon.testutil.sim.platform import QUEUE_LABEL
from jobcommon.testutil.sim.pod_groups import COSCHEDULING_GROUPS, VOLCANO_GROUPS
from jobcommon.testutil.sim.scenario import SETTINGS, Exit, Scenario, UserStep
from jobcommon.testutil.sim.shapes import SHAPES, Shape
from jobcommon.testutil.sim.stopped_lifecycles import stopped_lifecycles

Obj = dict[str, Any]
_CRDS = user.DEFINITIONS
_QUOTA = {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}


def common_lifecycles(shape: Shape) -> Iterator[Scenario]:
    """L1 to L14 in the shape of one operator."""
    yield from _ends(shape)
    yield from _clean_up(shape)
    yield from _user_changes(shape)
    yield from _disruptions(shape)
    yield from _deletions(shape)
    yield from _waiting(shape)
    yield from stopped_lifecycles(shape)


def _ends(shape: Shape) -> Iterator[Scenario]:
    leader, worker = shape.leader_pod, shape.workers()[0]
    together = user.peers(*shape.pods)
    done = Exit(10, cue=together)
    yield shape.scenario("L1-success", shape.job(), {leader: [done]})
    yield shape.scenario("L2-retryable-exit", shape.job("ExitCode"), {leader: [Exit(5, 137, cue=together), done]})
    yield shape.scenario("L2-worker-retryable", shape.job("ExitCode"), {
        worker: [Exit(5, 139, cue=together), Exit()], leader: [Exit(10, cue=_ran(worker, 2))],
    })  # fmt: skip
    yield shape.scenario("L2-oom-killed", shape.job("ExitCode"), {
        worker: [Exit(5, 137, cause="OOMKilled", cue=together), Exit()], leader: [Exit(10, cue=_ran(worker, 2))],
    })  # fmt: skip
    yield shape.scenario("L2-in-place", shape.job("OnFailure"), {leader: [Exit(5, 1, cue=together), done]})
    yield shape.scenario(
        "L3-permanent-exit", shape.job("ExitCode"), {worker: [Exit(5, 3, message="no such file", cue=together)]}
    )
    always = {leader: [Exit(5, 137, cue=together)]}
    yield shape.scenario("L4-backoff-limit", shape.job("ExitCode", run={"backoffLimit": 2}), always)
    yield shape.scenario("L4-no-retries", shape.job("ExitCode", run={"backoffLimit": 0}), always)
    yield shape.scenario(
        "L4-in-place",
        shape.job("OnFailure", run={"backoffLimit": 2}),
        {leader: [Exit(5, 1, cue=together)]},
        loose_runs=frozenset({leader}),
        loose_paths=frozenset({"*.status.restarts*", "*.restarts*", "*.restartCount*", "*.message*"}),
    )
    yield shape.scenario("L5-active-deadline", shape.job(run={"activeDeadlineSeconds": 60}))
    yield shape.scenario("L6-ttl", shape.job(run={"ttlSecondsAfterFinished": 30}), {leader: [done]})
    yield shape.scenario(
        "L6-ttl-after-failure",
        shape.job("ExitCode", run={"ttlSecondsAfterFinished": 0}),
        {worker: [Exit(5, 3, cue=together)]},
    )


def _clean_up(shape: Shape) -> Iterator[Scenario]:
    """One worker has succeeded, or ended with exit 0 and was replaced, another runs on when the leader is through."""
    first, _ = shape.workers()
    ended = user.phase(first, "Succeeded")
    completes = shape.framework.runs_to_completion(shape.worker)
    behaviour = {
        first: [Exit(5, cue=user.peers(*shape.pods)), Exit()],
        shape.leader_pod: [Exit(10, cue=(lambda server, _: ended(server)) if completes else _ran(first, 2))],
    }
    for letter, policy in zip("abc", ("All", "Running", "None"), strict=True):
        yield shape.scenario(f"L7{letter}-clean-{policy.lower()}", shape.job(run={"cleanPodPolicy": policy}), behaviour)


def _user_changes(shape: Shape) -> Iterator[Scenario]:
    framework, pods, leader = shape.framework, shape.pods, shape.leader_pod
    all_run = user.running(*pods)
    done = Exit(10, cue=user.peers(*pods))
    suspend = user.run_policy(framework, shape.job_name, suspend=True)
    resume = user.run_policy(framework, shape.job_name, suspend=False)
    yield shape.scenario("L8-suspend-resume", shape.job(), {leader: [Exit(), done]}, user=(
        UserStep("suspend", suspend, when=all_run, after=1),
        UserStep("resume", resume, when=user.gone("pods", *pods), after=20),
    ))  # fmt: skip
    # A pod whose deletion was refused goes on when the job is resumed at once; the Service may be gone by then, or not.
    stopped = user.every((user.condition(framework, shape.job_name, "Suspended"), user.leaving(*pods)))
    yield shape.scenario("L8-resume-at-once", shape.job(), {leader: [Exit(), done]}, user=(
        UserStep("suspend", suspend, when=all_run, after=1),
        UserStep("resume", resume, when=stopped),
    ), loose_paths=frozenset({f"summary: * services/{shape.job_name} *"}))  # fmt: skip
    yield shape.scenario("L8-starts-suspended", shape.job(run={"suspend": True}), {leader: [done]}, user=(
        UserStep("resume", resume, when=user.condition(framework, shape.job_name, "Suspended"), after=20),
    ))  # fmt: skip
    # Whether the start could be written down before the suspension is chance.
    yield shape.scenario(
        "L8-stays-suspended",
        shape.job(),
        user=(UserStep("suspend", suspend, when=all_run, after=1),),
        loose_paths=frozenset({"*.status.startTime*"}),
    )
    third = user.running(shape.workers(3)[2])
    yield shape.scenario("L9-scale", shape.job(), {leader: [Exit(5, cue=user.told(f"{shape.job_name}-scaled"))]}, user=(
        UserStep("up", user.scale(framework, shape.job_name, shape.worker, 3), when=all_run, after=1),
        UserStep("down", user.scale(framework, shape.job_name, shape.worker, 1), when=third, after=1),
        UserStep("tell", user.tell(f"{shape.job_name}-scaled"), when=user.gone("pods", *shape.workers(3)[1:])),
    ))  # fmt: skip
    for policy in ("Background", "Foreground"):
        yield shape.scenario(f"L10-deleted-{policy.lower()}", shape.job(), user=(
            UserStep("delete", user.delete(framework, shape.job_name, policy=policy), when=all_run, after=1),
        ))  # fmt: skip
    yield shape.scenario("L11-recreated", shape.job(), {leader: [done]}, user=(
        UserStep("replace", user.replace_job(framework, shape.job()), when=all_run, after=1),
    ))  # fmt: skip
    finished = user.condition(framework, shape.job_name, "Succeeded")
    yield shape.scenario("L11-recreated-when-finished", shape.job(), {leader: [done]}, user=(
        UserStep("replace", user.replace_job(framework, shape.job()), when=finished, after=20),
    ))  # fmt: skip


def _disruptions(shape: Shape) -> Iterator[Scenario]:
    leader, worker = shape.leader_pod, shape.workers()[0]
    together, all_run = user.peers(*shape.pods), user.running(*shape.pods)
    replaced = {leader: [Exit(10, cue=_ran(worker, 2))]}
    job = shape.job("ExitCode")
    yield shape.scenario("L12-evicted", job, {worker: [Exit(5, cause="Evicted", cue=together), Exit()], **replaced})
    # Who else was on the node is chance; they are all back before the job ends.
    again = _ran(worker, 2)
    back = {leader: [Exit(10, cue=lambda server, runs: again(server, runs) and together(server, runs))]}
    yield shape.scenario("L12-node-reboots", job, back, user=(
        UserStep("down", user.set_node(worker, DOWN), when=all_run, after=1),
        UserStep("up", user.wake_nodes, after=20),
    ))  # fmt: skip
    yield shape.scenario("L12-node-lost", job, back, user=(
        UserStep("down", user.set_node(worker, DOWN), when=all_run, after=1),
        UserStep("gone", user.remove_node(worker), after=700),
    ))  # fmt: skip
    yield shape.scenario("L12-drained", job, back, user=(UserStep("drain", user.drain(worker), when=all_run, after=1),))
    retried = {leader: [Exit(5, 137, cue=together), Exit(10, cue=together)]}
    # What is collected before its end is on record cannot be told from what was deleted while it ran: it runs once more.
    counts = frozenset({"*.status.disruptions*", "*.status.failures*", "*.restarts*", f"summary: * pods/{leader} *"})
    loose: Obj = {"keep_finished": 0, "loose_paths": counts, "loose_runs": frozenset({leader})}
    yield shape.scenario("L12-pod-gc", job, retried, **loose)
    yield shape.scenario("L12-pod-gc-after-success", shape.job(), {leader: [Exit(10, cue=together)]}, **loose)


def _deletions(shape: Shape) -> Iterator[Scenario]:
    leader, worker = shape.leader_pod, shape.workers()[0]
    all_run = user.running(*shape.pods)
    replaced = {leader: [Exit(10, cue=_ran(worker, 2))]}
    job = shape.job("ExitCode")
    loose = frozenset({"*.status.disruptions*", "*.status.failures*"})
    for name, grace in (("L13-pod-deleted", None), ("L13-pod-deleted-by-force", 0)):
        step = UserStep("delete", user.delete("pods", worker, grace=grace), when=all_run, after=1)
        # By force it may be gone before its end was seen.
        yield shape.scenario(name, job, replaced, user=(step,), loose_paths=loose if grace == 0 else frozenset())
    # A pod that vanishes without a trace is replaced; whether anybody saw it go, to count it, is chance.
    yield shape.scenario("L13-pod-and-finalizer", job, replaced, loose_paths=loose, user=(
        UserStep("strip", user.strip_finalizer(worker), when=all_run, after=1),
        UserStep("delete", user.delete("pods", worker)),
    ))  # fmt: skip
    word = f"{shape.job_name}-restored"
    yield shape.scenario("L13-service-deleted", shape.job(), {leader: [Exit(5, cue=user.told(word))]}, user=(
        UserStep("delete", user.delete("services", shape.job_name), when=all_run, after=1),
        UserStep("tell", user.tell(word), when=user.there("services", shape.job_name), after=1),
    ))  # fmt: skip


def _waiting(shape: Shape) -> Iterator[Scenario]:
    done = {shape.leader_pod: [Exit(10, cue=user.peers(*shape.pods))]}
    for name, scheduler, crd in (("volcano", "volcano", VOLCANO_GROUPS), ("coscheduling", "gang", COSCHEDULING_GROUPS)):
        settings = Settings(metrics_port=None, log_level=SETTINGS.log_level, gang_scheduler_name=scheduler)
        yield shape.scenario(f"L14-{name}", shape.job(), done, settings=settings, objects=((_CRDS, crd),))
    queued = shape.job(run={"suspend": True}, labels={QUEUE_LABEL: "team"})
    yield shape.scenario("L14-queued", queued, done)
    yield shape.scenario("L15-quota", shape.job(), done, objects=((user.path_of("resourcequotas"), _QUOTA),), user=(
        UserStep("raise", user.merge("resourcequotas", "none", {"spec": {"hard": {"pods": "10"}}}), at=60),
    ))  # fmt: skip


def _ran(pod: str, times: int) -> user.Cue:
    return lambda server, runs: runs.get(pod, 0) >= times and user.running(pod)(server)


LIFECYCLES: Mapping[str, Scenario] = {
    scenario.name: scenario
    for scenarios in (*(common_lifecycles(shape) for shape in SHAPES), own_lifecycles())
    for scenario in scenarios
}
