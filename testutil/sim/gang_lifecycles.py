"""Lifecycles L19: jobs whose pods Kubernetes' own scheduler places all at once or not at all."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from jobcommon.testutil.native_definitions import definitions
from jobcommon.testutil.sim import native_gangs, user
from jobcommon.testutil.sim.job_templates import JobTemplate
from jobcommon.testutil.sim.scenario import SETTINGS, Exit, Scenario, UserStep


def gang_lifecycles(template: JobTemplate, api_version: str) -> Iterator[Scenario]:
    """L19 in the template of one operator, where the API server serves that version of PodGroup."""
    framework, name, pods, leader = template.framework, template.job_name, template.pods, template.leader_pod
    # Of two jobs of three pods one fits. An MPI launcher that waits for its workers is no member, and needs the fifth place.
    together, all_run, version = user.peers(*pods), user.running(*pods), api_version.partition("/")[2]
    served: Any = {
        "settings": replace(SETTINGS, gang_scheduler_name="kubernetes"),
        "objects": tuple((user.DEFINITIONS, one) for one in definitions(api_version)),
        "room": 5,
    }
    done, twice = {leader: [Exit(10, cue=together)]}, {leader: [Exit(), Exit(10, cue=together)]}
    other = replace(template, job_name="other")
    run = {"cleanPodPolicy": "All"}
    both = template.scenario(
        f"L19-two-{version}",
        template.job(run=run),
        {**done, other.leader_pod: [Exit(10, cue=user.peers(*other.pods))]},
        **served,
    )
    yield replace(both, jobs=(*both.jobs, other.job(run=run)))
    if framework.runs_to_completion(template.worker):
        # The second worker fails after the first has succeeded: what replaces it belongs to a smaller gang.
        first, second = template.workers()
        ended, again = user.phase(first, "Succeeded"), user.running(leader, second)
        yield template.scenario(f"L19-replaced-{version}", template.job("ExitCode"), {
            first: [Exit(5, cue=together)],
            second: [Exit(5, 137, cue=lambda server, _: ended(server)), Exit()],
            leader: [Exit(10, cue=lambda server, runs: runs.get(second, 0) > 1 and again(server))],
        }, **served)  # fmt: skip
    yield template.scenario(f"L19-preempted-{version}", template.job("ExitCode", run={"backoffLimit": 0}), twice, user=(
        UserStep("preempt", native_gangs.preempt(*pods), when=all_run, after=1),
    ), **served)  # fmt: skip
    yield template.scenario(f"L19-suspended-{version}", template.job("Never", run={"backoffLimit": 0}), twice, user=(
        UserStep("suspend", user.run_policy(framework, name, suspend=True), when=all_run, after=1),
        UserStep("resume", user.run_policy(framework, name, suspend=False), when=user.gone("pods", *pods), after=5),
    ), **served)  # fmt: skip
    third = user.running(template.workers(3)[2])
    yield template.scenario(f"L19-scaled-{version}", template.job(), {leader: [Exit(5, cue=user.told("scaled"))]}, user=(
        UserStep("up", user.scale(framework, name, template.worker, 3), when=all_run, after=1),
        UserStep("down", user.scale(framework, name, template.worker, 1), when=third, after=1),
        UserStep("tell", user.tell("scaled"), when=user.gone("pods", *template.workers(3)[1:])),
    ), **served)  # fmt: skip
