"""Writes that are answered with the object's metadata only, as those of the operator are."""

from dataclasses import replace

from localcluster.apiserver.rest.patch import merge
from localcluster.conformance.case import UID, Json, Kind, Step, Steps, at, case, same
from localcluster.conformance.cases.deletion import HOLD
from localcluster.conformance.kinds import PODS, WIDGETS, bound, each, widget

_ONLY = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "spec": None, "status": None, "data": None}


def _release(uid: str) -> list[Json]:
    return [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": "/metadata/finalizers", "value": HOLD},
        {"op": "replace", "path": "/metadata/finalizers", "value": []},
    ]


def _brief(step: Step) -> Step:
    return replace(step, brief=True)


@each("answered with metadata only")
def _(kind: Kind, body: Json) -> Steps:
    body = merge(body, {"metadata": {"finalizers": HOLD}})
    made = yield _brief(kind.create(body, fields=_ONLY))
    yield _brief(kind.create(body, 409, reason="AlreadyExists"))
    yield _brief(kind.get("n", fields={**_ONLY, **same(made)}))
    yield kind.get("n", fields={"kind": kind.kind})
    yield _brief(kind.patch("n", {"metadata": {"labels": {"a": "b"}}}, fields={**_ONLY, "metadata.labels.a": "b"}))
    yield _brief(kind.delete("n", {"preconditions": {"uid": at(made, UID)}}, fields=_ONLY))
    yield _brief(kind.patch("n", _release("another"), 422, reason="Invalid"))
    yield _brief(kind.patch("n", _release(at(made, UID)), fields=_ONLY))
    yield _brief(kind.get("n", 404, reason="NotFound"))
    yield _brief(kind.delete("n", code=404, reason="NotFound"))


@each("deletion at once, answered with metadata only")
def _(kind: Kind, body: Json) -> Steps:
    yield _brief(kind.create(body, fields=_ONLY))
    yield _brief(kind.delete("n"))
    yield kind.get("n", 404)


@case("deletion of a scheduled pod, answered with metadata only")
def _() -> Steps:
    yield _brief(PODS.create(bound("n"), fields=_ONLY))
    yield _brief(PODS.delete("n", fields={**_ONLY, "metadata.deletionGracePeriodSeconds": 30}))


@case("status written, answered with metadata only")
def _() -> Steps:
    made = yield WIDGETS.create(widget("n"))
    yield _brief(WIDGETS.put("n", merge(made, {"status": {"phase": "Done"}}), subresource="status", fields=_ONLY))
    yield WIDGETS.get("n", fields={"status.phase": "Done"})
