"""Whatever happens to a native gang: never a job at rest with a part of its gang placed, and each job ends."""

from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from jobcommon.api.gang import NATIVE, GangScheduler
from jobcommon.api.workload import min_count
from jobcommon.reconcile import gang
from jobcommon.testutil.builders import job_manifest
from jobcommon.testutil.frameworks import TEST_JOB
from jobcommon.testutil.native_gang import GROUP, WORKLOAD, NativeWorld, group_of
from tests.reconcile.test_gang_properties import BOUNDED

INDEX = st.integers(0, 7)
EVENTS = st.one_of(
    st.tuples(st.just("schedule"), st.just(0)),
    st.tuples(st.just("exit"), st.tuples(INDEX, st.sampled_from([0, 0, 1, 137]))),
    st.tuples(st.just("preempt"), st.just(0)),
    st.tuples(st.just("delete"), INDEX),
    st.tuples(st.just("scale"), st.integers(1, 6)),
    st.tuples(st.just("suspend"), st.booleans()),
    st.tuples(st.just("room"), st.integers(0, 8)),
    st.tuples(st.just("crash"), st.integers(0, 9)),
    st.tuples(st.just("tick"), st.just(61)),
)


def happen(there: NativeWorld, event: str, detail: Any) -> None:
    names = sorted(name for name, pod in there.pods.items() if pod.raw["status"]["phase"] == "Running")
    match event:
        case "schedule":
            there.schedule()
        case "exit" if names:
            there.exit(names[detail[0] % len(names)], detail[1])
        case "preempt":
            for name in names:
                there.put(there.pods[name].disrupted("PreemptionByScheduler"))
                there.delete_pod(name)
        case "delete" if there.pods:
            there.delete_pod(sorted(there.pods)[detail % len(there.pods)])
        case "scale":
            there.scale("Worker", detail)
        case "suspend":
            there.edit(suspend=detail)
        case "room":
            there.room = detail
        case "crash":
            there.step(writes=detail)
        case "tick":
            there.tick(detail)
    if event in ("preempt", "delete", "suspend"):
        there.stop_terminating()
    there.protect()
    there.settle()


def at_rest(there: NativeWorld) -> None:
    """Everything that can come about without a change has."""
    for _ in range(6):
        there.tick(121)
        there.stop_terminating()
        there.protect()
        there.settle()
        there.schedule()
        there.settle()


def check(there: NativeWorld) -> None:
    """The job ends once there is room for all, and leaves nothing behind."""
    at_rest(there)
    living = [pod for pod in there.pods.values() if pod.raw["status"]["phase"] in ("Pending", "Running")]
    members = [pod for pod in living if group_of(pod) is not None]
    bound = [pod for pod in members if pod.view.scheduled]
    if bound and GROUP in there.others and len(bound) < len(members):
        # Only a replacement waits, for a node and not for members.
        assert len(members) >= min_count(there.others[GROUP]), "pods wait for members that never come"
    there.room = 100
    there.edit(suspend=False)
    for _ in range(4):
        at_rest(there)
        waiting = [name for name, pod in there.pods.items() if pod.raw["status"]["phase"] == "Pending"]
        assert not waiting, f"{waiting} wait though there is room"
        for name in [name for name, pod in there.pods.items() if pod.raw["status"]["phase"] == "Running"]:
            there.exit(name, 0)
        there.settle()
    assert there.current in ("Succeeded", "Failed")
    there.protect()
    assert not {GROUP, WORKLOAD} & set(there.others)


def world(scheduler: GangScheduler, replicas: dict[str, int], run_policy: dict[str, Any]) -> NativeWorld:
    framework = replace(TEST_JOB, options=replace(TEST_JOB.options, gang=scheduler))
    return NativeWorld(framework, job_manifest(framework, replicas, policy="ExitCode", run_policy=run_policy))


# A quarter of the examples of others: each takes half a second, and the swarm of the simulator has native gangs, too.
@settings(BOUNDED, max_examples=BOUNDED.max_examples // 4)
@given(
    scheduler=st.sampled_from(NATIVE),
    replicas=st.fixed_dictionaries({"Worker": st.integers(1, 5)}, optional={"Master": st.just(1)}),
    run_policy=st.fixed_dictionaries(
        {},
        optional={"restartScope": st.just("Job"), "schedulingPolicy": st.fixed_dictionaries({"minAvailable": st.just(1)})},
    ),
    events=st.lists(EVENTS, max_size=25),
)
def test_whatever_happens(
    scheduler: GangScheduler, replicas: dict[str, int], run_policy: dict[str, Any], events: list[tuple[str, Any]]
) -> None:
    there = world(scheduler, replicas, run_policy)
    there.settle()
    for event, detail in events:
        happen(there, event, detail)
    check(there)


@pytest.mark.parametrize("scheduler", NATIVE, ids=["v1beta1", "v1alpha2"])
def test_a_min_count_that_is_not_lowered_is_found(scheduler: GangScheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: batch Job's rule, which counts the replicas of the spec (kubernetes#142330)."""
    monkeypatch.setattr(gang.Gang, "min_member", property(lambda self: self.job.total_replicas))
    there = world(scheduler, {"Worker": 3}, {})
    there.settle()
    for event in (("schedule", 0), ("exit", (0, 0)), ("exit", (0, 137)), ("tick", 61)):
        happen(there, *event)
    with pytest.raises(AssertionError, match="pods wait for members that never come"):
        check(there)
