"""The objects that a job needs beside its pods and Services."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple


class CompanionKind(NamedTuple):
    """A kind of companions.

    Those that are not `watched` are asked for one by one, by name: whoever may list or watch Secrets may read all of them.
    Of a kind that is not `required` the API server need not have any, nor let us see them: jobs go on without.
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
    the object must not be there. `owned_fields` names the top-level fields that are put right when they differ.
    A companion whose failure must not hold up the job (an autoscaler) is not `required`. `generate` gives what must not be
    decided twice, such as a key: it is called once when the object is created, and its fields are added to the manifest. It is
    created once the companion `after`, a plural and a name, is there and is the job's.
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
