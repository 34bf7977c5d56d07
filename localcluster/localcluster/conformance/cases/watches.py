"""WATCH: order, selectors, where it starts."""

from localcluster.conformance.case import VERSION, Expect, Step, Steps, at, case
from localcluster.conformance.kinds import CONFIG_MAPS, PODS, WIDGETS, config_map, pod, widget


@case("watch from each version")
def _() -> Steps:
    start = yield WIDGETS.listed()
    made = yield WIDGETS.create(widget("n"))
    yield WIDGETS.create(widget("m"))
    changed = yield WIDGETS.patch("n", {"spec": {"size": 2}})
    yield WIDGETS.delete("m")
    yield WIDGETS.create(widget("m"))
    yield WIDGETS.watch(start, "ADDED n", "ADDED m", "MODIFIED n", "DELETED m", "ADDED m")
    yield WIDGETS.watch(made, "ADDED m", "MODIFIED n", "DELETED m", "ADDED m")
    yield WIDGETS.watch(changed, "DELETED m", "ADDED m")


@case("watch without a version, and from 0")
def _() -> Steps:
    for name in "nm":
        yield CONFIG_MAPS.create(config_map(name, labels={"app": "y"}))
    yield CONFIG_MAPS.delete("n")
    yield CONFIG_MAPS.watch(None, "ADDED m", query={"labelSelector": "app"})
    yield CONFIG_MAPS.watch("0", "ADDED m", query={"fieldSelector": "metadata.name!=zz", "labelSelector": "app"})


@case("an object enters and leaves a selection")
def _() -> Steps:
    start = yield PODS.listed()
    yield PODS.create(pod("n", labels={"app": "y"}))
    for labels in ({"app": "x"}, {"b": "c"}, {"app": "y"}, {"app": "x"}):
        yield PODS.patch("n", {"metadata": {"labels": labels}})
    yield PODS.delete("n")
    entered = ("ADDED n", "MODIFIED n", "DELETED n")
    yield PODS.watch(start, *entered, *entered, query={"labelSelector": "app=x"})


@case("unscheduled pods by field selector")
def _() -> Steps:
    start = yield PODS.listed()
    yield PODS.create(pod("n"))
    target = {"kind": "Node", "name": "x"}
    yield PODS.act("n", "binding", {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "n"}, "target": target})
    yield PODS.watch(start, "ADDED n", "DELETED n", query={"fieldSelector": "spec.nodeName="})


@case("the initial events of a streaming list")
def _() -> Steps:
    for name in "nm":
        yield WIDGETS.create(widget(name))
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    yield WIDGETS.watch(None, "ADDED m", "ADDED n", "BOOKMARK", query=query)


@case("initial events need a match")
def _() -> Steps:
    made = yield CONFIG_MAPS.create(config_map("n"))
    query = {"sendInitialEvents": "true", "resourceVersion": at(made, VERSION)}
    yield Step("WATCH", CONFIG_MAPS, query=query, expect=Expect(422, "Invalid"))
