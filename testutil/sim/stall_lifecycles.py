"""Lifecycles of jobs that report their progress, and of jobs of which a replica finds no node.

While it evaluates, a program is silent for longer than `progressDeadlineSeconds` alone would allow. Which reports are recorded
is chance.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from jobcommon.client.request import MERGE_PATCH
from jobcommon.testutil.sim import user
from jobcommon.testutil.sim.job_templates import JobTemplate
from jobcommon.testutil.sim.scenario import SETTINGS, Exit, Scenario, Training, UserStep
from jobcommon.testutil.sim.training import TRAINED
from localcluster import ApiServer

_REPORTS = {"reportProgress": True, "progressDeadlineSeconds": 30, "evaluationSeconds": 30, "progressStartDeadlineSeconds": 60}


def stall_lifecycles(template: JobTemplate) -> Iterator[Scenario]:
    """What is no stall, a rank that hangs, and a deadline for nodes that passes."""
    leader, *workers = template.pods
    settings = replace(SETTINGS, progress_port=0, progress_tls="simulated")
    loose = frozenset({"*.status.trainerStatus*", "*.status.progress*"})
    of_reports: Any = {"settings": settings, "loose_paths": loose}
    training = Training(template.pods)
    ends = {leader: [Exit(1, term=143, cue=user.told(TRAINED))]}
    job = template.job("OnFailure", run={"restartScope": "Job", "stallAction": "Restart", **_REPORTS})
    # Reports that are told with a phase get no allowance while it trains, and an operator may be unable to record any for 60 s.
    patient = {**_REPORTS, "progressDeadlineSeconds": 60, "evaluationSeconds": 60}
    evaluating = template.job("OnFailure", run={"restartScope": "Job", "stallAction": "Restart", **patient})
    evaluates = replace(training, evaluation=60, phases=True)
    yield template.scenario("S-evaluates", evaluating, ends, training=evaluates, **of_reports)
    hangs = replace(training, hangs=12)
    # What is stopped by SIGSTOP does not end by SIGTERM.
    stopped = {**ends, workers[0]: [Exit(stop=3600), Exit()]}
    yield template.scenario("S-rank-hangs", job, stopped, training=hangs, **of_reports)
    in_place = {**_REPORTS, "restartScope": "Job", "restartMethod": "Auto", "stallAction": "Restart"}
    waits = {**ends, workers[0]: [Exit(stop=3600), Exit(term=143)], workers[1]: [Exit(term=143)]}
    yield template.scenario(
        "S-rank-hangs-in-place", template.job("OnFailure", run=in_place), waits, training=hangs, **of_reports
    )
    fails = template.job("OnFailure", run={**_REPORTS, "stallAction": "Fail"})
    # Which report was the last to be recorded is chance.
    of_reports["loose_paths"] |= {"*.status.conditions*.message*"}
    yield template.scenario("S-rank-hangs-for-good", fails, stopped, training=hangs, **of_reports)
    yield from _without_nodes(template)


def _without_nodes(template: JobTemplate) -> Iterator[Scenario]:
    """No node is free at first. With a new attempt, a node is free."""
    run = {"restartScope": "Job", "pendingDeadlineSeconds": 60}
    full = UserStep("full", _cordon(unschedulable=True), when=lambda server: any(server.storage.table("nodes").items()))
    # When the pods were created, and whether the deadline passes again while the operator is away, is chance.
    loose = frozenset({"*.status.conditions*.message*", "*attempt*", "*.restarts*"})
    yield template.scenario("P-pending-too-long", template.job("OnFailure", run=run), user=(full,), loose_paths=loose)
    again = template.job("OnFailure", run={**run, "pendingDeadlineAction": "Restart"})

    def begun(server: ApiServer) -> bool:
        job = user.job_of(server, template.framework, template.job_name)
        return job is not None and bool((job.obj.get("status") or {}).get("attempt"))

    done = {template.leader_pod: [Exit(10, cue=user.peers(*template.pods))]}
    yield template.scenario("P-pending-restart", again, done, user=(
        full, UserStep("free", _cordon(unschedulable=False), when=begun, after=40),
    ), loose_paths=loose, loose_runs=frozenset(template.pods))  # fmt: skip


def _cordon(*, unschedulable: bool) -> user.Do:
    def do(server: ApiServer) -> None:
        for node in list(server.storage.table("nodes").items()):
            user.request("PATCH", f"/api/v1/nodes/{node.name}", {"spec": {"unschedulable": unschedulable}}, MERGE_PATCH)(server)

    return do
