"""What a framework says of its kind: versions, rules, the scale subresource, and the objects a job needs beside its pods."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple


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


@dataclass(frozen=True, slots=True)
class Definition:
    """The schema of a kind whose spec is not that of `JobSpec` with replica specs.

    `document` gives `about`, a description, and the schema of the `spec`, in which ``x-jobcommon-pod-part`` stands for that of
    a part of a pod template, and a `runPolicy` has the fields of every kind's. `status` is the schema of the fields beside
    those of our record, whose conditions stand in `jobConditions`; a kind without it has no status. `rules` are of the whole.
    """

    document: Callable[[], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class RelatedKind:
    """A kind of objects that users write and jobs refer to, such as templates. All of them are watched.

    `definition` is the schema of its CustomResourceDefinition, where that comes with the operator.
    """

    api_version: str
    kind: str
    plural: str
    namespaced: bool = True
    definition: Definition | None = None


@dataclass(frozen=True, slots=True)
class Watch:
    """A kind of objects that an optional feature reads or writes. They are cached, and `verbs` are what it does beside reading.

    `owned`: those that the operator made for its jobs, which stand in `Observed.companions`; with `adopted` also what others
    have made for a job and labelled with its name. Others, as `selector` selects them, are in `Observed.cluster`: of a
    `namespaced` kind, those of the job's namespace; a change of one queues the jobs there. After an answer with a code in
    `optional` jobs go on without them: then `Observed.missing` has the words `unserved`, or `forbidden`.
    """

    api_version: str
    plural: str
    verbs: tuple[str, ...] = ()
    selector: str = ""
    namespaced: bool = True
    owned: bool = False
    adopted: bool = False
    optional: tuple[int, ...] = (403, 404)
    unserved: str = "it is not served in this cluster"
    forbidden: str = "the operator may not list it"


class Right(NamedTuple):
    """What an optional feature does beside what it watches: verbs on a resource, or on a subresource ("pods/exec")."""

    api_version: str
    resource: str
    verbs: tuple[str, ...]
    namespaced: bool = True


class CompanionKind(NamedTuple):
    """A kind of companions.

    Those that are not `watched` are read one by one, by name: permission to list or watch Secrets would allow reading all.
    A kind that is not `required` need neither be served nor readable: jobs continue without it.
    """

    api_version: str
    kind: str
    plural: str
    watched: bool = True
    required: bool = True


class ObjectKey(NamedTuple):
    """An object that jobs are read with: the plural of its kind, its namespace ("" without one) and its name."""

    plural: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Companion:
    """An object that a job needs beside its pods and Service (a ConfigMap, a HorizontalPodAutoscaler, a Role, …).

    `manifest` is the wanted object without our labels and owner reference, which the controller adds; None means that
    the object must not exist. `owned_fields` names the top-level fields that are corrected when they differ.
    A companion whose failure must not block the job (an autoscaler) is not `required`. `generate` returns random fields, like
    a key: it is called once, when the object is created, and its fields are added to the manifest. The object is created after
    the companion `after` (plural and name) exists and is owned by the job. One that is `kept` outlives the job, and is taken
    over by the next one of that name: no job owns it, and it is never corrected or deleted.
    """

    api_version: str
    kind: str
    plural: str
    name: str
    manifest: Mapping[str, Any] | None
    owned_fields: tuple[str, ...] = ("spec",)
    required: bool = True
    generate: Callable[[], Mapping[str, Any]] | None = None
    after: tuple[str, str] | None = None
    kept: bool = False
