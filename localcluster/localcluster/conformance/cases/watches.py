"""WATCH: order, selectors, where it starts."""

from localcluster.conformance.case import Case, Expect, Ref, Step
from localcluster.conformance.kinds import CONFIG_MAPS, PODS, WIDGETS, config_map, pod, widget
from localcluster.conformance.steps import VERSION, create, delete, listed, patch, ref, start, watch

_X, _Y = {"metadata": {"labels": {"app": "x"}}}, {"metadata": {"labels": {"app": "y"}}}
_HISTORY = (
    listed(WIDGETS),
    create(WIDGETS, widget("n")),
    create(WIDGETS, widget("m")),
    patch(WIDGETS, "n", {"spec": {"size": 2}}),
    delete(WIDGETS, "m"),
    create(WIDGETS, widget("m")),
)

CASES = (
    Case("watch from each version", (
        *_HISTORY, watch(WIDGETS, start(WIDGETS), "ADDED n", "ADDED m", "MODIFIED n", "DELETED m", "ADDED m"),
        watch(WIDGETS, ref(WIDGETS, "n", VERSION, 1), "ADDED m", "MODIFIED n", "DELETED m", "ADDED m"),
        watch(WIDGETS, ref(WIDGETS, "n", VERSION), "DELETED m", "ADDED m"),
    )),
    Case("watch without a version, and from 0", (
        create(CONFIG_MAPS, config_map("n", labels={"app": "y"})), create(CONFIG_MAPS, config_map("m", labels={"app": "y"})),
        delete(CONFIG_MAPS, "n"), watch(CONFIG_MAPS, None, "ADDED m", query={"labelSelector": "app"}),
        watch(CONFIG_MAPS, "0", "ADDED m", query={"fieldSelector": "metadata.name!=zz", "labelSelector": "app"}),
    )),
    Case("an object enters and leaves a selection", (
        listed(PODS), create(PODS, pod("n", labels={"app": "y"})), patch(PODS, "n", _X),
        patch(PODS, "n", {"metadata": {"labels": {"b": "c"}}}), patch(PODS, "n", _Y), patch(PODS, "n", _X), delete(PODS, "n"),
        watch(PODS, start(PODS), "ADDED n", "MODIFIED n", "DELETED n", "ADDED n", "MODIFIED n", "DELETED n",
            query={"labelSelector": "app=x"}),
    )),
    Case("unscheduled pods by field selector", (
        listed(PODS), create(PODS, pod("n")),
        Step("POST", PODS, "n", {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "n"},
            "target": {"kind": "Node", "name": "x"}},
             Expect(201), subresource="binding"),
        watch(PODS, start(PODS), "ADDED n", "DELETED n", query={"fieldSelector": "spec.nodeName="}),
    )),
    Case("the initial events of a streaming list", (
        create(WIDGETS, widget("n")), create(WIDGETS, widget("m")),
        watch(WIDGETS, None, "ADDED m", "ADDED n", "BOOKMARK",
              query={"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}),
    )),
    Case("watch from the future waits for it", (
        create(CONFIG_MAPS, config_map("n")),
        Step("WATCH", CONFIG_MAPS, query={"sendInitialEvents": "true", "resourceVersion": Ref("configmaps/a/n", VERSION)},
             expect=Expect(422, "Invalid")),
    )),
)  # fmt: skip
