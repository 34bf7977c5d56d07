"""A framework's input to the CRD of its kind: versions, rules, the scale subresource."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True, slots=True)
class Version:
    """One served version of the kind. Exactly one is stored.

    `defaults` are fields of the spec that mean something of its own in this version when absent. They are defaults in the
    CRD, so that an object keeps them when it is read in another version.
    """

    name: str
    storage: bool = False
    defaults: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class CelRule:
    """A rule for the CRD, checked by the API server: a CEL expression over the object at `path` of the schema.

    `path` is () for the whole object, else the property names down to it. A rule on a property is not asked again while that
    has not changed (Kubernetes 1.30 and later), so each stands as deep as it can. With `optional_old` the rule is asked on
    creation, too, and `oldSelf` is an optional; before 1.30 it is asked on updates only, so it must read as an object as well:
    `oldSelf.?field`.
    """

    rule: str
    message: str
    path: tuple[str, ...] = ()
    field_path: str | None = None
    optional_old: bool = False


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """The scale subresource: the paths of the wanted and the actual number of replicas and of the selector."""

    spec: str
    status: str
    selector: str

    @classmethod
    def of_type(cls, replica_specs: str, kind: str = "Worker") -> "ScalePaths":
        """Those of a replica type, the workers as a rule; `replica_specs` is the spec's field."""
        counts = f".status.replicaStatuses.{kind}"
        return cls(f".spec.{replica_specs}.{kind}.replicas", f"{counts}.active", f"{counts}.selector")
