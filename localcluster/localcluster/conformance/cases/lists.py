"""GET of collections: selectors, pages, versions."""

from localcluster.conformance.case import Case, Ref, Step
from localcluster.conformance.kinds import CONFIG_MAPS, NODE, PODS, WIDGETS, bound, config_map, pod, widget
from localcluster.conformance.steps import VERSION, create, delete, get, listed, patch, ref

#: The namespace holds the certificate bundle of a full cluster besides; only labelled objects are counted on.
_LABELLED = tuple(
    create(CONFIG_MAPS, config_map(name, labels={"app": app})) for name, app in (("n1", "x"), ("n2", "y"), ("n3", "x"))
)
_PODS = (create(PODS, pod("p1", labels={"app": "x"})), create(PODS, bound("p2", labels={"app": "y"})))


def _selected(selector: str, *names: str) -> Step:
    return listed(CONFIG_MAPS, query={"labelSelector": selector}, items=names)


def _where(selector: str, *names: str) -> Step:
    return listed(PODS, query={"fieldSelector": selector}, items=names)


CASES = (
    Case("label selectors", (
        *_LABELLED, _selected("app=x", "n1", "n3"), _selected("app==x", "n1", "n3"),
            _selected("app in (x,y)", "n1", "n2", "n3"),
        _selected("app notin (x),app", "n2"), _selected("app,!nope", "n1", "n2", "n3"), _selected("app!=x,app", "n2"),
        listed(CONFIG_MAPS, 400, query={"labelSelector": "app in x"}, reason="BadRequest"),
        listed(CONFIG_MAPS, 400, query={"labelSelector": "app==not ok!"}, reason="BadRequest"),
    )),
    Case("field selectors", (
        *_PODS, _where("spec.nodeName=", "p1"), _where(f"spec.nodeName={NODE}", "p2"), _where("metadata.name=p1", "p1"),
        _where("metadata.name!=p1", "p2"), _where("status.phase=Pending,spec.nodeName!=", "p2"),
        _where("status.phase!=Pending"), listed(PODS, 400, query={"fieldSelector": "spec.oops=1"}, reason="BadRequest"),
        listed(WIDGETS, 400, query={"fieldSelector": "spec.size=1"}, reason="BadRequest"),
        listed(WIDGETS, query={"fieldSelector": "metadata.name=n"}, items=()),
    )),
    Case("pages", (
        *(create(WIDGETS, widget(f"n{number}")) for number in range(5)),
        listed(WIDGETS, query={"limit": 2}, items=("n0", "n1"), fields={"metadata.remainingItemCount": 3}),
        create(WIDGETS, widget("n9")), delete(WIDGETS, "n2"),
        listed(WIDGETS, query={"limit": 2, "continue": Ref("list/widgets", "metadata.continue")}, items=("n2", "n3"),
            fields={VERSION: Ref("list/widgets", VERSION)}),
        listed(WIDGETS, query={"limit": 2, "continue": Ref("list/widgets", "metadata.continue")}, items=("n4",)),
        listed(WIDGETS, query={"limit": 5}, items=("n0", "n1", "n3", "n4", "n9"), fields={"metadata.remainingItemCount": None}),
    )),
    Case("a version from the future", (
        listed(PODS, 504, query={"resourceVersion": "99999999"}, reason="Timeout", causes=("ResourceVersionTooLarge ",)),
        get(PODS, "n", 504, query={"resourceVersion": "99999999"}, reason="Timeout"),
    )),
    Case("exactly, and not older than, an old version", (
        create(WIDGETS, widget("n")), patch(WIDGETS, "n", {"spec": {"size": 2}}), create(WIDGETS, widget("m")),
        listed(WIDGETS, query={"resourceVersion": ref(WIDGETS, "n", VERSION, 1), "resourceVersionMatch": "Exact"}, items=("n",),
               fields={"items.0.spec.size": 1}),
        listed(WIDGETS, query={"resourceVersion": ref(WIDGETS, "n", VERSION, 1), "resourceVersionMatch": "NotOlderThan"},
            items=("m", "n")),
        get(WIDGETS, "n", query={"resourceVersion": ref(WIDGETS, "n", VERSION, 1)}, fields={"spec.size": 2}),
    )),
)  # fmt: skip
