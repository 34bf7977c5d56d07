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
SITUATIONS: dict[str, Callable[[], ClusterModel]] = {}


def situation(build: Callable[[], ClusterModel]) -> Callable[[], ClusterModel]:
    SITUATIONS[build.__name__] = build
    return build


def started(policy: str = "ExitCode", **run_policy: object) -> ClusterModel:
    world = ClusterModel.of(TEST_JOB, {"Master": 1, "Worker": 2}, policy=policy, run_policy=run_policy).start()
    world.tick(5)
    return world


@situation
def new_job() -> ClusterModel:
    return ClusterModel.of(TEST_JOB, {"Master": 1, "Worker": 2}, run_policy={"activeDeadlineSeconds": 3600})


@situation
def all_replicas_run() -> ClusterModel:
    world = ClusterModel.of(TEST_JOB, {"Master": 1, "Worker": 2})
    world.settle()
    world.run()
    return world


@situation
def nothing_to_do() -> ClusterModel:
    return started()


@situation
def retryable_exit() -> ClusterModel:
    world = started()
    world.exit("demo-worker-1", 137, reason="OOMKilled")
    return world


@situation
def retryable_exit_on_record() -> ClusterModel:
    world = retryable_exit()
    world.step()
    return world


@situation
def permanent_exit() -> ClusterModel:
    world = started()
    world.exit("demo-worker-0", 1, message="ModuleNotFoundError: No module named 'torch'")
    return world


@situation
def backoff_limit_used_up() -> ClusterModel:
    world = started(backoffLimit=0)
    world.exit("demo-master-0", 143)
    return world


@situation
def success() -> ClusterModel:
    world = started(ttlSecondsAfterFinished=60)
    world.exit("demo-master-0", 0)
    return world


@situation
def success_on_record() -> ClusterModel:
    world = success()
    world.step()
    return world


@situation
def time_to_live_is_over() -> ClusterModel:
    world = success_on_record()
    world.settle()
    world.tick(60)
    return world


@situation
def suspended() -> ClusterModel:
    world = started()
    world.edit(suspend=True)
    return world


@situation
def suspended_on_record() -> ClusterModel:
    world = suspended()
    world.step()
    return world


@situation
def resumed() -> ClusterModel:
    world = suspended()
    world.settle()
    world.stop_terminating().settle()
    world.edit(suspend=False)
    return world


@situation
def resumed_on_record() -> ClusterModel:
    world = resumed()
    world.step()
    return world


@situation
def evicted() -> ClusterModel:
    world = started()
    world.evict("demo-worker-0")
    return world


@situation
def pods_scaled_down() -> ClusterModel:
    world = started()
    world.scale("Worker", 1)
    return world


@situation
def scaled_down_on_record() -> ClusterModel:
    world = pods_scaled_down()
    world.step()
    return world


@situation
def main_container_failed_beside_a_sidecar() -> ClusterModel:
    world = started()
    world.put(world.pods["demo-worker-1"].main_ended(137, at=world.now))
    return world


@situation
def main_container_succeeded_beside_a_sidecar() -> ClusterModel:
    world = started()
    world.put(world.pods["demo-worker-1"].main_ended(0, at=world.now))
    return world


@situation
def stuck_on_a_dead_node() -> ClusterModel:
    world = started()
    world.delete_pod("demo-worker-1").settle()
    world.tick(331)
    return world


@situation
def invalid_spec() -> ClusterModel:
    return ClusterModel.of(TEST_JOB, {"Master": 1, "Worker": -1}, run_policy={"backoffLimit": -1})


@pytest.mark.parametrize("name", sorted(SITUATIONS))
def test_golden_plan(name: str) -> None:
    path = GOLDEN / f"plan_{name}.txt"
    found = SITUATIONS[name]().step().describe() + "\n"
    if os.environ.get("GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(found)
    assert found == path.read_text(), "if this is meant: make golden"


UNUSED = [(name, feature) for name in sorted(SITUATIONS) for feature in FEATURES]


@pytest.mark.no_cover
@pytest.mark.parametrize(("name", "feature"), UNUSED, ids=[f"{name}-{feature.__name__}" for name, feature in UNUSED])
def test_an_operator_without_a_feature_that_the_job_does_not_use_decides_alike(name: str, feature: type[Part]) -> None:
    world = SITUATIONS[name]()
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
