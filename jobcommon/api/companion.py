"""The objects that a job needs beside its pods and Services."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple


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


@dataclass(frozen=True, slots=True)
class Companion:
    """An object that a job needs beside its pods and Service (a ConfigMap, a HorizontalPodAutoscaler, a Role, …).

    `manifest` is the wanted object without our labels and owner reference, which the controller adds; None means that
    the object must not exist. `owned_fields` names the top-level fields that are corrected when they differ.
    A companion whose failure must not block the job (an autoscaler) is not `required`. `generate` returns random fields, like
    a key: it is called once, when the object is created, and its fields are added to the manifest. The object is created after
    the companion `after` (plural and name) exists and is owned by the job.
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
