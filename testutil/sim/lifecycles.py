"""The lifecycles L1-L14 of reliability.md section 5, for every operator, as scenarios of two to four pods.

Each is built so that its end does not depend on how long the operator was away: containers wait for each other, as training
does, and what runs unobserved either runs until it is stopped or ends the same way whenever that is observed.
`LIFECYCLES` holds them all by name, with those of `testutil.sim.own_lifecycles`, and of the kinds that are facts and a few
variables only, those of `testutil.sim.framework_lifecycles`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from jobcommon.operators.jax import JAX
from jobcommon.operators.paddle import PADDLE
from jobcommon.operators.xgboost import XGBOOST
from jobcommon.runtime.settings import Settings
from jobcommon.testutil.sim import user
from jobcommon.testutil.sim.attempt_lifecycles import attempt_lifecycles
from jobcommon.testutil.sim.framework_lifecycles import lifecycles_of
from jobcommon.testutil.sim.job_templates import JOB_TEMPLATES, MX, TORCH, JobTemplate
from jobcommon.testutil.sim.kubelet import DOWN
from jobcommon.testutil.sim.own_lifecycles import own_lifecycles
from jobcommon.testutil.sim.platform import QUEUE_LABEL
from jobcommon.testutil.sim.pod_groups import COSCHEDULING_GROUPS, VOLCANO_GROUPS
from jobcommon.testutil.sim.scenario import SETTINGS, Exit, Scenario, UserStep
from jobcommon.testutil.sim.stall_lifecycles import stall_lifecycles
from jobcommon.testutil.sim.stopped_lifecycles import stopped_lifecycles

Obj = dict[str, Any]
_CRDS = user.DEFINITIONS
_QUOTA = {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}


def common_lifecycles(template: JobTemplate) -> Iterator[Scenario]:
    """L1 to L14 with the jobs of one template."""
    yield from _ends(template)
    yield from _clean_up(template)
    yield from _user_changes(template)
    yield from _disruptions(template)
    yield from _deletions(template)
    yield from _waiting(template)
    yield from stopped_lifecycles(template)


def _ends(template: JobTemplate) -> Iterator[Scenario]:
    leader, worker = template.leader_pod, template.workers()[0]
    together = user.peers(*template.pods)
    done = Exit(10, cue=together)
    yield template.scenario("L1-success", template.job(), {leader: [done]})
    yield template.scenario("L2-retryable-exit", template.job("ExitCode"), {leader: [Exit(5, 137, cue=together), done]})
    yield template.scenario("L2-worker-retryable", template.job("ExitCode"), {
        worker: [Exit(5, 139, cue=together), Exit()], leader: [Exit(10, cue=_ran(worker, 2))],
    })  # fmt: skip
    yield template.scenario("L2-oom-killed", template.job("ExitCode"), {
        worker: [Exit(5, 137, cause="OOMKilled", cue=together), Exit()], leader: [Exit(10, cue=_ran(worker, 2))],
    })  # fmt: skip
    yield template.scenario("L2-in-place", template.job("OnFailure"), {leader: [Exit(5, 1, cue=together), done]})
    yield template.scenario(
        "L3-permanent-exit", template.job("ExitCode"), {worker: [Exit(5, 3, message="no such file", cue=together)]}
    )
    always = {leader: [Exit(5, 137, cue=together)]}
    yield template.scenario("L4-backoff-limit", template.job("ExitCode", run={"backoffLimit": 2}), always)
    yield template.scenario("L4-no-retries", template.job("ExitCode", run={"backoffLimit": 0}), always)
    yield template.scenario(
        "L4-in-place",
        template.job("OnFailure", run={"backoffLimit": 2}),
        {leader: [Exit(5, 1, cue=together)]},
        loose_runs=frozenset({leader}),
        loose_paths=frozenset({"*.status.restarts*", "*.restarts*", "*.restartCount*", "*.message*"}),
    )
    yield template.scenario("L5-active-deadline", template.job(run={"activeDeadlineSeconds": 60}))
    yield template.scenario("L6-ttl", template.job(run={"ttlSecondsAfterFinished": 30}), {leader: [done]})
    yield template.scenario(
        "L6-ttl-after-failure",
        template.job("ExitCode", run={"ttlSecondsAfterFinished": 0}),
        {worker: [Exit(5, 3, cue=together)]},
    )


def _clean_up(template: JobTemplate) -> Iterator[Scenario]:
    """One worker has succeeded, or ended with exit 0 and was replaced, another runs on when the leader is through."""
    first, _ = template.workers()
    ended = user.phase(first, "Succeeded")
    completes = template.framework.runs_to_completion(template.worker)
    behaviour = {
        first: [Exit(5, cue=user.peers(*template.pods)), Exit()],
        template.leader_pod: [Exit(10, cue=(lambda server, _: ended(server)) if completes else _ran(first, 2))],
    }
    for letter, policy in zip("abc", ("All", "Running", "None"), strict=True):
        yield template.scenario(f"L7{letter}-clean-{policy.lower()}", template.job(run={"cleanPodPolicy": policy}), behaviour)


def _user_changes(template: JobTemplate) -> Iterator[Scenario]:
    framework, pods, leader = template.framework, template.pods, template.leader_pod
    all_run = user.running(*pods)
    done = Exit(10, cue=user.peers(*pods))
    suspend = user.run_policy(framework, template.job_name, suspend=True)
    resume = user.run_policy(framework, template.job_name, suspend=False)
    yield template.scenario("L8-suspend-resume", template.job(), {leader: [Exit(), done]}, user=(
        UserStep("suspend", suspend, when=all_run, after=1),
        UserStep("resume", resume, when=user.gone("pods", *pods), after=20),
    ))  # fmt: skip
    # A pod whose deletion was refused goes on when the job is resumed at once; the Service may be gone by then, or not.
    stopped = user.every((user.condition(framework, template.job_name, "Suspended"), user.leaving(*pods)))
    yield template.scenario("L8-resume-at-once", template.job(), {leader: [Exit(), done]}, user=(
        UserStep("suspend", suspend, when=all_run, after=1),
        UserStep("resume", resume, when=stopped),
    ), loose_paths=frozenset({f"summary: * services/{template.job_name} *"}))  # fmt: skip
    yield template.scenario("L8-starts-suspended", template.job(run={"suspend": True}), {leader: [done]}, user=(
        UserStep("resume", resume, when=user.condition(framework, template.job_name, "Suspended"), after=20),
    ))  # fmt: skip
    # Whether the start is recorded before the suspension is chance.
    yield template.scenario(
        "L8-stays-suspended",
        template.job(),
        user=(UserStep("suspend", suspend, when=all_run, after=1),),
        loose_paths=frozenset({"*.status.startTime*"}),
    )
    third = user.running(template.workers(3)[2])
    scaled = user.told(f"{template.job_name}-scaled")
    yield template.scenario("L9-scale", template.job(), {leader: [Exit(5, cue=scaled)]}, user=(
        UserStep("up", user.scale(framework, template.job_name, template.worker, 3), when=all_run, after=1),
        UserStep("down", user.scale(framework, template.job_name, template.worker, 1), when=third, after=1),
        UserStep("tell", user.tell(f"{template.job_name}-scaled"), when=user.gone("pods", *template.workers(3)[1:])),
    ))  # fmt: skip
    for policy in ("Background", "Foreground"):
        yield template.scenario(f"L10-deleted-{policy.lower()}", template.job(), user=(
            UserStep("delete", user.delete(framework, template.job_name, policy=policy), when=all_run, after=1),
        ))  # fmt: skip
    yield template.scenario("L11-recreated", template.job(), {leader: [done]}, user=(
        UserStep("replace", user.replace_job(framework, template.job()), when=all_run, after=1),
    ))  # fmt: skip
    finished = user.condition(framework, template.job_name, "Succeeded")
    yield template.scenario("L11-recreated-when-finished", template.job(), {leader: [done]}, user=(
        UserStep("replace", user.replace_job(framework, template.job()), when=finished, after=20),
    ))  # fmt: skip


def _disruptions(template: JobTemplate) -> Iterator[Scenario]:
    leader, worker = template.leader_pod, template.workers()[0]
    together, all_run = user.peers(*template.pods), user.running(*template.pods)
    replaced = {leader: [Exit(10, cue=_ran(worker, 2))]}
    job = template.job("ExitCode")
    yield template.scenario("L12-evicted", job, {worker: [Exit(5, cause="Evicted", cue=together), Exit()], **replaced})
    # Who else was on the node is chance; they are all back before the job ends.
    again = _ran(worker, 2)
    back = {leader: [Exit(10, cue=lambda server, runs: again(server, runs) and together(server, runs))]}
    yield template.scenario("L12-node-reboots", job, back, user=(
        UserStep("down", user.set_node(worker, DOWN), when=all_run, after=1),
        UserStep("up", user.wake_nodes, after=20),
    ))  # fmt: skip
    yield template.scenario("L12-node-lost", job, back, user=(
        UserStep("down", user.set_node(worker, DOWN), when=all_run, after=1),
        UserStep("gone", user.remove_node(worker), after=700),
    ))  # fmt: skip
    yield template.scenario("L12-drained", job, back, user=(UserStep("drain", user.drain(worker), when=all_run, after=1),))
    retried = {leader: [Exit(5, 137, cue=together), Exit(10, cue=together)]}
    # A pod collected before its end is on record cannot be distinguished from one deleted while it ran: it runs once more.
    counts = frozenset({"*.status.disruptions*", "*.status.failures*", "*.restarts*", f"summary: * pods/{leader} *"})
    loose: Obj = {"keep_finished": 0, "loose_paths": counts, "loose_runs": frozenset({leader})}
    yield template.scenario("L12-pod-gc", job, retried, **loose)
    yield template.scenario("L12-pod-gc-after-success", template.job(), {leader: [Exit(10, cue=together)]}, **loose)


def _deletions(template: JobTemplate) -> Iterator[Scenario]:
    leader, worker = template.leader_pod, template.workers()[0]
    all_run = user.running(*template.pods)
    replaced = {leader: [Exit(10, cue=_ran(worker, 2))]}
    job = template.job("ExitCode")
    loose = frozenset({"*.status.disruptions*", "*.status.failures*"})
    for name, grace in (("L13-pod-deleted", None), ("L13-pod-deleted-by-force", 0)):
        step = UserStep("delete", user.delete("pods", worker, grace=grace), when=all_run, after=1)
        # By force it may be gone before its end was seen.
        yield template.scenario(name, job, replaced, user=(step,), loose_paths=loose if grace == 0 else frozenset())
    # A pod that vanishes is replaced; whether its deletion was observed, and so counted, is chance.
    yield template.scenario("L13-pod-and-finalizer", job, replaced, loose_paths=loose, user=(
        UserStep("strip", user.strip_finalizer(worker), when=all_run, after=1),
        UserStep("delete", user.delete("pods", worker)),
    ))  # fmt: skip
    word = f"{template.job_name}-restored"
    yield template.scenario("L13-service-deleted", template.job(), {leader: [Exit(5, cue=user.told(word))]}, user=(
        UserStep("delete", user.delete("services", template.job_name), when=all_run, after=1),
        UserStep("tell", user.tell(word), when=user.there("services", template.job_name), after=1),
    ))  # fmt: skip


def _waiting(template: JobTemplate) -> Iterator[Scenario]:
    done = {template.leader_pod: [Exit(10, cue=user.peers(*template.pods))]}
    for name, scheduler, crd in (("volcano", "volcano", VOLCANO_GROUPS), ("coscheduling", "gang", COSCHEDULING_GROUPS)):
        settings = Settings(metrics_port=None, log_level=SETTINGS.log_level, gang_scheduler_name=scheduler)
        yield template.scenario(f"L14-{name}", template.job(), done, settings=settings, objects=((_CRDS, crd),))
    queued = template.job(run={"suspend": True}, labels={QUEUE_LABEL: "team"})
    yield template.scenario("L14-queued", queued, done)
    yield template.scenario("L15-quota", template.job(), done, objects=((user.path_of("resourcequotas"), _QUOTA),), user=(
        UserStep("raise", user.merge("resourcequotas", "none", {"spec": {"hard": {"pods": "10"}}}), at=60),
    ))  # fmt: skip


def _ran(pod: str, times: int) -> user.Cue:
    return lambda server, runs: runs.get(pod, 0) >= times and user.running(pod)(server)


LIFECYCLES: Mapping[str, Scenario] = {
    scenario.name: scenario
    for scenarios in (
        *(common_lifecycles(template) for template in JOB_TEMPLATES),
        *map(attempt_lifecycles, JOB_TEMPLATES),
        own_lifecycles(),
        stall_lifecycles(TORCH),
        stall_lifecycles(MX),
        *map(lifecycles_of, (JAX, XGBOOST, PADDLE)),
    )
    for scenario in scenarios
}
