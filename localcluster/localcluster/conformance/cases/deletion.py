"""DELETE: preconditions, finalizers, grace."""

from localcluster.conformance.case import After, Case, Expect, Seen, Step
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
    put,
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
    *(
        Case(f"delete of what is missing: {kind.plural}", (delete(kind, "n", code=404, reason="NotFound"),)) for kind,
            _ in _MAKERS
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
    Case("an unknown propagation", (
        create(CONFIG_MAPS, config_map("n")), delete(CONFIG_MAPS, "n", {"propagationPolicy": "Sideways"}, 422,
            reason="Invalid"),
    )),
    Case("delete of a collection", (
        create(CONFIG_MAPS, config_map("n", labels={"app": "x"})), create(CONFIG_MAPS, config_map("m", labels={"app": "y"})),
        Step("DELETE", CONFIG_MAPS, query={"labelSelector": "app=x"}, expect=Expect(200, items=("n",))),
        listed(CONFIG_MAPS, query={"labelSelector": "app"}, items=("m",)),
    )),
    Case("an update may not take deletionTimestamp away or set it", (
        create(CONFIG_MAPS, config_map("n", finalizers=_HOLD)),
        put(CONFIG_MAPS, "n", Seen("configmaps/a/n", {"metadata": {"deletionTimestamp": "2001-01-01T00:00:00Z"}}), 422,
            reason="Invalid", causes=("FieldValueInvalid metadata.deletionTimestamp",)),
        delete(CONFIG_MAPS, "n"),
        put(CONFIG_MAPS, "n", Seen("configmaps/a/n", {"metadata": {"deletionTimestamp": None, "labels": {"a": "b"}}})),
        patch(CONFIG_MAPS, "n", _FREE), get(CONFIG_MAPS, "n", 404),
    )),
    Case("options in the body of a delete make the query void", (
        create(CONFIG_MAPS, config_map("n")),
        Step("DELETE", CONFIG_MAPS, "n", {"apiVersion": "v1", "kind": "DeleteOptions"}, query={"dryRun": "All"},
            expect=Expect(200)),
        get(CONFIG_MAPS, "n", 404),
    )),
    Case("a generation of an uncounted kind", (
        create(CONFIG_MAPS, config_map("n", generation=5, finalizers=_HOLD), fields={"metadata.generation": 5}),
        patch(CONFIG_MAPS, "n", {"metadata": {"generation": 7}}, fields={"metadata.generation": 5}),
        put(CONFIG_MAPS, "n", config_map("n"), fields={"metadata.generation": 5}),
        create(CONFIG_MAPS, config_map("m", generation=5, finalizers=_HOLD)),
        delete(CONFIG_MAPS, "m", fields={"metadata.generation": 6}),
        create(PODS, pod("n", generation=5), fields={"metadata.generation": 1}),
        create(WIDGETS, widget("n", generation=5), fields={"metadata.generation": 1}),
    )),
)  # fmt: skip
