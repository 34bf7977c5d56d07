"""DELETE: preconditions, finalizers, grace."""

from functools import partial

from localcluster.apiserver.rest.patch import merge
from localcluster.conformance.case import (
    TABLE,
    UID,
    UNKNOWN_UID,
    VERSION,
    Case,
    Json,
    Kind,
    Steps,
    after,
    at,
    case,
    same,
)
from localcluster.conformance.kinds import CONFIG_MAPS, PODS, bound, config_map, each, pod

HOLD = ["example.com/hold"]
_FREE = {"metadata": {"finalizers": None}}
_TIME, _GRACE = "metadata.deletionTimestamp", "metadata.deletionGracePeriodSeconds"
_CREATED = "metadata.creationTimestamp"
_AT_ONCE = {"gracePeriodSeconds": 0}


@each("delete with a wrong precondition")
def _(kind: Kind, body: Json) -> Steps:
    made = yield kind.create(body)
    for wrong in ({"uid": UNKNOWN_UID}, {"resourceVersion": "1"}):
        yield kind.delete("n", {"preconditions": wrong}, 409, reason="Conflict")
    yield kind.get("n")
    yield kind.delete("n", {"preconditions": {"uid": at(made, UID), "resourceVersion": at(made, VERSION)}})
    yield kind.get("n", 404)


@case("delete of an unscheduled pod")
def _() -> Steps:
    made = yield PODS.create(pod("n"))
    yield PODS.delete("n", fields={_GRACE: 0})
    yield PODS.watch(made, "MODIFIED n", "DELETED n")
    yield PODS.get("n", 404)


@case("delete of a scheduled pod")
def _() -> Steps:
    made = yield PODS.create(bound("n", {"terminationGracePeriodSeconds": 7}))
    going = yield PODS.delete("n", fields={_GRACE: 7, "metadata.generation": 2})
    yield PODS.delete("n", fields=same(going))
    yield PODS.delete("n", {"gracePeriodSeconds": 3}, fields={_GRACE: 3})
    yield PODS.delete("n", {"gracePeriodSeconds": 60}, fields={_GRACE: 3})
    yield PODS.delete("n", _AT_ONCE)
    yield PODS.get("n", 404)
    yield PODS.watch(made, "MODIFIED n", "MODIFIED n", "MODIFIED n", "DELETED n")


@case("a second deletion shortens the grace only when it says so")
def _() -> Steps:
    yield PODS.create(bound("n"))
    yield PODS.delete("n", {"gracePeriodSeconds": 60})
    yield PODS.delete("n", {"propagationPolicy": "Foreground"}, fields={_GRACE: 60})
    yield PODS.delete("n", {"gracePeriodSeconds": 90}, fields={_GRACE: 60})
    yield PODS.delete("n", {"gracePeriodSeconds": 5}, fields={_GRACE: 5})
    yield PODS.patch("n", {"status": {"phase": "Succeeded"}}, subresource="status")
    yield PODS.delete("n")
    yield PODS.delete("n", _AT_ONCE)
    yield PODS.get("n", 404)


# Kubernetes 1.33 and later; before that, the time went back to when the deletion was asked for. Times have whole seconds.
@case("the kubelet's last DELETE of a pod that a finalizer keeps comes some time later")
def _() -> Steps:
    made = yield PODS.create(bound("n", finalizers=HOLD))
    yield PODS.delete("n")
    moved = {_TIME: after(at(made, _CREATED), 3), _GRACE: 0, "metadata.generation": 2}
    last = yield PODS.delete("n", _AT_ONCE, pause=4, fields=moved)
    yield PODS.delete("n", _AT_ONCE, pause=2, fields=same(last))
    yield PODS.patch("n", _FREE)
    yield PODS.get("n", 404)


@case("a period that is shortened to less than what has passed becomes one second")
def _() -> Steps:
    made = yield PODS.create(bound("n"))
    yield PODS.delete("n")
    yield PODS.delete("n", {"gracePeriodSeconds": 2}, pause=4, fields={_TIME: after(at(made, _CREATED), 3), _GRACE: 1})
    yield PODS.delete("n", _AT_ONCE)
    yield PODS.get("n", 404)


@case("a period that is shortened counts from the first deletion")
def _() -> Steps:
    made = yield PODS.create(bound("n"))
    yield PODS.delete("n")
    yield PODS.delete("n", {"gracePeriodSeconds": 20}, pause=4, fields={_TIME: after(at(made, _CREATED), 20), _GRACE: 20})
    yield PODS.delete("n", {"gracePeriodSeconds": -5}, fields={_GRACE: 1})
    yield PODS.delete("n", _AT_ONCE)
    yield PODS.get("n", 404)


def _ended(phase: str) -> Steps:
    yield PODS.create(bound("n"))
    yield PODS.patch("n", {"status": {"phase": phase}}, subresource="status")
    yield PODS.delete("n")
    yield PODS.get("n", 404)


def _propagated(policy: str, code: int) -> Steps:
    yield CONFIG_MAPS.create(config_map("n"))
    yield CONFIG_MAPS.delete("n", {"propagationPolicy": policy})
    yield CONFIG_MAPS.get("n", code)


TABLE += [Case(f"delete of a scheduled pod that is {phase}", partial(_ended, phase)) for phase in ("Succeeded", "Failed")]
for policy, code in (("Background", 404), ("Foreground", 200), ("Orphan", 200)):
    TABLE.append(Case(f"propagation {policy}", partial(_propagated, policy, code)))


@each("a finalizer holds the object")
def _(kind: Kind, body: Json) -> Steps:
    start = yield kind.listed()
    yield kind.create(merge(body, {"metadata": {"finalizers": HOLD}}))
    going = yield kind.delete("n")
    yield kind.delete("n", fields=same(going))
    yield kind.patch("n", {"metadata": {"finalizers": [*HOLD, "example.com/more"]}}, 422, reason="Invalid")
    yield kind.patch("n", {"metadata": {"labels": {"a": "b"}}})
    yield kind.patch("n", _FREE)
    yield kind.get("n", 404)
    yield kind.watch(start, "ADDED n", "MODIFIED n", "MODIFIED n", "DELETED n")


@case("the version after the last finalizer is not the one of the deletion")
def _() -> Steps:
    yield PODS.create(pod("n", finalizers=HOLD))
    going = yield PODS.delete("n")
    yield PODS.patch("n", _FREE, fields=same(going))
    yield PODS.watch(going, "DELETED n")
