"""Workloads: deployments, replica sets, stateful sets and daemon sets, as far as storing them goes."""

from collections.abc import Sequence
from typing import Any

from jobcommon.localcluster.apiserver.errors import Cause, invalid, required
from jobcommon.localcluster.apiserver.kinds.pods import default_spec, validate_spec
from jobcommon.localcluster.apiserver.selectors import from_object

Obj = dict[str, Any]


def default(obj: Obj) -> None:
    """One replica, and the defaults of the pod template."""
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    default_spec(template.setdefault("spec", {}))


def validate(obj: Obj) -> Sequence[Cause]:
    """A selector that matches the template's labels, and a valid template."""
    spec = obj["spec"]
    causes: list[Cause] = []
    if spec["replicas"] < 0:
        causes.append(invalid("spec.replicas", spec["replicas"], "must be greater than or equal to 0"))
    selector = from_object(spec.get("selector"))
    labels = spec["template"]["metadata"].get("labels") or {}
    if selector is None:
        causes.append(required("spec.selector"))
    elif not selector.requirements:
        causes.append(invalid("spec.selector", {}, "empty selector is invalid for deployment"))
    elif not selector.matches(labels):
        causes.append(invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`"))
    return causes + validate_spec(spec["template"]["spec"], "spec.template.spec")


def validate_update(new: Obj, old: Obj) -> Sequence[Cause]:
    """The selector is fixed: it says which pods are one's own."""
    if new["spec"].get("selector") != old["spec"].get("selector"):
        return [invalid("spec.selector", new["spec"].get("selector"), "field is immutable")]
    return []
