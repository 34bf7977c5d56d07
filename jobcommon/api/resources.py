"""A pod's resource requests as the scheduler sums them over its containers, from a template.

Rule: Kubernetes' own (KEP-753, KEP-2837). A missing request is the limit; init containers run one after the other, so the
largest counts, beside those that stay as sidecars; the pod's own figures and its overhead come on top. Total: what cannot be
read counts as nothing, for the API server will refuse the pod with a better message.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from jobcommon.api.quantity import Quantity, parse_quantity
from jobcommon.api.template import mapping_of, mappings_in

Resources = Mapping[str, Quantity]


def pod_resources(template: Mapping[str, Any]) -> Resources:
    """The resources that a pod of this template requests."""
    spec = mapping_of(template.get("spec"))
    running = total(_requests(container) for container in mappings_in(spec.get("containers")))
    sidecars: dict[str, Quantity] = {}
    starting: dict[str, Quantity] = {}
    for container in mappings_in(spec.get("initContainers")):
        # Only of its own resources: a sum over all names for each container is quadratic. Sidecars run to the end, too.
        for name, amount in _requests(container).items():
            own = sidecars.get(name, Quantity()) + amount
            starting[name] = max(starting.get(name, Quantity()), own, key=_nanos)
            if container.get("restartPolicy") == "Always":
                sidecars[name] = own
    needed = _largest(total((running, sidecars)), starting)
    given = mapping_of(spec.get("resources"))
    limits = _read(given.get("limits"))
    # The pod's limit stands in where no container requests the resource, and always for huge pages: they are not overcommitted.
    pages = {name: amount for name, amount in limits.items() if name.startswith("hugepages-")}
    return total(({**limits, **needed, **pages, **_read(given.get("requests"))}, _read(spec.get("overhead"))))


def total(parts: Iterable[Resources]) -> dict[str, Quantity]:
    """The sum, resource by resource, in order of their names."""
    found: dict[str, Quantity] = {}
    for part in parts:
        for name, amount in part.items():
            found[name] = found.get(name, Quantity()) + amount
    return dict(sorted(found.items()))


def _largest(one: Resources, other: Resources) -> Resources:
    names = {**one, **other}
    return {name: max(one.get(name, Quantity()), other.get(name, Quantity()), key=_nanos) for name in names}


def _nanos(amount: Quantity) -> int:
    return amount.nanos


def _requests(container: Mapping[str, Any]) -> Resources:
    resources = mapping_of(container.get("resources"))
    return {**_read(resources.get("limits")), **_read(resources.get("requests"))}


def _read(amounts: object) -> Resources:
    found = {}
    for name, amount in mapping_of(amounts).items():
        try:
            found[str(name)] = parse_quantity(amount)
        except ValueError:
            continue
    return found
