"""Lifecycles L18: jobs that are labelled for a queue of Kueue, and whose Workloads the operator owns."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from jobcommon.api import labels
from jobcommon.api.kueue import KUEUE_API, MULTIKUEUE, OWN, PREBUILT, PRIORITY_LABEL, QUEUE_LABEL
from jobcommon.testutil.sim import kueue, user
from jobcommon.testutil.sim.job_templates import JobTemplate
from jobcommon.testutil.sim.scenario import SETTINGS, Exit, Scenario, UserStep

Obj = dict[str, Any]
Objects = tuple[tuple[str, Obj], ...]


def queued_lifecycles(template: JobTemplate) -> Iterator[Scenario]:
    """L18 in the template of one operator."""
    framework, name, pods = template.framework, template.job_name, template.pods
    job = template.job("Never", run={"backoffLimit": 0}, labels={QUEUE_LABEL: "team"})
    all_run, settings = user.running(*pods), replace(SETTINGS, kueue=OWN)
    done = {template.leader_pod: [Exit(10, cue=user.peers(*pods))]}
    twice = {template.leader_pod: [Exit(), Exit(10, cue=user.peers(*pods))]}

    def scenario(title: str, script: dict[str, list[Exit]], *steps: UserStep, of: Obj = job, more: Objects = ()) -> Scenario:
        objects = (*kueue.OBJECTS, *more)
        return template.scenario(f"L18-{title}", of, script, user=steps, settings=settings, objects=objects)

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
    if framework.runs_to_completion(template.worker):
        # The first worker has succeeded, and does not run again when the others do.
        first, *others = template.workers()
        left = user.peers(template.leader_pod, *others)
        script = {first: [Exit(5, cue=user.peers(*pods))], template.leader_pod: [Exit(), Exit(10, cue=left)]}
        preempt = UserStep("preempt", kueue.preempt, when=kueue.reclaimed, after=1)
        # Whether the pod that has succeeded is deleted before the others are admitted again is chance.
        yield replace(scenario("reclaimed", script, preempt), loose_paths=frozenset({f"pods/*/{first}: *"}))
    urgent = replace(template, job_name="urgent")
    other = urgent.job("Never", labels={QUEUE_LABEL: "team", PRIORITY_LABEL: "urgent"})
    both = {**twice, urgent.leader_pod: [Exit(10, cue=user.peers(*urgent.pods))]}
    come = UserStep("come", user.create_job(other, framework.plural), when=all_run, after=1)
    yield scenario("priority", both, come, more=kueue.PRIORITIES)
    prebuilt = template.job("Never", labels={QUEUE_LABEL: "team", PREBUILT: "made"})
    yield scenario("prebuilt", done, of=prebuilt, more=(_made_for(template),))
    elsewhere = {**job, "spec": {**job["spec"], "managedBy": MULTIKUEUE}}
    end = UserStep("end", kueue.copied(framework, name), when=kueue.admitted, after=5)
    yield scenario("multikueue", {}, end, of=elsewhere)


def _made_for(template: JobTemplate) -> tuple[str, Obj]:
    """A Workload that others have made for the job."""
    marks = {labels.OPERATOR_NAME: template.framework.operator_name, labels.JOB_NAME: template.job_name}
    sets = [{"name": kind.lower(), "count": count} for kind, count in template.counts.items()]
    metadata = {"name": "made", "labels": marks}
    body = {"apiVersion": KUEUE_API, "kind": "Workload", "metadata": metadata, "spec": {"queueName": "team", "podSets": sets}}
    return f"{kueue.ROOT}/namespaces/{user.NAMESPACE}/workloads", body
