"""Random worlds with a gang scheduler: what the scheduler, its definition and the user do, in whatever order."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from jobcommon.api.gang import KOORDINATOR, MEMBER, NATIVE, VOLCANO, YUNIKORN, gang_scheduler
from jobcommon.reconcile.plan import Create
from jobcommon.testutil.builders import Manifest, job_manifest
from jobcommon.testutil.frameworks import TEST_JOB
from tests.reconcile.test_gang import KEY, GangWorld, under
from tests.reconcile.test_properties import BOUNDED, EVENTS, play

MISSING = "PodGroup is not installed"
GANG_EVENTS = st.one_of(
    EVENTS,
    st.tuples(st.just("step"), st.none()),
    st.tuples(st.just("phase"), st.sampled_from(["", "Pending", "Inqueue", "Running", "Unknown"])),
    st.tuples(st.just("definition"), st.booleans()),
    st.tuples(st.just("group"), st.none()),
    st.tuples(st.just("minAvailable"), st.sampled_from([None, 1, 2, 9])),
)


def happen(world: GangWorld, event: str, detail: Any) -> None:
    match event:
        case "phase" if KEY in world.others:
            world.phase(detail)
        case "definition":
            world.gang_off = "" if detail else MISSING
            if world.gang_off:
                world.others.pop(KEY, None)
        case "group":
            world.others.pop(KEY, None)
        case "minAvailable":
            world.edit(schedulingPolicy={"minAvailable": detail} if detail else None)
        case "step":
            checked_step(world, detail)
        case _:
            play(world, event, detail)


def checked_step(world: GangWorld, writes: int | None) -> None:
    """No pod is created before its turn, and none joins a gang beside pods that run outside."""
    phase = world.others.get(KEY, {}).get("status", {}).get("phase", "")
    views = [pod.view for pod in world.pods.values()]
    outside = [v for v in views if v.deletion_time is None and MEMBER not in v.annotations]
    decided = world.step(writes=writes)
    created = [
        a.manifest["metadata"].get("annotations", {}) for a in decided.actions if isinstance(a, Create) and a.plural == "pods"
    ]
    members = [annotations for annotations in created if MEMBER in annotations]
    assert len(members) in (0, len(created)), "all of them or none"
    if members:
        assert not outside
        assert not world.gang_off
        scheduler = world.framework.options.gang
        assert scheduler is not None
        assert phase not in ("", "Pending") or not scheduler.holds_pods


@BOUNDED
@given(
    scheduler=st.sampled_from([VOLCANO, gang_scheduler("mine"), *NATIVE, YUNIKORN, KOORDINATOR]),
    replicas=st.fixed_dictionaries({"Worker": st.integers(0, 3)}, optional={"Master": st.just(1)}),
    policy=st.sampled_from(["Never", "OnFailure", "ExitCode"]),
    run_policy=st.fixed_dictionaries({}, optional={"activeDeadlineSeconds": st.just(60), "suspend": st.booleans()}),
    events=st.lists(GANG_EVENTS, max_size=40),
)
def test_whatever_happens(
    scheduler: Any, replicas: dict[str, int], policy: str, run_policy: Manifest, events: list[tuple[str, Any]]
) -> None:
    framework = under(TEST_JOB, scheduler)
    world = GangWorld(framework, job_manifest(framework, replicas, policy=policy, run_policy=run_policy))
    for event, detail in events:
        happen(world, event, detail)
    for _ in range(4):
        world.stop_terminating()
        world.tick(61)
        world.settle()
        if KEY in world.others:
            world.phase("Running")
        world.start()
    if world.current in ("Failed", "Succeeded", "Suspended") and not world.gang_off:
        assert KEY not in world.others
    if world.current == "Running" and policy != "Never":
        assert world.status["startTime"]
