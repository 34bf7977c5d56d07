"""Kubernetes quantities (``500m``, ``64Gi``, ``1e3``) as exact numbers, and a pod's requests as the scheduler sums them."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from jobcommon.api.template import mapping_of, mappings_in

#: The advice after text that is not a quantity.
ADVICE = "write a number, with a suffix such as m, k, M, G, Ki, Mi or Gi if needed"
#: What a definition says of one.
PATTERN = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]+))?$"
_NANO = 10**9
_LIMIT = (2**63 - 1) * _NANO
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SHAPE = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?(?:([KMGTPE]i)|[eE]([+-]?\d+)|([numkMGTPE]))?", re.ASCII)
_MAX_LENGTH = 256
# With larger exponents a number of that length is over the bound, with smaller ones it is rounded to one billionth.
_ENOUGH = _MAX_LENGTH + 32


@dataclass(frozen=True, slots=True)
class Quantity:
    """An amount of a resource, in billionths. `binary`: it is written with Ki, Mi, … where that is exact."""

    nanos: int = 0
    binary: bool = False

    def __add__(self, other: "Quantity") -> "Quantity":
        """The sum, written as the first summand that is not zero."""
        return Quantity(_bounded(self.nanos + other.nanos), self.binary if self.nanos else other.binary)

    def __mul__(self, count: int) -> "Quantity":
        return Quantity(_bounded(self.nanos * count), self.binary)

    def __str__(self) -> str:
        """The canonical form: no fraction, and the largest suffix with which that goes."""
        whole, fraction = divmod(self.nanos, _NANO)
        if self.binary and not fraction and abs(whole) >= 1024:
            power = max((p for p in _BINARY.values() if whole % 1024**p == 0), default=0)
            suffix = next((s for s, p in _BINARY.items() if p == power), "")
            return f"{whole // 1024**power}{suffix}"
        if not self.nanos:
            return "0"
        suffix, exponent = max(
            ((s, e) for s, e in _DECIMAL.items() if self.nanos % 10 ** (e + 9) == 0), key=lambda pair: pair[1]
        )
        return f"{self.nanos // 10 ** (exponent + 9)}{suffix}"


def parse_quantity(value: object) -> Quantity:
    """The quantity in a manifest: text, or a number. Raises ValueError if it is not a quantity."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(_advice(value))
    text = str(value)
    match = _SHAPE.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if match is None or not (match[2] or match[3]):
        raise ValueError(_advice(value))
    sign, whole, fraction, binary, exponent, suffix = match.groups(default="")
    digits = int((whole + fraction).lstrip("0") or "0")
    if binary:
        numerator, denominator = digits * 1024 ** _BINARY[binary] * _NANO, 10 ** len(fraction)
    else:
        power = min(max(int(exponent), -_ENOUGH), _ENOUGH) if exponent else _DECIMAL[suffix]
        power += 9 - len(fraction)
        numerator, denominator = digits * 10 ** max(power, 0), 10 ** max(-power, 0)
    nanos = _bounded(-(-numerator // denominator))
    return Quantity(-nanos if sign == "-" else nanos, bool(binary))


def _bounded(nanos: int) -> int:
    return min(max(nanos, -_LIMIT), _LIMIT)


def _advice(value: object) -> str:
    return f"{str(value)[:40]!r} is not a quantity; {ADVICE}"


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
