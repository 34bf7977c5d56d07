"""Lifecycles of jobs whose replicas are restarted together (`restartScope: Job`).

The ranks are as those of DistributedDataParallel: when one has ended, the others fail a second later.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from jobcommon.localcluster.apiserver.server import ApiServer
from jobcommon.testutil.sim import user
from jobcommon.testutil.sim.job_templates import JobTemplate
from jobcommon.testutil.sim.kubelet import DOWN
from jobcommon.testutil.sim.scenario import Exit, Scenario, UserStep


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
    yield template.scenario("A-rank-killed", template.job("OnFailure", run=run), ranks(killed))
    yield template.scenario("A-rank-killed-twice", template.job("ExitCode", run=run), ranks(killed, attempts=3))
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
    stopped = user.every((user.condition(template.framework, template.job_name, "Suspended"), user.leaving(*pods)))
    yield template.scenario("A-resume-at-once", job, {leader: [Exit(), Exit(10, cue=together)]}, user=(
        UserStep("suspend", user.run_policy(template.framework, template.job_name, suspend=True), when=all_run, after=1),
        UserStep("resume", user.run_policy(template.framework, template.job_name, suspend=False), when=stopped),
    ), loose_paths=frozenset({f"summary: * services/{template.job_name} *", "*.status.attempt*"}))  # fmt: skip


def _lost(pod: str, peer: str) -> user.Cue:
    """Whether `peer` notices that `pod`, which it was connected to in this run, does not run any more."""
    runs_now = user.running(pod)

    def lost(server: ApiServer, runs: Mapping[str, int]) -> bool:
        return runs.get(pod, 0) >= runs.get(peer, 0) and not runs_now(server)

    return lost
