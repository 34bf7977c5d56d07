"""Lifecycles L16 and L17: pods stopped on purpose while operators restart, and containers beside the main one.

However a program answers SIGTERM, whatever a node's clock says and whichever operator observes the end, it is not a failure.
"""

from collections.abc import Iterator
from typing import Any

from jobcommon.testutil.sim import user
from jobcommon.testutil.sim.job_templates import JobTemplate
from jobcommon.testutil.sim.scenario import Exit, Scenario, UserStep

Obj = dict[str, Any]


def stopped_lifecycles(template: JobTemplate) -> Iterator[Scenario]:
    """L16 and L17 in the template of one operator."""
    yield from _preempted(template)
    yield from _flaps(template)
    yield from _beside(template)


def _preempted(template: JobTemplate) -> Iterator[Scenario]:
    """Stopped and run again, as a queue does with what it preempts. No retry is left that could be used up."""
    framework, name, pods = template.framework, template.job_name, template.pods
    all_run = user.running(*pods)
    suspend, resume = (user.run_policy(framework, name, suspend=value) for value in (True, False))
    script = {template.leader_pod: [Exit(), Exit(10, cue=user.peers(*pods))]}
    for policy in ("Never", "ExitCode", "OnFailure"):
        job = template.job(policy, run={"backoffLimit": 0})
        # The operator need not have seen, nor done, anything more than the deletions when the job is resumed.
        yield template.scenario(f"L16-preempted-{policy.lower()}", job, script, user=(
            UserStep("suspend", suspend, when=all_run, after=1),
            UserStep("resume", resume, when=user.leaving(*pods)),
        ), loose_paths=frozenset({f"summary: * services/{name} *"}))  # fmt: skip
        yield template.scenario(f"L16-preempted-for-long-{policy.lower()}", job, script, user=(
            UserStep("suspend", suspend, when=all_run, after=1),
            UserStep("resume", resume, when=user.gone("pods", *pods), after=30),
        ))  # fmt: skip
    worker = template.workers()[0]
    yield template.scenario("L16-deleted-never", template.job("Never", run={"backoffLimit": 0}), {
        template.leader_pod: [Exit(10, cue=lambda server, runs: runs.get(worker, 0) > 1 and all_run(server))],
    }, user=(UserStep("delete", user.delete("pods", worker), when=all_run, after=1),))  # fmt: skip


def _flaps(template: JobTemplate) -> Iterator[Scenario]:
    """What is taken back at once: how many of the pods were stopped is chance, and none of it counts."""
    framework, name, pods = template.framework, template.job_name, template.pods
    all_run = user.running(*pods)
    suspend, resume = (user.run_policy(framework, name, suspend=value) for value in (True, False))
    chance: Obj = {
        "loose_runs": frozenset(pods),
        "fewer_runs": frozenset(pods),
        "loose_paths": frozenset({"summary: * pods/*", f"summary: * services/{name} *"}),
    }
    word = f"{name}-settled"
    leads = {template.leader_pod: [Exit(5, cue=lambda server, runs: user.told(word)(server, runs) and all_run(server))]}
    tell = UserStep("tell", user.tell(word), when=all_run, after=40)
    job = template.job("Never", run={"backoffLimit": 0})
    yield template.scenario("L16-suspended-for-a-moment", job, leads, user=(
        UserStep("suspend", suspend, when=all_run, after=1),
        UserStep("resume", resume, when=user.condition(framework, name, "Suspended"), after=0.05),
        tell,
    ), **chance)  # fmt: skip
    yield template.scenario("L16-scaled-down-and-up", job, leads, user=(
        UserStep("down", user.scale(framework, name, template.worker, 1), when=all_run, after=1),
        UserStep("up", user.scale(framework, name, template.worker, 2), when=user.leaving(pods[-1])),
        tell,
    ), **chance)  # fmt: skip
    last = pods[-1]
    if framework.runs_to_completion(template.worker):
        script = {template.leader_pod: [Exit(5, cue=user.told(word))], last: [Exit(5, cue=user.peers(*pods))]}
        yield template.scenario("L16-success-scaled-away", job, script, user=(
            UserStep("down", user.scale(framework, name, template.worker, 1), when=user.phase(last, "Succeeded"), after=1),
            UserStep("up", user.scale(framework, name, template.worker, 2), when=user.gone("pods", last), after=5),
            UserStep("tell", user.tell(word), after=20),
        ))  # fmt: skip


def _beside(template: JobTemplate) -> Iterator[Scenario]:
    """Init containers and sidecars: none of their ends is a failed run of the job, and none holds its end up."""
    leader, pods = template.leader_pod, template.pods
    together = user.peers(*pods)
    image = {"image": "image", "command": ["run"]}
    inits = [{"name": "prepare", **image}, {"name": "proxy", **image, "restartPolicy": "Always"}]
    main = {"name": template.framework.container or "main", **image}
    # The job goes on when each proxy has ended twice; of this much of it the operator takes note.
    proxies = {f"{pod}/proxy": [Exit(4, 1), Exit(14, 0), Exit()] for pod in pods}
    done = {leader: [Exit(30, cue=together)], **proxies}
    for policy in ("Never", "OnFailure"):
        specs = {kind: template.replicas(count, policy, initContainers=inits) for kind, count in template.counts.items()}
        job = template.manifest(specs, run={"backoffLimit": 0})
        loose = frozenset({"pods/*.restartCount*", "pods/*.ready*", "pods/*.started*", "pods/*.state*", "pods/*.conditions*"})
        yield template.scenario(f"L17-native-sidecar-{policy.lower()}", job, done, loose_paths=loose)
    specs = {
        kind: template.replicas(count, "ExitCode", containers=[main, {"name": "sidecar", **image}])
        for kind, count in template.counts.items()
    }
    retried = {
        leader: [Exit(5, 137, cue=together), Exit(10, cue=together)],
        f"{leader}/sidecar": [Exit(), Exit(20, cue=together)],
    }
    yield template.scenario("L17-sidecar-outlives-a-failure", template.manifest(specs), retried)
    yield template.scenario("L17-sidecar-outlives-the-job", template.manifest(specs), {leader: [Exit(5, 3, cue=together)]})
