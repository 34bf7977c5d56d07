"""An optional feature of a third party: one class with the methods that it needs."""

import re
from pathlib import Path
from typing import Any

import pytest

from jobcommon import reconcile
from jobcommon.api.replica import Replica
from jobcommon.reconcile.extension import Extension
from jobcommon.reconcile.features import FEATURES
from jobcommon.reconcile.rendering import Hold
from jobcommon.reconcile.situation import Situation
from jobcommon.testutil.cluster_model import ClusterModel
from jobcommon.testutil.frameworks import TEST_JOB

LICENSE = "example.com/license"
DECISION = Path(reconcile.__file__).parent


class Licenses(Extension):
    """Holds a job until it has a licence, which its pods then carry."""

    def __init__(self, situation: Situation) -> None:
        self._license = situation.job.annotations.get(LICENSE)

    @property
    def hold(self) -> Hold | None:
        return Hold("it waits for a licence") if self._license == "awaited" else None

    def shape(self, replica: Replica, pod: dict[str, Any]) -> dict[str, Any]:
        annotations = {**(pod["metadata"].get("annotations") or {}), LICENSE: self._license}
        return {**pod, "metadata": {**pod["metadata"], "annotations": annotations}} if self._license else pod


def licensed(world: ClusterModel, value: str) -> None:
    world.manifest["metadata"]["annotations"] = {LICENSE: value}


def licences(world: ClusterModel) -> list[str]:
    return [pod.raw["metadata"]["annotations"][LICENSE] for pod in world.pods.values()]


def message(world: ClusterModel) -> str:
    text: str = world.status["conditions"][-1]["message"]
    return text


def test_a_feature_holds_a_job_and_shapes_its_pods_all_its_life() -> None:
    world = ClusterModel.of(TEST_JOB, {"Worker": 2}, policy="ExitCode", run_policy={"restartScope": "Job"})
    world.features = [*FEATURES, Licenses]
    licensed(world, "awaited")
    world.settle()
    assert (world.pods, message(world)) == ({}, "TestJob demo is created; it waits for a licence.")
    licensed(world, "granted")
    world.start()
    assert licences(world) == ["granted"] * 2
    licensed(world, "awaited")
    world.exit("demo-worker-1", 137)
    world.settle()
    world.stop_terminating().settle()
    assert world.pods == {}
    assert message(world).endswith("; waiting: it waits for a licence")
    world.edit(suspend=True).settle()
    world.edit(suspend=False).settle()
    assert world.pods == {}
    licensed(world, "renewed")
    world.tick(60)
    world.start()
    assert licences(world) == ["renewed"] * 2
    for name in ("demo-worker-0", "demo-worker-1"):
        world.exit(name, 0)
    world.settle()
    assert world.current == "Succeeded"


QUESTIONS = [name for name in vars(Extension) if not name.startswith("_") and name not in ("fields", "concerns")]


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_decision_asks_each_question_in_one_place(question: str) -> None:
    """Two places would get two answers, and one may be forgotten on a branch."""
    asked = [path.name for path in DECISION.glob("*.py") for _ in re.findall(rf"\bextension\.{question}\b", path.read_text())]
    assert asked == ["situation.py"]
