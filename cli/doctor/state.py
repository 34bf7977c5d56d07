"""What was read of a cluster: the input of the checks. Objects are as the API server gives them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = Mapping[str, Any]
# The embedded cluster's version ends so. Its operators run inside it, with neither a Deployment nor a lease.
_EMBEDDED = "+localcluster"


@dataclass(frozen=True, slots=True)
class Right:
    """A right to one verb on one resource ("pods", or with a subresource "pods/exec")."""

    group: str
    resource: str
    verb: str


@dataclass(frozen=True, slots=True)
class Denied:
    """Rights that an operator lacks. `account` is its user, "" for the user who asks; `namespace` is "" for all namespaces."""

    account: str
    namespace: str
    rights: tuple[Right, ...]


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What could be read. `unread` says of the rest what it is and why it could not be read.

    `definitions` are by name, None for one that does not exist. `groups` are the API groups that are served. `kueue_denied` is
    what Kueue's ServiceAccount lacks to read our kinds.
    """

    version: str = ""
    groups: frozenset[str] = frozenset()
    definitions: Mapping[str, Json | None] = field(default_factory=dict)
    webhooks: Sequence[Json] = ()
    leases: Sequence[Json] = ()
    deployments: Sequence[Json] = ()
    batch_jobs: Sequence[Json] = ()
    kueue_configuration: Json | None = None
    kueue_denied: Denied | None = None
    denied: Sequence[Denied] = ()
    unread: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_embedded(self) -> bool:
        """Whether it is the embedded cluster, which has the definitions of the kinds that it runs."""
        return self.version.endswith(_EMBEDDED)

    @property
    def may_hide_operators(self) -> bool:
        """Whether an operator may run without a Deployment among those that were read."""
        return "Deployments" in self.unread or self.is_embedded


def names(found: Json) -> tuple[str, str]:
    """Namespace and name of an object."""
    metadata = found.get("metadata") or {}
    return str(metadata.get("namespace", "")), str(metadata.get("name", ""))
