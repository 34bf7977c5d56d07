"""nodeLossSeconds and avoidFailedNodes: tolerations, deletions by force, and nodes that are avoided."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from jobcommon.api import labels
from jobcommon.api.replica import Replica
from jobcommon.reconcile import Delete, Plan, plan
from jobcommon.spec import read_job
from jobcommon.testutil.builders import (
    START,
    Manifest,
    Pod,
    condition,
    finished_status,
    job_manifest,
    observe,
    pod_manifest,
    template,
)
from jobcommon.testutil.frameworks import TEST_JOB
from jobcommon.testutil.plans import conditions, creates, decide, deletes, next_pass, status_of

SPEC = {"Master": 1, "Worker": 2}
RUNNING = {"Master-0": "running", "Worker-0": "running", "Worker-1": "running"}
N = {"nodeLossSeconds": 30}
GRACE = 30
"""What `Pod.deleting` gives."""


def a_job(policy: str = "OnFailure", *, safe: bool = True, status: Manifest | None = None, **run_policy: Any) -> Manifest:
    """With `safe` the pods may run twice."""
    annotations = {labels.SAFE_TO_DELETE: "true"} if safe else {}
    of_type = {"restartPolicy": policy, "template": {**template(TEST_JOB), "metadata": {"annotations": annotations}}}
    replicas: dict[str, Any] = {kind: {**deepcopy(of_type), "replicas": count} for kind, count in SPEC.items()}
    return job_manifest(TEST_JOB, replicas, run_policy=run_policy, status=status)


def pod_spec(manifest: Manifest) -> Manifest:
    spec: Manifest = pod_manifest(TEST_JOB, read_job(TEST_JOB, manifest), Replica("Worker", 0))["spec"]
    return spec


def forced(decision: Plan) -> list[str]:
    return [action.name for action in decision.actions if isinstance(action, Delete) and action.force]


# -- tolerations ---------------------------------------------------------------------------------------------------------------

_NOT_READY, _UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"


def tolerated(key: str, seconds: int) -> Manifest:
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}


#: the template's own tolerations; the taints for which one is added
TOLERATIONS = {
    "none": ([], [_NOT_READY, _UNREACHABLE]),
    "of another taint": ([{"key": "nvidia.com/gpu", "operator": "Exists"}], [_NOT_READY, _UNREACHABLE]),
    "of another effect": ([{"key": _NOT_READY, "operator": "Exists", "effect": "NoSchedule"}], [_NOT_READY, _UNREACHABLE]),
    "of one of the two": ([tolerated(_NOT_READY, 600)], [_UNREACHABLE]),
    "of every effect": ([{"key": _UNREACHABLE, "operator": "Exists"}], [_NOT_READY]),
    "of everything": ([{"operator": "Exists"}], []),
}  # fmt: skip


@pytest.mark.parametrize(("own", "added"), TOLERATIONS.values(), ids=TOLERATIONS)
def test_tolerations_are_added_unless_the_template_has_them(own: list[Manifest], added: list[str]) -> None:
    manifest = a_job(**N)
    worker = manifest["spec"][TEST_JOB.replica_specs]["Worker"]["template"]["spec"]
    worker["tolerations"] = own
    assert pod_spec(manifest)["tolerations"] == [*own, *(tolerated(key, 30) for key in added)]
    assert worker["tolerations"] == own, "the job itself is not changed"


# -- pods of a node that is silent ---------------------------------------------------------------------------------------------

#: how the pod is, whether it may run twice, its job's run policy; after how many seconds it is deleted by force
SILENT = {
    "evicted from a silent node": ("lost", True, N, GRACE + 10),
    "deleted otherwise: its kubelet may be restarting": ("running,deleting", True, N, GRACE + 30),
    "deleted otherwise, little patience": ("running,deleting", True, {"nodeLossSeconds": 3}, GRACE + 10),
    "it must not run twice": ("lost", False, N, None), "not set": ("lost", True, {}, None),
    "it is not being deleted": ("running", True, N, None), "it has ended": ("running,last_delete", True, N, None),
    "it had no node": ("unschedulable,deleting", True, N, None),
}  # fmt: skip


#: the run policy, and the status
PHASES: dict[str, tuple[Manifest, Manifest]] = {
    "active": ({}, {}),
    "restarts together": ({"restartScope": "Job"}, {}),
    "suspended": ({"suspend": True}, {"conditions": [condition("Created"), condition("Suspended")]}),
    "to be resumed": ({}, {"conditions": [condition("Created"), condition("Suspended")]}),
    "finished": ({"cleanPodPolicy": "All"}, finished_status()),
    "finished, with its pods kept": ({"cleanPodPolicy": "None"}, finished_status()),
}


@pytest.mark.parametrize(("state", "safe", "run_policy", "after"), SILENT.values(), ids=SILENT)
@pytest.mark.parametrize("phase", PHASES)
def test_a_pod_that_may_run_twice_is_deleted_by_force(
    state: str, safe: bool, run_policy: Manifest, after: int | None, phase: str
) -> None:
    more, status = PHASES[phase]
    manifest = a_job(safe=safe, status=status, **more, **run_policy)
    pods = {**RUNNING, "Worker-0": state}
    if after is None:
        assert forced(decide(TEST_JOB, manifest, pods, START + 1000)) == []
        return
    early = decide(TEST_JOB, manifest, pods, START + after - 1)
    assert forced(early) == []
    assert early.wake_at == START + after
    due = decide(TEST_JOB, manifest, pods, START + after)
    assert forced(due) == ["demo-worker-0"]
    assert due.verify_live or "finished" in phase
    action = next(action for action in due.actions if isinstance(action, Delete) and action.force)
    assert (action.uid, action.resource_version) == ("uid-demo-worker-0", "1"), "only what was seen"
    assert creates(due) == [], "what is deleted by force is replaced when the API server shows it"


@pytest.mark.parametrize("scope", ["Pod", "Job"])
@pytest.mark.parametrize("end", ["succeeded", "failed 137"])
def test_a_pod_that_has_ended_and_whose_kubelet_has_died_since_is_deleted_by_force(scope: str, end: str) -> None:
    """Nothing of it can run, and it would keep its name for ever."""
    manifest = a_job(safe=False, restartScope=scope, **N)
    pods = {**RUNNING, "Worker-0": f"{end},deleting"}
    recorded = next_pass(manifest, decide(TEST_JOB, manifest, pods))
    assert recorded["status"]["disruptions"] == 1
    seen, job = observe(TEST_JOB, manifest, pods), read_job(TEST_JOB, recorded)
    assert forced(plan(TEST_JOB, job, seen, START + GRACE + 29)) == []
    assert forced(plan(TEST_JOB, job, seen, START + GRACE + 30)) == ["demo-worker-0"]


# -- nodes that are avoided ----------------------------------------------------------------------------------------------------

#: how a pod has ended, and whether its node is to blame
ENDS = {
    "failed 137": True, "failed 1": True, "evicted": True, "lost,last_delete": True, "running,disrupted,last_delete": False,
    "running,last_delete": False, "succeeded": False,
}  # fmt: skip


@pytest.mark.parametrize(("state", "blamed"), ENDS.items(), ids=ENDS)
def test_failures_and_losses_are_counted_by_node(state: str, blamed: bool) -> None:
    before = [{"node": "node-0", "count": 1}, {"node": "node-1", "count": 1}]
    decided = decide(TEST_JOB, a_job(status={"nodeFailures": before}, **N), {**RUNNING, "Worker-0": state})
    found = [(entry.node, entry.count) for entry in status_of(decided).node_failures]
    assert found == [("node-0", 1), ("node-1", 2 if blamed else 1)]


def test_the_last_ten_nodes_that_are_avoided_are_remembered_and_ten_others() -> None:
    """Those that are gone are forgotten, and no single failure makes the job forget a node that fails again and again."""
    once, twice = ([{"node": f"{name}-{n}", "count": count} for n in range(10)] for name, count in (("once", 1), ("twice", 2)))
    names = [entry["node"] for entry in (*twice, *once)]
    for node, found in {
        "new": [*names[:10], *names[11:], "new"],
        "once-3": [*names[1:13], *names[14:], "once-3"],
        "twice-0": [*names[1:], "twice-0"],
    }.items():
        manifest = a_job(status={"nodeFailures": [*twice, *once]}, **N)
        failed = Pod.of(TEST_JOB, read_job(TEST_JOB, manifest), "Worker", 0).failed(1).scheduled(node).view
        decided = plan(TEST_JOB, read_job(TEST_JOB, manifest), replace(observe(TEST_JOB, manifest), pods=(failed,)), START + 60)
        assert [entry.node for entry in status_of(decided).node_failures] == found


#: the run policy, and whether nodes are avoided
AVOIDS: dict[str, tuple[Manifest, bool]] = {
    "with nodeLossSeconds": (N, True), "switched off": ({**N, "avoidFailedNodes": False}, False),
    "switched on": ({"avoidFailedNodes": True}, True), "of today": ({"restartScope": "Job"}, False),
}  # fmt: skip


@pytest.mark.parametrize("affinity", [{}, {"affinity": None}, {"affinity": {"nodeAffinity": None}}], ids=["", "null", "nulls"])
@pytest.mark.parametrize(("run_policy", "avoids"), AVOIDS.values(), ids=AVOIDS)
def test_new_pods_prefer_other_nodes(run_policy: Manifest, avoids: bool, affinity: Manifest) -> None:
    seen = [{"node": "once", "count": 1}, {"node": "twice", "count": 2}, {"node": "often", "count": 7}]
    manifest = a_job(status={"nodeFailures": seen}, **run_policy)
    manifest["spec"][TEST_JOB.replica_specs]["Worker"]["template"]["spec"] |= affinity
    spec = pod_spec(manifest)
    if not avoids:
        assert spec.get("affinity") == affinity.get("affinity")
        decided = decide(TEST_JOB, manifest, {**RUNNING, "Worker-0": "failed 137"})
        assert next_pass(manifest, decided)["status"]["nodeFailures"] == seen
        return
    fields = [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in ("twice", "often")]
    term = {"weight": 100, "preference": {"matchFields": fields}}
    assert spec["affinity"] == {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_a_pod_is_not_restarted_in_place_on_such_a_node() -> None:
    manifest = a_job(restartScope="Job", restartMethod="Auto", status={"nodeFailures": [{"node": "node-1", "count": 1}]}, **N)
    pods = {**RUNNING, "Worker-0": "running,restarted_after 137"}
    decided = decide(TEST_JOB, manifest, pods)
    assert "; waiting: Master-0, Worker-0, Worker-1 get new pods because node node-1 is avoided" in conditions(decided)[-1]
    recorded = next_pass(manifest, decided)
    assert recorded["status"]["nodeFailures"] == [{"node": "node-1", "count": 2}]
    again = plan(TEST_JOB, read_job(TEST_JOB, recorded), observe(TEST_JOB, manifest, pods), START + 60)
    assert deletes(again) == ["demo-master-0", "demo-worker-0", "demo-worker-1"]
