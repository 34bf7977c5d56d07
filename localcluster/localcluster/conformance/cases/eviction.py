"""The eviction API: what it shows of a pod, and in which order."""

from localcluster.conformance.case import Step, Steps, case, same
from localcluster.conformance.cases.deletion import HOLD
from localcluster.conformance.kinds import PODS, bound

_SHOWN = {
    "status.conditions.0.type": "DisruptionTarget", "status.conditions.0.status": "True",
    "status.conditions.0.reason": "EvictionByEvictionAPI", "status.conditions.0.message": "Eviction API: evicting",
}  # fmt: skip
_GRACE = "metadata.deletionGracePeriodSeconds"


def _evict() -> Step:
    return PODS.act("n", "eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "n"}})


def _is(phase: str) -> Step:
    return PODS.patch("n", {"status": {"phase": phase}}, subresource="status")


@case("eviction of a running pod")
def _() -> Steps:
    yield PODS.create(bound("n", {"terminationGracePeriodSeconds": 7}, finalizers=HOLD))
    running = yield _is("Running")
    yield _evict()
    yield PODS.get("n", fields={**_SHOWN, _GRACE: 7, "status.phase": "Running"})
    yield PODS.watch(running, "MODIFIED n", "MODIFIED n")


@case("eviction of a pod that has ended")
def _() -> Steps:
    yield PODS.create(bound("n", finalizers=HOLD))
    yield _is("Succeeded")
    yield _evict()
    yield PODS.get("n", fields={**_SHOWN, _GRACE: 0})


@case("a second eviction changes nothing")
def _() -> Steps:
    yield PODS.create(bound("n", finalizers=HOLD))
    yield _is("Running")
    yield _evict()
    evicted = yield PODS.get("n")
    yield _evict()
    yield PODS.get("n", fields=same(evicted))
