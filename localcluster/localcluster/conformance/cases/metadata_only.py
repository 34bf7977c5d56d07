"""Writes that are answered with the object's metadata only, as those of the operator are."""

from dataclasses import replace

from localcluster.conformance.case import Case, Ref, Seen, Step
from localcluster.conformance.kinds import CONFIG_MAPS, PODS, SERVICES, WIDGETS, bound, config_map, pod, service, widget
from localcluster.conformance.steps import UID, VERSION, create, delete, get, json_patch, patch, put, ref

_MAKERS = ((PODS, pod), (SERVICES, service), (CONFIG_MAPS, config_map), (WIDGETS, widget))
_HOLD = ["example.com/hold"]
_ONLY = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "spec": None, "status": None, "data": None}


def _let_go(uid: str | Ref) -> list[dict[str, object]]:
    return [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": "/metadata/finalizers", "value": _HOLD},
        {"op": "replace", "path": "/metadata/finalizers", "value": []},
    ]


def _brief(step: Step) -> Step:
    return replace(step, brief=True)


CASES = (
    *(
        Case(f"answered with metadata only: {kind.plural}", (
            _brief(create(kind, make("n", finalizers=_HOLD), fields=_ONLY)),
            _brief(create(kind, make("n"), 409, reason="AlreadyExists")),
            _brief(get(kind, "n", fields={**_ONLY, VERSION: ref(kind, "n", VERSION)})),
            get(kind, "n", fields={"kind": kind.kind}),
            _brief(patch(kind, "n", {"metadata": {"labels": {"a": "b"}}}, fields={**_ONLY, "metadata.labels.a": "b"})),
            _brief(delete(kind, "n", {"preconditions": {"uid": ref(kind, "n", UID)}}, fields=_ONLY)),
            _brief(json_patch(kind, "n", _let_go("another"), 422, reason="Invalid")),
            _brief(json_patch(kind, "n", _let_go(ref(kind, "n", UID)), fields=_ONLY)),
            _brief(get(kind, "n", 404, reason="NotFound")), _brief(delete(kind, "n", code=404, reason="NotFound")),
        ))
        for kind, make in _MAKERS
    ),
    *(
        Case(f"deletion at once, answered with metadata only: {kind.plural}", (
            _brief(create(kind, make("n"), fields=_ONLY)), _brief(delete(kind, "n")), get(kind, "n", 404),
        ))
        for kind, make in _MAKERS
    ),
    Case("deletion of a scheduled pod, answered with metadata only", (
        _brief(create(PODS, bound("n"), fields=_ONLY)),
        _brief(delete(PODS, "n", fields={**_ONLY, "metadata.deletionGracePeriodSeconds": 30})),
    )),
    Case("status written, answered with metadata only", (
        create(WIDGETS, widget("n")),
        _brief(put(WIDGETS, "n", Seen("widgets/a/n", {"status": {"phase": "Done"}}), subresource="status", fields=_ONLY)),
        get(WIDGETS, "n", fields={"status.phase": "Done"}),
    )),
)  # fmt: skip
