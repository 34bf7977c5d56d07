"""Plans in words, as golden files: what representative situations lead to, for people to read and to compare.

``make golden`` writes them anew; look at the difference before you commit it.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from jobcommon.testutil.frameworks import TEST_JOB
from jobcommon.testutil.world import World

GOLDEN = Path(__file__).parent.parent / "golden"
SITUATIONS: dict[str, Callable[[], World]] = {}


def situation(build: Callable[[], World]) -> Callable[[], World]:
    SITUATIONS[build.__name__] = build
    return build


def started(policy: str = "ExitCode", **run_policy: object) -> World:
    world = World.of(TEST_JOB, {"Master": 1, "Worker": 2}, policy=policy, run_policy=run_policy)
    world.settle()
    world.run()
    world.settle()
    world.tick(5)
    return world


@situation
def new_job() -> World:
    return World.of(TEST_JOB, {"Master": 1, "Worker": 2}, run_policy={"activeDeadlineSeconds": 3600})


@situation
def all_replicas_run() -> World:
    world = World.of(TEST_JOB, {"Master": 1, "Worker": 2})
    world.settle()
    world.run()
    return world


@situation
def nothing_to_do() -> World:
    return started()


@situation
def retryable_exit() -> World:
    world = started()
    world.exit("demo-worker-1", 137, reason="OOMKilled")
    return world


@situation
def retryable_exit_on_record() -> World:
    world = retryable_exit()
    world.step()
    return world


@situation
def permanent_exit() -> World:
    world = started()
    world.exit("demo-worker-0", 1, message="ModuleNotFoundError: No module named 'torch'")
    return world


@situation
def backoff_limit_used_up() -> World:
    world = started(backoffLimit=0)
    world.exit("demo-master-0", 143)
    return world


@situation
def success() -> World:
    world = started(ttlSecondsAfterFinished=60)
    world.exit("demo-master-0", 0)
    return world


@situation
def success_on_record() -> World:
    world = success()
    world.step()
    return world


@situation
def time_to_live_is_over() -> World:
    world = success_on_record()
    world.settle()
    world.tick(60)
    return world


@situation
def suspended() -> World:
    world = started()
    world.edit(suspend=True)
    return world


@situation
def suspended_on_record() -> World:
    world = suspended()
    world.step()
    return world


@situation
def resumed() -> World:
    world = suspended()
    world.settle()
    world.stop_terminating()
    world.settle()
    world.edit(suspend=False)
    return world


@situation
def resumed_on_record() -> World:
    world = resumed()
    world.step()
    return world


@situation
def evicted() -> World:
    world = started()
    world.evict("demo-worker-0")
    return world


@situation
def scaled_down() -> World:
    world = started()
    world.scale("Worker", 1)
    return world


@situation
def scaled_down_on_record() -> World:
    world = scaled_down()
    world.step()
    return world


@situation
def main_container_failed_beside_a_sidecar() -> World:
    world = started()
    world._put(world.pods["demo-worker-1"].main_ended(137, at=world.now))
    return world


@situation
def main_container_succeeded_beside_a_sidecar() -> World:
    world = started()
    world._put(world.pods["demo-worker-1"].main_ended(0, at=world.now))
    return world


@situation
def stuck_on_a_dead_node() -> World:
    world = started()
    world.delete_pod("demo-worker-1")
    world.settle()
    world.tick(331)
    return world


@situation
def invalid_spec() -> World:
    return World.of(TEST_JOB, {"Master": 1, "Worker": -1}, run_policy={"backoffLimit": -1})


@pytest.mark.parametrize("name", sorted(SITUATIONS))
def test_golden_plan(name: str) -> None:
    path = GOLDEN / f"plan_{name}.txt"
    found = SITUATIONS[name]().step().describe() + "\n"
    if os.environ.get("GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(found)
    assert found == path.read_text(), "if this is meant: make golden"
