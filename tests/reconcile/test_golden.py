"""Plans in words, as golden files: what representative situations lead to, for people to read and to compare.

``make golden`` writes them anew; look at the difference before you commit it.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from jobcommon.reconcile import plan
from jobcommon.reconcile.features import FEATURES, verified
from jobcommon.reconcile.node_loss import NodeLoss
from jobcommon.reconcile.view import Lifecycle, Part
from jobcommon.testutil.cluster_model import ClusterModel
from jobcommon.testutil.frameworks import TEST_JOB

GOLDEN = Path(__file__).parent.parent / "golden"
Step = Callable[[ClusterModel], object]


def killed(world: ClusterModel) -> None:
    world.exit("demo-worker-1", 137, reason="OOMKilled")


def stopped(world: ClusterModel) -> None:
    world.settle()
    world.stop_terminating().settle()


def suspend(world: ClusterModel) -> None:
    world.edit(suspend=True)


def resume(world: ClusterModel) -> None:
    world.edit(suspend=False)


def recorded(world: ClusterModel) -> None:
    world.step()


def done(world: ClusterModel) -> None:
    world.exit("demo-master-0", 0)


def scaled_down(world: ClusterModel) -> None:
    world.scale("Worker", 1)


EXPIRES = {"ttlSecondsAfterFinished": 60}
IMPORT = "ModuleNotFoundError: No module named 'torch'"
#: of a job that runs: its run policy, and what happens
STARTED: dict[str, tuple[dict[str, int], list[Step]]] = {
    "nothing_to_do": ({}, []),
    "retryable_exit": ({}, [killed]), "retryable_exit_on_record": ({}, [killed, recorded]),
    "permanent_exit": ({}, [lambda world: world.exit("demo-worker-0", 1, message=IMPORT)]),
    "backoff_limit_used_up": ({"backoffLimit": 0}, [lambda world: world.exit("demo-master-0", 143)]),
    "success": (EXPIRES, [done]), "success_on_record": (EXPIRES, [done, recorded]),
    "time_to_live_is_over": (EXPIRES, [done, recorded, lambda world: world.settle(), lambda world: world.tick(60)]),
    "suspended": ({}, [suspend]), "suspended_on_record": ({}, [suspend, recorded]),
    "resumed": ({}, [suspend, stopped, resume]), "resumed_on_record": ({}, [suspend, stopped, resume, recorded]),
    "evicted": ({}, [lambda world: world.evict("demo-worker-0")]),
    "pods_scaled_down": ({}, [scaled_down]), "scaled_down_on_record": ({}, [scaled_down, recorded]),
    **{f"main_container_{end}_beside_a_sidecar": ({}, [lambda world, code=code: world.put(
        world.pods["demo-worker-1"].main_ended(code, at=world.now))]) for end, code in (("failed", 137), ("succeeded", 0))},
    "stuck_on_a_dead_node": ({}, [lambda world: world.delete_pod("demo-worker-1").settle(), lambda world: world.tick(331)]),
}  # fmt: skip
#: of a new one: its workers, its run policy, and what happens
CREATED: dict[str, tuple[int, dict[str, int], list[Step]]] = {
    "new_job": (2, {"activeDeadlineSeconds": 3600}, []),
    "all_replicas_run": (2, {}, [lambda world: world.settle(), lambda world: world.run()]),
    "invalid_spec": (-1, {"backoffLimit": -1}, []),
}
SITUATIONS = [*STARTED, *CREATED]


def situation(name: str) -> ClusterModel:
    if name in CREATED:
        workers, run_policy, steps = CREATED[name]
        world = ClusterModel.of(TEST_JOB, {"Master": 1, "Worker": workers}, run_policy=run_policy)
    else:
        run_policy, steps = STARTED[name]
        world = ClusterModel.of(TEST_JOB, {"Master": 1, "Worker": 2}, policy="ExitCode", run_policy=run_policy).start()
        world.tick(5)
    for happens in steps:
        happens(world)
    return world


@pytest.mark.parametrize("name", sorted(SITUATIONS))
def test_golden_plan(name: str) -> None:
    path = GOLDEN / f"plan_{name}.txt"
    found = situation(name).step().describe() + "\n"
    if os.environ.get("GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(found)
    assert found == path.read_text(), "if this is meant: make golden"


UNUSED = [(name, feature) for name in sorted(SITUATIONS) for feature in FEATURES]


@pytest.mark.no_cover
@pytest.mark.parametrize(("name", "feature"), UNUSED, ids=[f"{name}-{feature.__name__}" for name, feature in UNUSED])
def test_an_operator_without_a_feature_that_the_job_does_not_use_decides_alike(name: str, feature: type[Part]) -> None:
    world = situation(name)
    others = tuple(other for other in FEATURES if other is not feature)
    decided = plan(replace(world.framework, features=others), world.job, world.observed, world.now)
    assert f"{decided.describe()}\n" == (GOLDEN / f"plan_{name}.txt").read_text()


def test_two_features_that_write_one_field_are_refused_when_they_are_loaded() -> None:
    class Other(Lifecycle):
        fields = ("node_failures",)

    with pytest.raises(ValueError, match="NodeLoss and Other both record node_failures"):
        verified((NodeLoss, Other))
    Other.fields = ("no_field",)
    with pytest.raises(ValueError, match="Other records no_field, which JobStatus does not have"):
        verified((NodeLoss, Other))
