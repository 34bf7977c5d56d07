"""Objects with a pod template: deployments, replica sets, stateful sets, daemon sets and replication controllers."""

from collections.abc import Callable, Sequence
from typing import Any

from localcluster.apiserver.errors import Cause, forbidden, invalid, not_supported, required
from localcluster.apiserver.kinds import volumes
from localcluster.apiserver.kinds.pods import default_spec, validate_spec
from localcluster.apiserver.kinds.scheduling import selector_check
from localcluster.apiserver.kinds.tables import (
    Rules,
    amount,
    at_least,
    defaults,
    each_at,
    filled,
    frozen,
    immutable,
    in_turn,
    keep_filled,
    named,
    needed,
    number,
    one_of,
    rules,
    share,
    status_of,
    under,
)
from localcluster.apiserver.names import check_annotations, check_labels, dns1123_label
from localcluster.apiserver.resource import Strategy
from localcluster.apiserver.selectors import from_object

Obj = dict[str, Any]

#: Counts the changes of a daemon set's template, in an annotation that the real server keeps for old clients.
_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def default_template(holder: Obj) -> None:
    """The template inside `holder`, with the defaults of its pods."""
    template = holder.setdefault("template", {})
    template.setdefault("metadata", {})
    default_spec(template.setdefault("spec", {}))


def validate_template(template: Obj, path: str) -> list[Cause]:
    """The labels, annotations and spec of the pods to be."""
    meta = template["metadata"]
    causes = check_labels(meta.get("labels") or {}, f"{path}.labels")
    causes += check_annotations(meta.get("annotations") or {}, f"{path}.annotations")
    return causes + validate_spec(template["spec"], f"{path}.spec")


def _default_template(obj: Obj) -> None:
    default_template(obj["spec"])


def _lasting_pods(kind: str, template: Callable[[Obj], Obj] = lambda spec: dict(spec["template"])) -> Rules:
    """The rules of a template whose pods are replaced when they end."""

    def validate(obj: Obj) -> list[Cause]:
        shown = template(obj["spec"])
        spec = shown["spec"]
        causes = validate_template(shown, "spec.template")
        if spec["restartPolicy"] != "Always":
            causes.append(not_supported("spec.template.spec.restartPolicy", spec["restartPolicy"], ["Always"]))
        if "activeDeadlineSeconds" in spec:
            detail = f"activeDeadlineSeconds in {kind} is not Supported"
            causes.append(forbidden("spec.template.spec.activeDeadlineSeconds", detail))
        return causes

    return validate


def _selects_template(kind: str) -> Rules:
    """A selector that is there, is not empty, and matches the template's labels."""

    def validate(obj: Obj) -> list[Cause]:
        spec = obj["spec"]
        given = spec.get("selector")
        selector = from_object(given)
        if selector is None:
            # An absent one matches nothing; only for a daemon set is its absence no error of its own.
            return [*([required("spec.selector")] if kind != "daemonset" else ()), _unmatched(spec)]
        causes = list(selector_check("spec.selector", given, spec))
        if causes and kind != "daemonset":
            causes.append(invalid("spec.selector", given, "invalid label selector"))
        if not given:
            causes.append(invalid("spec.selector", {}, f"empty selector is invalid for {kind}"))
        elif not causes and not selector.matches(spec["template"]["metadata"].get("labels") or {}):
            causes.append(_unmatched(spec))
        return causes

    return validate


def _unmatched(spec: Obj) -> Cause:
    labels = spec["template"]["metadata"].get("labels") or {}
    return invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")


_COUNTS = each_at(at_least(0), "spec.replicas", "spec.minReadySeconds", "spec.revisionHistoryLimit")


def _strategy(status: Obj, *steps: Callable[[Obj], None], **more: Any) -> Strategy:
    return Strategy(
        default=in_turn(*steps, _default_template),
        **status_of(*filled("status", **status)),
        **{"validate_update": immutable("spec.selector"), **more},
    )


# Deployments

_ROLLING = {"type": "RollingUpdate"}


def _deployment_rollout(obj: Obj) -> Sequence[Cause]:
    spec = obj["spec"]
    strategy = spec["strategy"]
    rolling = strategy.get("rollingUpdate")
    causes = []
    if strategy["type"] not in ("Recreate", "RollingUpdate"):
        causes.append(not_supported("spec.strategy", strategy, ["Recreate", "RollingUpdate"]))
    elif strategy["type"] == "Recreate" and rolling is not None:
        detail = "may not be specified when strategy `type` is 'Recreate'"
        causes.append(forbidden("spec.strategy.rollingUpdate", detail))
    elif rolling is not None and number(rolling["maxUnavailable"]) == 0 and number(rolling["maxSurge"]) == 0:
        detail = "may not be 0 when `maxSurge` is 0"
        causes.append(invalid("spec.strategy.rollingUpdate.maxUnavailable", rolling["maxUnavailable"], detail))
    if 0 <= spec["progressDeadlineSeconds"] <= spec.get("minReadySeconds", 0):
        detail = "must be greater than minReadySeconds"
        causes.append(invalid("spec.progressDeadlineSeconds", spec["progressDeadlineSeconds"], detail))
    return causes


DEPLOYMENT = _strategy(
    {},
    defaults(
        *filled("spec", replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600),
        *filled("spec.strategy", type="RollingUpdate"),
        ("spec.strategy.rollingUpdate", {}, _ROLLING),
        *under("spec.strategy.rollingUpdate", maxUnavailable="25%", maxSurge="25%"),
    ),
    validate=rules(
        *_COUNTS,
        ("spec.progressDeadlineSeconds", at_least(0)),
        ("spec.strategy.rollingUpdate.maxUnavailable", share),
        ("spec.strategy.rollingUpdate.maxSurge", amount),
        _deployment_rollout,
        _selects_template("deployment"),
        _lasting_pods("ReplicaSet"),
    ),
)

# Replica sets and replication controllers


def _default_labels(obj: Obj) -> None:
    labels = ((obj["spec"].get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        if not obj["spec"].get("selector"):
            obj["spec"]["selector"] = dict(labels)
        if not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)


def _selects_by_labels(obj: Obj) -> Sequence[Cause]:
    spec = obj["spec"]
    selector = spec.get("selector") or {}
    if not selector:
        return [required("spec.selector")]
    labels = spec["template"]["metadata"].get("labels") or {}
    return [] if selector.items() <= labels.items() else [_unmatched(spec)]


REPLICA_SET = _strategy(
    {"replicas": 0},
    defaults(*filled("spec", replicas=1)),
    validate=rules(*_COUNTS, _selects_template("deployment"), _lasting_pods("ReplicaSet")),
)
REPLICATION_CONTROLLER = _strategy(
    {"replicas": 0},
    defaults(*filled("spec", replicas=1)),
    _default_labels,
    validate=rules(*_COUNTS, _selects_by_labels, _lasting_pods("ReplicationController")),
    validate_update=lambda _new, _old: [],
)
POD_TEMPLATE = Strategy(default=default_template, validate=lambda obj: validate_template(obj["template"], "template"))

REVISION = Strategy(
    default=defaults(("revision", 0)),
    validate=rules(("revision", at_least(0)), ("data", needed("data is mandatory"))),
    validate_update=immutable("data"),
)

# Stateful sets


def _default_claims(obj: Obj) -> None:
    for claim in obj["spec"].get("volumeClaimTemplates") or ():
        claim.update(apiVersion="v1", kind="PersistentVolumeClaim")
        claim.setdefault("metadata", {})
        volumes.default_claim(claim)
        claim["status"] = {"phase": "Pending"}


def _with_claims(spec: Obj) -> Obj:
    """The template as the controller uses it: each claim is a volume, and names are the controller's."""
    claims = [claim["metadata"].get("name", "") for claim in spec.get("volumeClaimTemplates") or ()]
    pod = {key: value for key, value in spec["template"]["spec"].items() if key not in ("hostname", "subdomain")}
    others = [volume for volume in pod.get("volumes") or () if volume.get("name") not in claims]
    made = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in dict.fromkeys(claims)]
    return {**spec["template"], "spec": {**pod, "volumes": [*made, *others]}}


def _stateful_rollout(obj: Obj) -> Sequence[Cause]:
    spec = obj["spec"]
    causes = []
    policy, strategy = spec["podManagementPolicy"], spec["updateStrategy"]
    if policy not in ("OrderedReady", "Parallel"):
        causes.append(invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'"))
    if strategy["type"] not in ("RollingUpdate", "OnDelete"):
        causes.append(invalid("spec.updateStrategy", strategy, "must be 'RollingUpdate' or 'OnDelete'"))
    elif strategy["type"] == "OnDelete" and "rollingUpdate" in strategy:
        detail = "only allowed for updateStrategy 'RollingUpdate'"
        causes.append(invalid("spec.updateStrategy.rollingUpdate", strategy["rollingUpdate"], detail))
    elif number((strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1)) == 0:
        causes.append(invalid("spec.updateStrategy.rollingUpdate.maxUnavailable", 0, "cannot be 0"))
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        causes += volumes.validate_claim(claim, f"spec.volumeClaimTemplates[{index}].")
    return causes


_RETENTION = "spec.persistentVolumeClaimRetentionPolicy"
STATEFUL_SET = _strategy(
    {"replicas": 0, "availableReplicas": 0},
    defaults(
        *filled("spec", replicas=1, podManagementPolicy="OrderedReady", revisionHistoryLimit=10, serviceName=""),
        ("spec.updateStrategy", {"type": "RollingUpdate", "rollingUpdate": {}}),
        ("spec.updateStrategy.rollingUpdate", {}, {"type": None}),
        ("spec.updateStrategy.type", "RollingUpdate"),
        ("spec.updateStrategy.rollingUpdate.partition", 0),
        *filled(_RETENTION, whenDeleted="Retain", whenScaled="Retain"),
    ),
    _default_claims,
    validate=rules(
        *_COUNTS[:2],
        ("spec.ordinals.start", at_least(0)),
        ("spec.serviceName", named(dns1123_label)),
        ("spec.updateStrategy.rollingUpdate.partition", at_least(0)),
        ("spec.updateStrategy.rollingUpdate.maxUnavailable", share),
        *each_at(one_of("Retain", "Delete"), f"{_RETENTION}.whenDeleted", f"{_RETENTION}.whenScaled"),
        _stateful_rollout,
        _selects_template("statefulset"),
        _lasting_pods("StatefulSet", _with_claims),
    ),
    validate_update=frozen(
        "spec",
        (
            "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit", "minReadySeconds",
            "persistentVolumeClaimRetentionPolicy",
        ),
        "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
        "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
    ),
    validate_name=dns1123_label,
)  # fmt: skip

# Daemon sets


def _template_generation(obj: Obj) -> int:
    return int((obj["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION) or 0)


def _count_template(obj: Obj, count: int) -> None:
    annotations = obj["metadata"].get("annotations") or {}
    obj["metadata"]["annotations"] = {**annotations, _TEMPLATE_GENERATION: str(count)}


def _daemon_set_created(obj: Obj) -> None:
    _daemon_status(obj)
    _count_template(obj, max(_template_generation(obj), 1))


def _daemon_set_updated(new: Obj, old: Obj) -> None:
    keep_filled(_daemon_status)(new, old)
    default_template(new["spec"])
    _count_template(new, _template_generation(old) + (new["spec"]["template"] != old["spec"]["template"]))


def _daemon_rollout(obj: Obj) -> Sequence[Cause]:
    strategy = obj["spec"]["updateStrategy"]
    if strategy["type"] not in ("RollingUpdate", "OnDelete"):
        return [not_supported("spec.updateStrategy", strategy, ["RollingUpdate", "OnDelete"])]
    rolling = strategy.get("rollingUpdate")
    if rolling is None or strategy["type"] == "OnDelete":
        return []
    path = "spec.updateStrategy.rollingUpdate"
    away, extra = rolling["maxUnavailable"], rolling["maxSurge"]
    causes = [*share(f"{path}.maxUnavailable", away, rolling), *share(f"{path}.maxSurge", extra, rolling)]
    if number(away) and number(extra):
        causes.append(invalid(f"{path}.maxSurge", extra, "may not be set when maxUnavailable is non-zero"))
    elif not number(away) and not number(extra):
        causes.append(required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return causes


_daemon_status = defaults(
    *filled("status", currentNumberScheduled=0, numberMisscheduled=0, desiredNumberScheduled=0, numberReady=0)
)
DAEMON_SET = Strategy(
    default=in_turn(
        defaults(
            *filled("spec", revisionHistoryLimit=10),
            *filled("spec.updateStrategy", type="RollingUpdate"),
            ("spec.updateStrategy.rollingUpdate", {}, _ROLLING),
            *under("spec.updateStrategy.rollingUpdate", maxUnavailable=1, maxSurge=0),
        ),
        _default_template,
        lambda obj: _count_template(obj, _template_generation(obj)),
    ),
    on_create=_daemon_set_created,
    on_update=_daemon_set_updated,
    validate=rules(*_COUNTS[1:], _daemon_rollout, _selects_template("daemonset"), _lasting_pods("DaemonSet")),
    validate_update=immutable("spec.selector"),
)
