"""``jobcommon rbac``: what the operators of some frameworks may do, as roles or as the values of a chart."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

from jobcommon.api.gang import GangScheduler
from jobcommon.api.kueue import OWN
from jobcommon.cli import rbac
from jobcommon.cli.rbac import Rule
from jobcommon.framework import Framework

Json = dict[str, Any]
API_VERSION = "rbac.authorization.k8s.io/v1"

LEASE = "jobcommon-operator"


def as_roles(
    frameworks: Sequence[Framework],
    namespaces: Sequence[str] = (),
    lease: str = LEASE,
    gangs: Sequence[GangScheduler] = (),
    *,
    kueue: str = "",
    lease_namespace: str = "",
) -> str:
    """The roles of one operator for `frameworks` and of users, as YAML; with namespaces Roles in each.

    `lease`, `lease_namespace`, `gangs` and `kueue` are what the operator is started with.
    """
    name = f"{frameworks[0].name}-operator" if len(frameworks) == 1 else "training-operators"
    queues, beyond = rbac.kueue_rules(kueue)
    # The versions of Kubernetes' own gangs have one group.
    own = dict.fromkeys((*rbac.operator_rules(frameworks), *(r for gang in gangs for r in rbac.gang_rules(gang)), *queues))
    wide = rbac.cluster_rules(frameworks)
    cluster = dict.fromkeys((*beyond, *((rbac.PRIORITIES,) if gangs else ()), *wide))
    # Of Kueue's ServiceAccount, not of the operator's.
    reads = rbac.kueue_reads(frameworks) if kueue == OWN or not namespaces else ()
    if namespaces:
        named = [(name, own), *((f"{name}-{who}", rules) for who, rules in _of_users(frameworks))]
        roles = [_role("Role", title, rules, namespace=one) for one in namespaces for title, rules in named]
        roles += [_role("ClusterRole", f"{name}-kueue", beyond)] if kueue else []
        roles += [_role("ClusterRole", f"{name}-cluster", wide)] if wide else []
    else:
        roles = [_role("ClusterRole", name, [*own, *cluster])]
        roles += [_role("ClusterRole", f"{name}-{who}", rules, _aggregated(who)) for who, rules in _of_users(frameworks)]
    roles += [_role("ClusterRole", f"{name}-kueue-reads", reads)] if reads else []
    # Where the operator itself is: an apply chooses the namespace.
    place = lease_namespace or next(iter(namespaces), None)
    roles.append(_role("Role", f"{name}-leader", rbac.lease_rules(lease), namespace=place))
    return "".join(f"---\n{_yaml(role)}" for role in roles)


def as_values(module: str, framework: Framework) -> str:
    """The value `framework` of the charts for the framework that `module` names, as in ``my_package:FRAMEWORK``."""
    users = {who: _as_json(rules) for who, rules in _of_users([framework])}
    rules = {"rules": _as_json(rbac.job_rules(framework)), **users}
    rules |= {"kueue": _as_json(rbac.kueue_reads([framework]))}
    rules |= {"cluster": _as_json(wide)} if (wide := rbac.cluster_rules([framework])) else {}
    return _yaml({"framework": {"module": module, **rules}})


def _of_users(frameworks: Iterable[Framework]) -> list[tuple[str, list[Rule]]]:
    known = list(frameworks)
    return [(who, [rule for f in known for rule in rbac.user_rules(f, edit=who == "edit")]) for who in ("view", "edit")]


def _aggregated(who: str) -> Mapping[str, str]:
    targets = ("edit", "admin") if who == "edit" else (who,)
    prefixes = ("rbac.authorization.k8s.io/aggregate-to-", "rbac.authorization.kubeflow.org/aggregate-to-kubeflow-")
    return {f"{prefix}{target}": "true" for prefix in prefixes for target in targets}


def _role(
    kind: str, name: str, rules: Iterable[Rule], labels: Mapping[str, str] | None = None, *, namespace: str | None = None
) -> Json:
    metadata: Json = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {**metadata, **({"labels": dict(labels)} if labels else {})},
        "rules": _as_json(rules),
    }


def _as_json(rules: Iterable[Rule]) -> list[Json]:
    return [rule.to_json() for rule in rules]


def _yaml(value: Json) -> str:
    return yaml.safe_dump(value, default_flow_style=None, sort_keys=False, width=120)
