"""An optional feature of a third party: one class with the methods that it needs."""

from typing import Any

from jobcommon.api.replica import Replica
from jobcommon.reconcile import plan
from jobcommon.reconcile.extension import Extension
from jobcommon.reconcile.features import FEATURES
from jobcommon.reconcile.plan import Create
from jobcommon.reconcile.rendering import Hold
from jobcommon.reconcile.situation import Situation
from jobcommon.testutil.cluster_model import ClusterModel
from jobcommon.testutil.frameworks import TEST_JOB

LICENSE = "example.com/license"


class Licenses(Extension):
    """Holds a job until it has a licence, which its pods then carry."""

    def __init__(self, view: Situation) -> None:
        self._license = view.job.annotations.get(LICENSE)

    @property
    def hold(self) -> Hold | None:
        return Hold("it waits for a licence") if self._license == "awaited" else None

    def shape(self, replica: Replica, pod: dict[str, Any]) -> dict[str, Any]:
        annotations = {**(pod["metadata"].get("annotations") or {}), LICENSE: self._license}
        return {**pod, "metadata": {**pod["metadata"], "annotations": annotations}} if self._license else pod


def creates(world: ClusterModel, license_: str) -> tuple[list[Create], str]:
    """The pods that are created, and the last message, of a job with that licence."""
    world.manifest["metadata"]["annotations"] = {LICENSE: license_}
    decided = plan(TEST_JOB, world.job, world.observed, world.now, [*FEATURES, Licenses])
    assert decided.status is not None
    pods = [action for action in decided.actions if isinstance(action, Create) and action.plural == "pods"]
    return pods, decided.status.conditions[-1].message


def test_a_feature_holds_a_job_and_shapes_its_pods() -> None:
    world = ClusterModel.of(TEST_JOB, {"Worker": 2})
    pods, message = creates(world, "awaited")
    assert (pods, message) == ([], "TestJob demo is created; it waits for a licence.")
    pods, message = creates(world, "granted")
    assert [pod.manifest["metadata"]["annotations"][LICENSE] for pod in pods] == ["granted"] * 2
    assert message == "TestJob demo is created."
