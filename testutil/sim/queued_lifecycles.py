"""Lifecycles L18: jobs that are labelled for a queue of Kueue, and whose Workloads the operator owns."""

from collections.abc import Iterator
from dataclasses import replace

from jobcommon.api.kueue import OWN, QUEUE_LABEL
from jobcommon.testutil.sim import kueue, user
from jobcommon.testutil.sim.job_templates import JobTemplate
from jobcommon.testutil.sim.scenario import SETTINGS, Exit, Scenario, UserStep


def queued_lifecycles(template: JobTemplate) -> Iterator[Scenario]:
    """L18 in the template of one operator."""
    framework, name, pods = template.framework, template.job_name, template.pods
    job = template.job("Never", run={"backoffLimit": 0}, labels={QUEUE_LABEL: "team"})
    all_run, settings = user.running(*pods), replace(SETTINGS, kueue=OWN)
    done = {template.leader_pod: [Exit(10, cue=user.peers(*pods))]}
    twice = {template.leader_pod: [Exit(), Exit(10, cue=user.peers(*pods))]}

    def scenario(title: str, script: dict[str, list[Exit]], *steps: UserStep) -> Scenario:
        return template.scenario(f"L18-{title}", job, script, user=steps, settings=settings, objects=kueue.OBJECTS)

    yield scenario("admitted", done)
    yield scenario("preempted", twice, UserStep("preempt", kueue.preempt, when=all_run, after=1))
    yield scenario("inactive", twice, *(
        UserStep("out", kueue.set_active(False), when=all_run, after=1),
        UserStep("in", kueue.set_active(True), when=kueue.released, after=5),
    ))  # fmt: skip
    yield scenario("suspended", twice, *(
        UserStep("suspend", user.run_policy(framework, name, suspend=True), when=all_run, after=1),
        UserStep("resume", user.run_policy(framework, name, suspend=False), when=kueue.released, after=5),
    ))  # fmt: skip
