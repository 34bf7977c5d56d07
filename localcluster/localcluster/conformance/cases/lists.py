"""GET of collections: selectors, pages, versions."""

from localcluster.conformance.case import VERSION, Json, Steps, at, case
from localcluster.conformance.kinds import CONFIG_MAPS, NODE, PODS, WIDGETS, bound, config_map, pod, widget


@case("label selectors")
def _() -> Steps:
    # The namespace holds the certificate bundle of a full cluster besides; only labelled objects are counted on.
    for name, app in (("n1", "x"), ("n2", "y"), ("n3", "x")):
        yield CONFIG_MAPS.create(config_map(name, labels={"app": app}))
    for selector, names in (
        ("app=x", ("n1", "n3")), ("app==x", ("n1", "n3")), ("app in (x,y)", ("n1", "n2", "n3")), ("app notin (x),app", ("n2",)),
        ("app,!nope", ("n1", "n2", "n3")), ("app!=x,app", ("n2",)),
    ):  # fmt: skip
        yield CONFIG_MAPS.listed(query={"labelSelector": selector}, items=names)


@case("field selectors")
def _() -> Steps:
    yield PODS.create(pod("p1"))
    yield PODS.create(bound("p2"))
    for selector, names in (
        ("spec.nodeName=", ("p1",)), (f"spec.nodeName={NODE}", ("p2",)), ("metadata.name=p1", ("p1",)),
        ("metadata.name!=p1", ("p2",)), ("status.phase=Pending,spec.nodeName!=", ("p2",)), ("status.phase!=Pending", ()),
    ):  # fmt: skip
        yield PODS.listed(query={"fieldSelector": selector}, items=names)
    yield PODS.listed(400, query={"fieldSelector": "spec.oops=1"}, reason="BadRequest")
    yield WIDGETS.listed(400, query={"fieldSelector": "spec.size=1"}, reason="BadRequest")
    yield WIDGETS.listed(query={"fieldSelector": "metadata.name=n"}, items=())


@case("pages")
def _() -> Steps:
    def rest(page: Json) -> Json:
        return {"limit": 2, "continue": at(page, "metadata.continue")}

    for number in range(5):
        yield WIDGETS.create(widget(f"n{number}"))
    first = yield WIDGETS.listed(query={"limit": 2}, items=("n0", "n1"), fields={"metadata.remainingItemCount": 3})
    yield WIDGETS.create(widget("n9"))
    yield WIDGETS.delete("n2")
    second = yield WIDGETS.listed(query=rest(first), items=("n2", "n3"), fields={VERSION: at(first, VERSION)})
    yield WIDGETS.listed(query=rest(second), items=("n4",))
    whole = {"metadata.remainingItemCount": None}
    yield WIDGETS.listed(query={"limit": 5}, items=("n0", "n1", "n3", "n4", "n9"), fields=whole)


@case("a version from the future")
def _() -> Steps:
    future = {"resourceVersion": "99999999"}
    yield PODS.listed(504, query=future, reason="Timeout", causes=("ResourceVersionTooLarge ",))
    yield PODS.get("n", 504, query=future, reason="Timeout")
