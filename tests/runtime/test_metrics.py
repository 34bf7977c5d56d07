"""An operator's metrics over a job's life: what is exposed, with which labels and values."""

from collections.abc import Callable

import pytest

from jobcommon.runtime.metrics import Metrics, Readings
from tests.runtime.fakes import TESTJOB, a_job
from tests.runtime.world import JOBS, SETTINGS, Process, World, processes, world_with_testjobs


@pytest.fixture
def world() -> World:
    return world_with_testjobs()


def reader(metrics: Metrics) -> Callable[..., float | None]:
    """Reads a sample of the framework's."""
    return lambda name, **labels: metrics.registry.get_sample_value(name, {"framework": TESTJOB.name, **labels})


async def test_the_age_of_a_cache_grows_while_the_api_server_is_silent(world: World) -> None:
    process = Process(world, "a", SETTINGS)
    read = reader(process.manager.metrics)

    def age(resource: str) -> float | None:
        return read("training_operator_cache_age_seconds", resource=resource)

    async with processes(world, process):
        await world.clock.until(lambda: process.manager.ready)
        world.ok("POST", JOBS, a_job())
        await world.clock.until(lambda: len(world.pods()) == 2)
        await world.clock.advance(20)
        found = age("pods")
        assert found is not None
        assert 20 <= found < 30
        world.play_all("Running")
        await world.clock.until(lambda: (age("pods") or 0) < 1)
        assert (age("services") or 0) >= 20


def test_foreign_conditions_add_no_label_value() -> None:
    metrics = Metrics(process=False)
    counts = {"Running": 2, "": 1, "Written by a stranger": 3}
    metrics.watch({"test": Readings(lambda: 0, lambda: counts, dict, lambda: 0)})
    read = reader(metrics)
    assert {state: read("training_operator_jobs", state=state) for state in ("Running", "New")} == {"Running": 2, "New": 4}
    assert b"stranger" not in metrics.render()
