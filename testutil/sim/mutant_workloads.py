"""Scenarios and an oracle that only mutants need: unowned under our names, platforms that never say yes, wasted requests."""

from collections import Counter
from collections.abc import Iterator, Mapping

from jobcommon.api import labels
from jobcommon.framework import FINALIZER
from jobcommon.testutil.sim import user
from jobcommon.testutil.sim.job_templates import JOB, MPI_V2, MX, TENSORFLOW, TORCH, JobTemplate
from jobcommon.testutil.sim.scenario import Exit, Scenario, UserStep
from jobcommon.testutil.sim.simulation import Run
from localcluster import ApiServer

_NO_PODS = {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
_CONTAINERS = [{"name": "main", "image": "image", "command": ["run"]}]
_HOUR = 600.0
#: Whatever slow admission does, each create is to be sent once.
_HARMLESS = ("slow-writes",)


def _stranger(name: str, **marks: str) -> tuple[str, user.Obj]:
    metadata = {"name": name, "labels": marks}
    return user.path_of("pods"), {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": _CONTAINERS}}


def _labelled(template: JobTemplate, index: int) -> tuple[str, user.Obj]:
    """A pod without an owner, with the labels of a worker, as created by another tool."""
    marks = {
        labels.OPERATOR_NAME: template.framework.operator_name, labels.JOB_NAME: JOB, labels.REPLICA_TYPE: "worker",
        labels.REPLICA_INDEX: str(index),
    }  # fmt: skip
    return _stranger(f"{JOB}-worker-{index}", **marks)


def _left_by_an_orphaning_deletion(template: JobTemplate) -> tuple[str, user.Obj]:
    """A pod of a job that was deleted with --cascade=orphan while no operator ran."""
    path, pod = _labelled(template, 0)
    metadata = {**pod["metadata"], "name": "left-behind", "finalizers": [FINALIZER]}
    metadata["labels"] = {**metadata["labels"], labels.JOB_NAME: "gone"}
    return path, {**pod, "metadata": metadata}


def _suspend(value: bool) -> user.Do:
    return user.run_policy(TORCH.framework, JOB, suspend=value)


def _alone(server: ApiServer, _runs: Mapping[str, int]) -> bool:
    """The leader is being stopped: its workers' collective operations fail."""
    leader = server.storage.table("pods").get(user.NAMESPACE, TORCH.leader_pod)
    return leader is not None and "deletionTimestamp" in leader.obj["metadata"]


def _workloads() -> Iterator[Scenario]:
    for template in (TORCH, TENSORFLOW, MX):
        leads = {template.leader_pod: [Exit(30)]}
        taken = (_stranger(template.leader_pod),)
        yield template.scenario("X-name-taken", template.job(), leads, objects=taken, horizon=_HOUR)
    done = {MPI_V2.leader_pod: [Exit(10, cue=user.peers(*MPI_V2.pods))]}
    yield MPI_V2.scenario("X-stranger-with-labels", MPI_V2.job(), done, objects=(_labelled(MPI_V2, 5),))
    quota = ((user.path_of("resourcequotas"), _NO_PODS),)
    yield TORCH.scenario("X-never-allowed", TORCH.job(), objects=quota, horizon=_HOUR)
    # The workers end while they are being deleted because the leader has; then the same job comes again.
    there, ended = user.peers(*TORCH.pods), user.condition(TORCH.framework, JOB, "Succeeded")
    close = {
        TORCH.leader_pod: [Exit(10, cue=there)],
        "*-worker-0": [Exit(10.1, cue=there)],
        "*-worker-1": [Exit(10.5, cue=there)],
    }
    at_once = TORCH.job(run={"cleanPodPolicy": "Running"})
    again = UserStep("replace", user.replace_job(TORCH.framework, at_once), when=ended, after=10)
    yield TORCH.scenario("X-ends-while-it-is-deleted", at_once, close)
    yield TORCH.scenario("X-again-after-a-conflict", at_once, close, user=(again,))
    keep = {TORCH.leader_pod: [Exit(10, cue=there)]}
    replacing = UserStep(
        "replace", user.replace_job(TORCH.framework, TORCH.job()), when=user.phase(TORCH.leader_pod, "Succeeded")
    )
    yield TORCH.scenario("X-recreated-at-its-end", TORCH.job(), keep, user=(replacing,))
    late = TORCH.job(run={"activeDeadlineSeconds": 30, "cleanPodPolicy": "All"})
    yield TORCH.scenario("X-nothing-ran", late, objects=quota, horizon=200.0)
    left, is_there = _left_by_an_orphaning_deletion(TORCH), user.running("left-behind")
    take = UserStep("delete", user.delete("pods", "left-behind"), when=is_there, after=5)
    yield TORCH.scenario("X-orphan", TORCH.job(), keep, objects=(left,), user=(take,))
    yield TORCH.scenario("X-runs-on", TORCH.job(), horizon=40.0)
    failing = {TORCH.leader_pod: [Exit(2, 137, cue=there)] * 4 + [Exit(10, cue=there)]}
    yield TORCH.scenario("X-clock-ahead", TORCH.job("ExitCode"), failing, node_skew=3600.0)
    yield TORCH.scenario("X-fails-without-peers", TORCH.job("Never"), {
        **{name: [Exit(4, 1, cue=_alone), Exit()] for name in TORCH.workers()},
        TORCH.leader_pod: [Exit(), Exit(10, cue=there)],
    }, user=(
        UserStep("suspend", _suspend(True), when=user.running(*TORCH.pods), after=1),
        UserStep("resume", _suspend(False), when=user.leaving(TORCH.leader_pod)),
    ), loose_runs=frozenset(TORCH.pods), loose_paths=frozenset({"summary: * pods/*", "summary: * services/*"}))  # fmt: skip


WORKLOADS: Mapping[str, Scenario] = {scenario.name: scenario for scenario in _workloads()}


def request_faults(reference: Run, run: Run) -> list[str]:
    """Requests that should not have been made: refused ones where nothing was wrong, and ones sooner than the server asked."""
    found = _impatient(run)
    if all(fault.kind in _HARMLESS for fault in run.faults):
        before, after = _refused(reference), _refused(run)
        found += [f"wasted-request: {request} {count} times more" for request, count in (after - before).items()]
        writes = len(run.trace) - len(reference.trace)
        if writes > len(reference.trace) // 2 + 5:
            found.append(f"wasted-request: {writes} writes more than the {len(reference.trace)} of the reference")
    return found


def _refused(run: Run) -> Counter[str]:
    return Counter(f"{write.method} {write.path} {write.status}" for write in run.trace if write.status >= 400)


def _impatient(run: Run) -> list[str]:
    asked = [float(fault.value) for fault in run.faults if fault.kind == "throttled" and fault.value.isdigit()]
    shortest, found = min(asked, default=0.0) - 0.01, []
    for index, write in enumerate(run.trace):
        # Creates of one kind share their path.
        if write.status != 429 or write.method == "POST":
            continue
        what = (write.writer, write.method, write.path)
        following = next((w.at for w in run.trace[index + 1 :] if (w.writer, w.method, w.path) == what), write.at + 1e9)
        if following - write.at < shortest:
            found.append(f"impatient: {write.method} {write.path} again after {following - write.at:.2f} s")
    return found
