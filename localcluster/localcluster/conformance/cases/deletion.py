"""DELETE: preconditions, finalizers, grace."""

from localcluster.conformance.case import After, Case
from localcluster.conformance.kinds import CONFIG_MAPS, PODS, SERVICES, WIDGETS, bound, config_map, pod, service, widget
from localcluster.conformance.steps import (
    UID,
    UNKNOWN_UID,
    VERSION,
    create,
    delete,
    get,
    listed,
    patch,
    ref,
    start,
    watch,
)

_MAKERS = ((PODS, pod), (SERVICES, service), (CONFIG_MAPS, config_map), (WIDGETS, widget))
_HOLD = ["example.com/hold"]
_FREE = {"metadata": {"finalizers": None}}
_CREATED = ref(PODS, "n", "metadata.creationTimestamp")
#: After a pause of four seconds: not when the deletion was asked for. Times have whole seconds.
_LATER = After(_CREATED, 3)

CASES = (
    *(
        Case(f"delete with a wrong precondition: {kind.plural}", (
            create(kind, make("n")), delete(kind, "n", {"preconditions": {"uid": UNKNOWN_UID}}, 409, reason="Conflict"),
            delete(kind, "n", {"preconditions": {"resourceVersion": "1"}}, 409, reason="Conflict"), get(kind, "n"),
            delete(kind, "n", {"preconditions": {"uid": ref(kind, "n", UID), "resourceVersion": ref(kind, "n", VERSION)}}),
            get(kind, "n", 404),
        ))
        for kind, make in _MAKERS
    ),
    Case("delete of an unscheduled pod", (
        create(PODS, pod("n")), delete(PODS, "n", fields={"metadata.deletionGracePeriodSeconds": 0}),
        watch(PODS, ref(PODS, "n", VERSION, 1), "MODIFIED n", "DELETED n"), get(PODS, "n", 404),
    )),
    Case("delete of a scheduled pod", (
        create(PODS, bound("n", {"terminationGracePeriodSeconds": 7})),
        delete(PODS, "n", fields={"metadata.deletionGracePeriodSeconds": 7, "metadata.generation": 2}),
        delete(PODS, "n", fields={VERSION: ref(PODS, "n", VERSION)}),
        delete(PODS, "n", {"gracePeriodSeconds": 3}, fields={"metadata.deletionGracePeriodSeconds": 3}),
        delete(PODS, "n", {"gracePeriodSeconds": 60}, fields={"metadata.deletionGracePeriodSeconds": 3}),
        delete(PODS, "n", {"gracePeriodSeconds": 0}), get(PODS, "n", 404),
        watch(PODS, ref(PODS, "n", VERSION, 3), "MODIFIED n", "MODIFIED n", "MODIFIED n", "DELETED n"),
    )),
    Case("a second deletion shortens the grace only when it says so", (
        create(PODS, bound("n")), delete(PODS, "n", {"gracePeriodSeconds": 60}),
        delete(PODS, "n", {"propagationPolicy": "Foreground"}, fields={"metadata.deletionGracePeriodSeconds": 60}),
        delete(PODS, "n", {"gracePeriodSeconds": 90}, fields={"metadata.deletionGracePeriodSeconds": 60}),
        delete(PODS, "n", {"gracePeriodSeconds": 5}, fields={"metadata.deletionGracePeriodSeconds": 5}),
        patch(PODS, "n", {"status": {"phase": "Succeeded"}}, subresource="status"), delete(PODS, "n"),
        delete(PODS, "n", {"gracePeriodSeconds": 0}), get(PODS, "n", 404),
    )),
    # Kubernetes 1.33 and later; before that, the time went back to when the deletion was asked for.
    Case("the kubelet's last DELETE of a pod that a finalizer keeps comes some time later", (
        create(PODS, bound("n", finalizers=_HOLD)), delete(PODS, "n"),
        delete(PODS, "n", {"gracePeriodSeconds": 0}, pause=4,
            fields={"metadata.deletionTimestamp": _LATER, "metadata.deletionGracePeriodSeconds": 0, "metadata.generation": 2}),
        delete(PODS, "n", {"gracePeriodSeconds": 0}, pause=2, fields={VERSION: ref(PODS, "n", VERSION)}),
        patch(PODS, "n", _FREE), get(PODS, "n", 404),
    )),
    Case("a period that is shortened to less than what has passed becomes one second", (
        create(PODS, bound("n")), delete(PODS, "n"),
        delete(PODS, "n", {"gracePeriodSeconds": 2}, pause=4,
            fields={"metadata.deletionTimestamp": _LATER, "metadata.deletionGracePeriodSeconds": 1}),
        delete(PODS, "n", {"gracePeriodSeconds": 0}), get(PODS, "n", 404),
    )),
    Case("a period that is shortened counts from the first deletion", (
        create(PODS, bound("n")), delete(PODS, "n"),
        delete(PODS, "n", {"gracePeriodSeconds": 20}, pause=4,
            fields={"metadata.deletionTimestamp": After(_CREATED, 20), "metadata.deletionGracePeriodSeconds": 20}),
        delete(PODS, "n", {"gracePeriodSeconds": -5}, fields={"metadata.deletionGracePeriodSeconds": 1}),
        delete(PODS, "n", {"gracePeriodSeconds": 0}), get(PODS, "n", 404),
    )),
    *(
        Case(f"delete of a scheduled pod that is {phase}", (
            create(PODS, bound("n")), patch(PODS, "n", {"status": {"phase": phase}}, subresource="status"),
            delete(PODS, "n"), get(PODS, "n", 404),
        ))
        for phase in ("Succeeded", "Failed")
    ),
    *(
        Case(f"a finalizer holds the object: {kind.plural}", (
            listed(kind), create(kind, make("n", finalizers=_HOLD)), delete(kind, "n"),
            delete(kind, "n", fields={VERSION: ref(kind, "n", VERSION)}),
            patch(kind, "n", {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}, 422, reason="Invalid"),
            patch(kind, "n", {"metadata": {"labels": {"a": "b"}}}), patch(kind, "n", _FREE), get(kind, "n", 404),
            watch(kind, start(kind), "ADDED n", "MODIFIED n", "MODIFIED n", "DELETED n"),
        ))
        for kind, make in _MAKERS
    ),
    Case("the version after the last finalizer is not the one of the deletion", (
        create(PODS, pod("n", finalizers=_HOLD)), delete(PODS, "n"),
        patch(PODS, "n", _FREE, fields={VERSION: ref(PODS, "n", VERSION)}), watch(PODS, ref(PODS, "n", VERSION), "DELETED n"),
    )),
    *(
        Case(f"propagation {policy}", (
            create(CONFIG_MAPS, config_map("n")),
            delete(CONFIG_MAPS, "n", {"propagationPolicy": policy}), get(CONFIG_MAPS, "n", code),
        ))
        for policy, code in (("Background", 404), ("Foreground", 200), ("Orphan", 200))
    ),
)  # fmt: skip
