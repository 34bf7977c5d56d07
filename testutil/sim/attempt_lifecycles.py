"""Lifecycles of jobs whose replicas are restarted together (`restartScope: Job`), and of jobs that keep logs.

The ranks are as those of DistributedDataParallel: when one has ended, the others fail a second later.
"""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

from jobcommon.api import labels
from jobcommon.testutil.sim import user
from jobcommon.testutil.sim.job_templates import JobTemplate
from jobcommon.testutil.sim.kept_logs import SUFFIX
from jobcommon.testutil.sim.kubelet import DOWN, PARTITIONED
from jobcommon.testutil.sim.scenario import Exit, Scenario, UserStep
from localcluster import ApiServer


def attempt_lifecycles(template: JobTemplate) -> Iterator[Scenario]:
    """What ends an attempt, what stops one, and what fails the job."""
    pods, leader = template.pods, template.leader_pod
    first, second = template.workers()
    together, all_run = user.peers(*pods), user.running(*pods)
    run = {"restartScope": "Job"}

    def ranks(culprit: Exit, *, attempts: int = 2) -> Mapping[str, list[Exit]]:
        """The first worker ends as `culprit` in all attempts but the last, which succeeds."""

        def peer(pod: str, last: Exit) -> list[Exit]:
            return [Exit(1, 1, cue=_lost(first, pod))] * (attempts - 1) + [last]

        return {first: [culprit] * (attempts - 1) + [Exit()], second: peer(second, Exit()), leader: peer(leader, done)}

    killed, done = Exit(5, 137, cue=together), Exit(10, cue=together)
    # An operator that was away sees the failed peers as well, and nodes have clocks of their own.
    first_told: Any = {"loose_paths": frozenset({"*.status.failures*", "*.replicaStatuses.*.restarts*"})}
    yield template.scenario("A-rank-killed", template.job("OnFailure", run=run), ranks(killed), **first_told)
    yield template.scenario("A-rank-killed-twice", template.job("ExitCode", run=run), ranks(killed, attempts=3), **first_told)
    slow = Exit(stop=20)
    yield template.scenario("A-peers-stop-slowly", template.job("OnFailure", run=run), {
        first: [killed, Exit()], second: [slow, Exit()], leader: [slow, done],
    })  # fmt: skip
    # How the peers of the last attempt end is chance.
    yield template.scenario("A-permanent-exit", template.job("ExitCode", run=run), {first: [Exit(5, 3, cue=together)]})
    limited = {**run, "backoffLimit": 1}
    yield template.scenario("A-backoff-limit", template.job("OnFailure", run=limited), {first: [killed]})
    yield template.scenario("A-evicted", template.job("ExitCode", run=run), ranks(Exit(5, cause="Evicted", cue=together)))
    job: Any = template.job("OnFailure", run=run)
    lost = ranks(Exit())
    yield template.scenario("A-pod-deleted", job, lost, user=(
        UserStep("delete", user.delete("pods", first), when=all_run, after=1),
    ))  # fmt: skip
    # Who else was on the node is chance.
    yield template.scenario("A-node-lost", job, lost, user=(
        UserStep("down", user.set_node(first, DOWN), when=all_run, after=1),
        UserStep("gone", user.remove_node(first), after=700),
    ), loose_paths=frozenset({"*.status.failures*"}))  # fmt: skip
    yield from _silent_nodes(template, lost, all_run)
    stopped = user.every((user.condition(template.framework, template.job_name, "Suspended"), user.leaving(*pods)))
    # Where a fault takes the right for a while, the log is not kept, and the condition says so.
    # Which replica was the first to fail is told by the clocks of nodes.
    loosely = frozenset({f"configmaps/*{SUFFIX}*", "*.status.conditions*.message*", "*.status.failures*"})
    kept: Any = {"loose_paths": loosely}
    again = Exit(10, cue=lambda server, runs: runs.get(first, 0) > 1 and all_run(server))
    logs = {"keepFailedLogs": True}
    yield template.scenario("K-log-of-a-restart", template.job("ExitCode", run=logs), {
        first: [killed, Exit()], leader: [again],
    }, **kept)  # fmt: skip
    yield template.scenario("K-log-of-an-attempt", template.job("OnFailure", run={**run, **logs}), ranks(killed), **kept)
    yield template.scenario("K-log-of-the-end", template.job("Never", run={**logs, "cleanPodPolicy": "All"}), {
        first: [Exit(5, 3, cue=together)],
    }, **kept)  # fmt: skip
    yield template.scenario("A-resume-at-once", job, {leader: [Exit(), Exit(10, cue=together)]}, user=(
        UserStep("suspend", user.run_policy(template.framework, template.job_name, suspend=True), when=all_run, after=1),
        UserStep("resume", user.run_policy(template.framework, template.job_name, suspend=False), when=stopped),
    ), loose_paths=frozenset({f"summary: * services/{template.job_name} *", "*.status.attempt*"}))  # fmt: skip
    # In place. The kubelet restarts the container that has failed once, before the operator stops all of them.
    kept = {**run, "restartMethod": "Auto", "keepFailedLogs": False}
    waits = Exit(term=143)
    in_place = {first: [replace(killed, term=143), waits], second: [waits], leader: [waits, replace(done, term=143)]}
    once_more = frozenset({first})
    yield template.scenario("A-in-place", template.job("OnFailure", run=kept), in_place, loose_runs=once_more)
    yield template.scenario(
        "K-log-in-place",
        template.job("OnFailure", run={**kept, **logs}),
        in_place,
        loose_runs=once_more,
        loose_paths=loosely,
    )
    slowly = {**in_place, second: [Exit(term=143, stop=20)]}
    yield template.scenario("A-in-place-slowly", template.job("ExitCode", run=kept), slowly, loose_runs=once_more)
    # A program that ends with 0 when it is stopped ends its pod.
    ends_well = {**in_place, second: [Exit(term=0)]}
    yield template.scenario("A-in-place-but-one", template.job("OnFailure", run=kept), ends_well, loose_runs=once_more)


def _silent_nodes(template: JobTemplate, behaviour: Mapping[str, list[Exit]], all_run: user.When) -> Iterator[Scenario]:
    """A node falls silent for good, or for as long as a program of a new attempt could run beside those that are on it."""
    first = template.workers()[0]
    loose = frozenset({"*.status.failures*", "*.status.nodeFailures*"})
    job: Any = template.job("OnFailure", run={"restartScope": "Job", "nodeLossSeconds": 30})
    down = UserStep("down", user.set_node(first, DOWN), when=all_run, after=1)
    off = UserStep("off", user.out_of_service(first), after=120)
    yield template.scenario("A-node-out-of-service", job, behaviour, user=(down, off), loose_paths=loose)
    cut = UserStep("cut", user.set_node(first, PARTITIONED), when=all_run, after=1)
    heal = UserStep("heal", user.wake_nodes, after=300)
    yield template.scenario("A-node-cut-off", job, behaviour, user=(cut, heal), loose_paths=loose)
    safe: Any = deepcopy(job)
    for spec in safe["spec"][template.framework.replica_specs].values():
        spec["template"]["metadata"] = {"annotations": {labels.SAFE_TO_DELETE: "true"}}
        spec["template"]["spec"]["terminationGracePeriodSeconds"] = 10
    yield template.scenario("A-node-silent", safe, behaviour, user=(down,), loose_paths=loose)


def _lost(pod: str, peer: str) -> user.Cue:
    """Whether `peer` notices that `pod`, which it was connected to in this run, does not run any more."""
    runs_now = user.running(pod)

    def lost(server: ApiServer, runs: Mapping[str, int]) -> bool:
        return runs.get(pod, 0) >= runs.get(peer, 0) and not runs_now(server)

    return lost
