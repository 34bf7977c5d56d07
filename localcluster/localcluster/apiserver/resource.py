"""What the server knows about one resource in one version: its names, verbs and rules.

A `Resource` is a frozen value; the rules that differ between kinds are the pure functions of its `Strategy`. Built-in
resources are the table in `builtin`, custom ones are made from their CustomResourceDefinition by `custom`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from localcluster.apiserver import builtin_schemas
from localcluster.apiserver.errors import Cause
from localcluster.apiserver.schema import CompiledSchema
from localcluster.apiserver.selectors import FieldGetter
from localcluster.apiserver.selectors import field as field_getter

Obj = dict[str, Any]

ALL_VERBS = ("create", "delete", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Strategy:
    """The rules of one kind. Functions that change an object work on a private copy, in place.

    `default` fills fields in on create and update; `on_create` sets what only a new object gets (initial status);
    `on_update` carries over or resets fields that an update may not touch; `validate` and `validate_update` report broken
    fields (the latter what may not change, `validate_new` what only a new object may not have).
    """

    default: Callable[[Obj], None] = lambda _: None
    on_create: Callable[[Obj], None] = lambda _: None
    on_update: Callable[[Obj, Obj], None] = lambda _new, _old: None
    validate: Callable[[Obj], Sequence[Cause]] = lambda _: ()
    validate_new: Callable[[Obj], Sequence[Cause]] = lambda _: ()
    validate_update: Callable[[Obj, Obj], Sequence[Cause]] = lambda _new, _old: ()
    validate_name: Callable[[str], Sequence[str]] | None = None


@dataclass(frozen=True, slots=True)
class Scale:
    """Where the scale subresource finds its numbers, as dotted paths without a leading dot."""

    replicas: str
    status_replicas: str
    selector: str = ""


@dataclass(frozen=True)
class Resource:
    """One resource in one version. `table` is where its objects are stored (shared by all versions of a resource)."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    status: bool = False
    #: Whether a new object has the status that it was sent with.
    keeps_status: bool = False
    scale: Scale | None = None
    #: Subresources beyond status and scale, with their verbs.
    subresources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    table: str = ""
    list_kind: str = ""
    #: Whether metadata.generation counts changes of the desired state.
    generation: bool = False
    unconditional_update: bool = True
    #: Whether DELETE answers with the object it deleted rather than with a Status.
    returns_deleted: bool = False
    strategy: Strategy = field(default_factory=Strategy)
    fields: Mapping[str, FieldGetter] = field(default_factory=dict)
    schema: CompiledSchema | None = None
    #: The entry of spec.versions of a custom resource.
    crd_version: Mapping[str, Any] | None = None
    #: A warning sent with every response of a deprecated version.
    deprecation: str = ""
    #: A warning sent when an object is made.
    creation_warning: str = ""

    @property
    def custom(self) -> bool:
        """Whether a CustomResourceDefinition serves it."""
        return self.crd_version is not None

    @cached_property
    def node(self) -> Obj:
        """The schema by which lists merge; an empty one for a kind without."""
        if self.schema is not None:
            return self.schema.node
        return builtin_schemas.root(*self.gvk) or {}

    @cached_property
    def api_version(self) -> str:
        """``group/version``, or the version alone for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def type_fields(self) -> dict[str, str]:
        """What an object of this version says that it is."""
        return {"apiVersion": self.api_version, "kind": self.kind}

    @cached_property
    def gvk(self) -> tuple[str, str, str]:
        """Group, version and kind."""
        return self.group, self.version, self.kind

    @cached_property
    def storage_key(self) -> str:
        """The name of the table."""
        return self.table or (f"{self.plural}.{self.group}" if self.group else self.plural)

    @cached_property
    def head(self) -> bytes:
        """The opening of an encoded object, up to its first own field."""
        return f'{{"kind":"{self.kind}","apiVersion":"{self.api_version}",'.encode()

    @cached_property
    def list_name(self) -> str:
        """The kind of a list."""
        return self.list_kind or f"{self.kind}List"

    @cached_property
    def singular_name(self) -> str:
        """What kubectl accepts and prints for one object."""
        return self.singular or self.kind.lower()

    @cached_property
    def selectable(self) -> Mapping[str, FieldGetter]:
        """The fields a field selector may name."""
        common = {"metadata.name": field_getter("metadata.name")}
        if self.namespaced:
            common["metadata.namespace"] = field_getter("metadata.namespace")
        return {**common, **self.fields}

    def typed(self, obj: Obj) -> Obj:
        """A stored object as this version shows it."""
        return {**self.type_fields, **obj}

    def bare(self, obj: Obj) -> Obj:
        """The stored form of an object of this version."""
        return {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}


def field_table(*paths: str) -> dict[str, FieldGetter]:
    """Field getters by their own paths."""
    return {path: field_getter(path) for path in paths}
