"""What the operator still holds of jobs that are gone: its objects, and what is in their collections."""

import functools
import gc
from collections import Counter, deque
from collections.abc import Iterable

import pytest

from jobcommon.client.request import MERGE_PATCH
from jobcommon.runtime import recorder
from tests.runtime.fakes import a_job
from tests.runtime.world import JOBS, World, operating, world_with_testjobs

OPERATOR = tuple(f"jobcommon.{package}." for package in ("api", "cache", "client", "controller", "reconcile", "runtime"))
COLLECTIONS = ", in collections"
BATCH, BATCHES = 8, 3
# The longest that a job is remembered: expectations and the correlation of events.
FORGOTTEN_AFTER = 1800.0


def held() -> Counter[str]:
    """By class of the operator's own: its instances, and the sizes of their collections."""
    found: Counter[str] = Counter()
    for one in gc.get_objects():
        if type(one) is functools._lru_cache_wrapper:  # not isinstance: objects of torch warn when asked for their class
            # Caches are bounded; the server of this test has some, too.
            one.cache_clear()
    gc.collect()
    for one in gc.get_objects():
        name = f"{type(one).__module__}.{type(one).__qualname__}"
        if name.startswith(OPERATOR):
            found[name] += 1
            collections = (ref for ref in gc.get_referents(one) if isinstance(ref, dict | set | list | deque))
            found[f"{name}{COLLECTIONS}"] += sum(map(len, collections))
    return found


async def batch(world: World, numbers: Iterable[int]) -> None:
    """Jobs that run, lose a pod, are suspended and resumed, end either way, and are deleted; some of them while they run."""
    clock, names = world.clock, [f"job-{number}" for number in numbers]
    for name in names:
        world.ok("POST", JOBS, a_job(name=name, workers=2, restart="ExitCode", backoffLimit=3))
    await clock.until(lambda: len(world.pods()) == 2 * len(names), step=0.5)
    world.play_all("Running")
    await clock.until(lambda: all("Running" in world.conditions(name) for name in names), step=0.5)
    uids = {pod["metadata"]["uid"] for pod in world.pods()}
    for name in names[::2]:
        world.play(f"{name}-worker-0", "Failed", 137)
    await clock.until(lambda: len({p["metadata"]["uid"] for p in world.pods()} - uids) == len(names[::2]), step=0.5)
    for suspend, count in ((True, 0), (False, 2)):
        world.ok("PATCH", f"{JOBS}/{names[0]}", {"spec": {"runPolicy": {"suspend": suspend}}}, MERGE_PATCH)
        await clock.until(lambda count=count: sum(names[0] in p["metadata"]["name"] for p in world.pods()) == count, step=0.5)
    world.play_all("Running")
    world.ok("DELETE", f"{JOBS}/{names[1]}")
    for name in names[2:]:
        for index in range(2):
            world.play(f"{name}-worker-{index}", "Succeeded" if name != names[2] else "Failed", int(name == names[2]))
    await clock.until(lambda: all({"Succeeded", "Failed"} & {*world.conditions(name)} for name in names[2:]), step=0.5)
    for name in (names[0], *names[2:]):
        world.ok("DELETE", f"{JOBS}/{name}")
    world.collect_garbage()
    await clock.until(lambda: not world.pods(), step=0.5)
    await clock.advance(FORGOTTEN_AFTER)


@pytest.mark.slow
async def test_a_deleted_job_leaves_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    # What the recorder keeps is bounded: a bound of a few entries is reached before the first measurement.
    monkeypatch.setattr(recorder, "MEMORY_LIMIT", 4)
    world = world_with_testjobs()
    async with operating(world) as process:
        await batch(world, range(BATCH))
        process.tap.writes.clear()
        before = held()
        for number in range(1, 1 + BATCHES):
            await batch(world, range(number * BATCH, (number + 1) * BATCH))
        process.tap.writes.clear()
        after = held()
    assert before["jobcommon.runtime.driver.Driver"] == 1
    # The last job that was decoded or planned may be held, and differ; one object for every second job is too much.
    most = {name: BATCH * BATCHES * (2 if name.endswith(COLLECTIONS) else 0.5) for name in after}
    assert {name: count for name, count in (after - before).items() if count >= most[name]} == {}
