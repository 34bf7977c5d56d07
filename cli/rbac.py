"""What the operators may do: their RBAC rules, as data.

The one source of the charts' roles. A test compares them with the rendered charts, another with what the operators were
seen to ask of an API server: neither a verb too many nor one too few, and no wildcard. The same rules are a ClusterRole's,
or with one watched namespace a Role's in it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from jobcommon.api.definition import Right, Watch
from jobcommon.api.gang import VOLCANO, GangScheduler
from jobcommon.api.kueue import CONFIGURATION, INTEGRATED, OWN, integration_of
from jobcommon.framework import CompanionKind, Feature, Framework, Options
from jobcommon.reconcile.features import features_of
from jobcommon.reconcile.gang import Gang
from jobcommon.reconcile.kueue import Queue

# What a cache needs, and the live read of an object whose name a create found taken.
_CACHED = ("get", "list", "watch")
# Keys are never decided twice, and an account has nothing that could differ.
_NEVER_CORRECTED = ("secrets", "serviceaccounts")
# The hosts file outlives the job's end, as its finished pods do.
_NEVER_DELETED = ("configmaps",)
# With these a job's pod gets rights of its own.
_GRANTING = ("roles", "rolebindings", "serviceaccounts")


@dataclass(frozen=True, slots=True, order=True)
class Rule:
    """Verbs on one resource ("pods", or with a subresource "pods/exec") of an API group; only on `names`, if there are any."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The rule in the form of a Role or ClusterRole."""
        rule: dict[str, Any] = {"apiGroups": [self.group], "resources": [self.resource], "verbs": list(self.verbs)}
        return {**rule, "resourceNames": list(self.names)} if self.names else rule


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


SHARED = (
    # The patch takes our finalizer off.
    Rule("", "pods", (*_CACHED, "create", "delete", "patch")),
    Rule("", "services", (*_CACHED, "create", "delete")),
    # keepFailedLogs: events that tell why a replica failed, and the ends of logs, in a ConfigMap of the job.
    Rule("", "events", ("create", "list", "patch")),
    Rule("", "pods/log", ("get",)),
    Rule("", "configmaps", ("create", "patch")),
)
"""What every operator does beside its own kind, in the namespaces of the jobs."""


def job_rules(framework: Framework, *, grants: bool = False) -> tuple[Rule, ...]:
    """What the framework's operator does to its jobs and to the further objects they need.

    With `grants` also to objects that give rights; without it jobs that need such ones are refused.
    """
    group, plural = framework.group, framework.plural
    return (
        # Deleted is a job whose time to live is over.
        Rule(group, plural, (*_CACHED, "delete", *(("patch",) if framework.corrections is not None else ()))),
        Rule(group, f"{plural}/status", ("update",)),
        # Where the admission plugin OwnerReferencesPermissionEnforcement is on, blockOwnerDeletion needs it.
        Rule(group, f"{plural}/finalizers", ("update",)),
        *_related_rules(framework, namespaced=True),
        *(_companion_rule(kind) for kind in framework.companion_kinds if grants or kind.plural not in _GRANTING),
        *feature_rules(features_of(framework), framework.options),
    )


def feature_rules(features: Iterable[type[Feature]], options: Options, *, namespaced: bool = True) -> tuple[Rule, ...]:
    """What features of jobs do in an operator with those options: in the namespaces of the jobs, or beyond them."""
    needed = (one for feature in features for one in feature.access(options) if one.namespaced == namespaced)
    return tuple(_rule(one) for one in needed)


def _rule(need: Watch | Right) -> Rule:
    if isinstance(need, Right):
        return Rule(_group(need.api_version), need.resource, need.verbs)
    read = _CACHED if need.owned else ("list", "watch")
    return Rule(_group(need.api_version), need.plural.partition(".")[0], (*read, *need.verbs))


def handed_on(framework: Framework) -> tuple[Rule, ...]:
    """Rights it never uses, but must hold: an API server refuses a Role that grants more than its writer has.

    A framework that writes Roles does so to let a job's launcher run commands in the job's own workers.
    """
    writes_roles = any(kind.plural == "roles" for kind in framework.companion_kinds)
    return (Rule("", "pods/exec", ("create", "get")),) if writes_roles else ()


def gang_rules(scheduler: GangScheduler) -> tuple[Rule, ...]:
    """What gang scheduling adds in the namespaces of the jobs."""
    return feature_rules((Gang,), Options(gang=scheduler))


def cluster_rules(frameworks: Iterable[Framework]) -> tuple[Rule, ...]:
    """What the operators read beyond namespaces: objects that jobs refer to, and the lease, in whatever namespace, of another
    controller of the kind.
    """
    known = list(frameworks)
    leases = (Rule("coordination.k8s.io", "leases", ("list",), (one.rival,)) for one in known if one.rival)
    read = (rule for one in known for rule in _related_rules(one, namespaced=False))
    features = (rule for one in known for rule in feature_rules(features_of(one), one.options, namespaced=False))
    return (*read, *leases, *features)


def _related_rules(framework: Framework, *, namespaced: bool) -> Iterable[Rule]:
    kinds = (kind for kind in framework.related if kind.namespaced is namespaced)
    return (Rule(_group(kind.api_version), kind.plural, ("list", "watch")) for kind in kinds)


(PRIORITIES,) = feature_rules((Gang,), Options(gang=VOLCANO), namespaced=False)
"""What gang scheduling adds beyond namespaces: it reads priorities."""

KUEUE = feature_rules((Queue,), Options(kueue=True))
"""What ``--kueue own`` adds in the namespaces of the jobs."""

KUEUE_CLUSTER = (
    *feature_rules((Queue,), Options(kueue=True), namespaced=False),
    Rule("", "configmaps", ("get",), (CONFIGURATION,)),
)
"""What ``--kueue own`` adds beyond namespaces: it reads flavors, priorities, and which kinds Kueue queues itself."""


def kueue_rules(how: str) -> tuple[tuple[Rule, ...], tuple[Rule, ...]]:
    """What ``--kueue`` with that value adds, in the namespaces of the jobs and beyond them."""
    return (KUEUE, KUEUE_CLUSTER) if how == OWN else ((), ())


def kueue_reads(frameworks: Iterable[Framework]) -> tuple[Rule, ...]:
    """What Kueue's own ServiceAccount needs of the kinds that its role lacks. Facts: Kueue 0.19.

    Its webhook for pods gets the owner of each pod whose kind its configuration names, in `externalFrameworks` too, through a
    cache that lists and watches (`FindAncestorJobManagedByKueue` in pkg/controller/jobframework/reconciler.go): without these
    rights each create of a pod ends with 500. MultiKueue patches the status of a job that runs elsewhere (externalframeworks).
    """
    lacking = [f for f in frameworks if not f.queued_by_kueue and integration_of(f.api_version, f.kind) not in INTEGRATED]
    return tuple(
        rule
        for f in lacking
        for rule in (Rule(f.group, f.plural, _CACHED), Rule(f.group, f"{f.plural}/status", ("get", "patch")))
    )


def lease_rules(name: str) -> tuple[Rule, ...]:
    """Leader election, in the operator's own namespace. A create cannot be limited to a name: it is not known yet."""
    group = "coordination.k8s.io"
    return (Rule(group, "leases", ("create",)), Rule(group, "leases", ("get", "update"), (name,)))


def user_rules(framework: Framework, *, edit: bool) -> tuple[Rule, ...]:
    """Aggregated rules for the built-in roles view and edit. Users do not write statuses.

    A user who may create jobs can run pods as any ServiceAccount of the namespace, as can a user who edits workloads.
    """
    group, plural = framework.group, framework.plural
    write = ("create", "delete", "deletecollection", "patch", "update")
    related = tuple(
        Rule(_group(kind.api_version), kind.plural, (*_CACHED, *(write if edit and kind.namespaced else ())))
        for kind in framework.related
    )
    read = (Rule(group, plural, _CACHED), Rule(group, f"{plural}/status", ("get",)), *related)
    if not edit:
        return read
    scale = (Rule(group, f"{plural}/scale", ("get", "patch", "update")),) if framework.scale else ()
    return (Rule(group, plural, (*_CACHED, *write)), *read[1:], *scale)


def operator_rules(frameworks: Iterable[Framework], *, grants: bool = False) -> tuple[Rule, ...]:
    """All of what the operators of `frameworks` hold in the namespaces of the jobs, without gang scheduling."""
    own = (rule for f in frameworks for rule in (*job_rules(f, grants=grants), *(handed_on(f) if grants else ())))
    return (*SHARED, *own)


def _companion_rule(kind: CompanionKind) -> Rule:
    verbs = [*(_CACHED if kind.watched else ("get",)), "create"]
    if kind.plural not in _NEVER_DELETED:
        verbs.append("delete")
    if kind.plural not in _NEVER_CORRECTED:
        verbs.append("patch")
    return Rule(_group(kind.api_version), kind.plural, tuple(verbs))
