"""Jobs and cron jobs of batch/v1."""

import re
import zoneinfo
from collections.abc import Sequence
from functools import cache
from typing import Any

from localcluster.apiserver.errors import Cause, invalid, not_chosen, not_supported, required
from localcluster.apiserver.kinds import schedules
from localcluster.apiserver.kinds.apps import default_template, validate_template
from localcluster.apiserver.kinds.scheduling import selector_check
from localcluster.apiserver.kinds.tables import (
    Rules,
    at_least,
    defaults,
    each_at,
    filled,
    given,
    immutable,
    in_turn,
    keep_filled,
    one_of,
    rules,
    status_of,
    under,
)
from localcluster.apiserver.names import check, dns1123_label, qualified_name
from localcluster.apiserver.resource import Strategy
from localcluster.apiserver.selectors import from_object

Obj = dict[str, Any]

_UID_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid")
_NAME_LABELS = ("job-name", "batch.kubernetes.io/job-name")
_INDEXED = "Indexed"
_MOST_INDEXED = 100_000
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_CRON_NAME_LIMIT = 52

# Jobs; the paths of a job's spec are given below `spec` or, in a cron job, below `spec.jobTemplate.spec`.


def _default_job(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    default_template(spec)
    labels = spec["template"]["metadata"].get("labels")
    meta = obj.setdefault("metadata", {})
    if labels and not meta.get("labels"):
        # The same map, not a copy: what `_job_created` adds to the template's labels, the job has as well.
        meta["labels"] = labels
    spec.setdefault("backoffLimit", 2**31 - 1 if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    _job_defaults(obj)


_job_defaults = defaults(
    *under("spec", parallelism=1, completionMode="NonIndexed", suspend=False, manualSelector=False),
    ("spec.podFailurePolicy.rules[].onPodConditions[].status", "True"),
)
_job_status = defaults(("status", {}))


def _own_labels(meta: Obj) -> dict[str, str]:
    return dict.fromkeys(_NAME_LABELS, meta.get("name") or "") | dict.fromkeys(_UID_LABELS, str(meta["uid"]))


def _job_created(obj: Obj) -> None:
    """The pods of a job are found by labels with its uid, unless it says otherwise."""
    _job_status(obj)
    spec, meta = obj["spec"], obj["metadata"]
    if spec["manualSelector"]:
        return
    own = _own_labels(meta)
    template = spec["template"]["metadata"]
    template.setdefault("labels", {})
    template["labels"] |= own | template["labels"]
    meta["labels"] = meta.get("labels") or template["labels"]
    selector = spec.setdefault("selector", {})
    selector["matchLabels"] = {_UID_LABELS[1]: meta["uid"], **(selector.get("matchLabels") or {})}


def _own_selector(obj: Obj) -> Sequence[Cause]:
    spec, meta = obj["spec"], obj["metadata"]
    given_selector = spec.get("selector")
    selector = from_object(given_selector)
    labels = spec["template"]["metadata"].get("labels") or {}
    unmatched = invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    if selector is None:
        return [required("spec.selector"), unmatched]
    causes = list(selector_check("spec.selector", given_selector, spec))
    if not spec["manualSelector"]:
        own = _own_labels(meta)
        causes += [
            invalid(f"spec.template.metadata.labels[{label}]", labels, f"must be '{value}'")
            for label, value in own.items()
            if labels.get(label) != value
        ]
        if not selector.matches(own):
            causes.append(invalid("spec.selector", given_selector, "`selector` not auto-generated"))
    return causes if selector.matches(labels) else [*causes, unmatched]


def _completion(spec: Obj, path: str) -> list[Cause]:
    causes = []
    indexed = spec.get("completionMode") == _INDEXED
    if indexed and "completions" not in spec:
        causes.append(required(f"{path}.completions", "when completion mode is Indexed"))
    if indexed and spec.get("parallelism", 0) > _MOST_INDEXED:
        detail = f"must be less than or equal to {_MOST_INDEXED} when completion mode is Indexed"
        causes.append(invalid(f"{path}.parallelism", spec["parallelism"], detail))
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        causes.append(required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if indexed and spec.get("maxFailedIndexes", 0) > spec.get("completions", 2**31):
        detail = "must be less than or equal to completions"
        causes.append(invalid(f"{path}.maxFailedIndexes", spec["maxFailedIndexes"], detail))
    only_indexed = () if indexed else ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy")
    return causes + [
        invalid(f"{path}.{name}", spec[name], "requires indexed completion mode") for name in only_indexed if name in spec
    ]


def _failure_policy(spec: Obj, path: str) -> list[Cause]:
    """The rules by which pods that failed count."""
    policy = spec.get("podFailurePolicy")
    if policy is None:
        return []
    causes = []
    if spec.get("podReplacementPolicy", "Failed") != "Failed":
        causes.append(not_supported(f"{path}.podReplacementPolicy", spec["podReplacementPolicy"], ["Failed"]))
    if spec["template"]["spec"]["restartPolicy"] == "OnFailure":
        detail = 'only "Never" is supported when podFailurePolicy is specified'
        causes.append(invalid(f"{path}.template.spec.restartPolicy", "OnFailure", detail))
    for index, rule in enumerate(policy.get("rules") or ()):
        where = f"{path}.podFailurePolicy.rules[{index}]"
        action = rule.get("action", "")
        causes += not_chosen(f"{where}.action", action, _ACTIONS)
        if action == "FailIndex" and "backoffLimitPerIndex" not in spec:
            causes.append(invalid(f"{where}.action", action, "requires the backoffLimitPerIndex to be set"))
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions")
        if codes is not None:
            causes += _exit_codes(codes, f"{where}.onExitCodes", spec["template"]["spec"])
        if (codes is None) == (not conditions):
            detail = "specifying one of OnExitCodes and OnPodConditions is required"
            causes.append(invalid(where, "", detail if codes is None else detail.replace("one of", "both")))
        for number, condition in enumerate(conditions or ()):
            place = f"{where}.onPodConditions[{number}]"
            causes += check(qualified_name, f"{place}.type", condition.get("type", ""))
            causes += one_of("False", "True", "Unknown")(f"{place}.status", condition.get("status"), condition)
    return causes


def _exit_codes(codes: Obj, path: str, pod: Obj) -> list[Cause]:
    operator, values = codes.get("operator", ""), codes.get("values") or []
    causes = not_chosen(f"{path}.operator", operator, ("In", "NotIn"))
    names = {one.get("name") for part in ("containers", "initContainers") for one in pod.get(part) or ()}
    if codes.get("containerName") is not None and codes["containerName"] not in names:
        causes.append(invalid(f"{path}.containerName", codes["containerName"], "must be one of the containers"))
    if not values:
        causes.append(invalid(f"{path}.values", values, "at least one value is required"))
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            causes.append(invalid(f"{path}.values[{index}]", 0, "must not be 0 for the In operator"))
        if value in values[:index]:
            causes.append(Cause("FieldValueDuplicate", f"{path}.values[{index}]", f"Duplicate value: {value}"))
    if values != sorted(values):
        causes.append(invalid(f"{path}.values", values, "must be ordered"))
    return causes


def _success_policy(spec: Obj, path: str) -> list[Cause]:
    if spec.get("completionMode") != _INDEXED or "successPolicy" not in spec:
        return []
    rows = spec["successPolicy"].get("rules") or ()
    causes = [] if rows else [required(f"{path}.successPolicy.rules", "at least one rules must be specified")]
    for index, rule in enumerate(rows):
        where = f"{path}.successPolicy.rules[{index}]"
        count = rule.get("succeededCount")
        if count is None and rule.get("succeededIndexes") is None:
            causes.append(required(where, "at least one of succeededCount or succeededIndexes must be specified"))
        if count is not None and count > spec.get("completions", count):
            causes.append(invalid(f"{where}.succeededCount", count, f"must be less than or equal to {spec['completions']}"))
        causes += at_least(0)(f"{where}.succeededCount", count, rule)
        if rule.get("succeededIndexes") and not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", rule["succeededIndexes"]):
            causes.append(invalid(f"{where}.succeededIndexes", rule["succeededIndexes"], "error parsing succeededIndexes"))
    return causes


def _restart_policy(spec: Obj, path: str) -> list[Cause]:
    policy = spec["template"]["spec"]["restartPolicy"]
    where = f"{path}.template.spec.restartPolicy"
    if policy == "Always":
        return [required(where, 'valid values: "OnFailure", "Never"')]
    return [] if policy in ("OnFailure", "Never") else [not_supported(where, policy, ["OnFailure", "Never"])]


def _managed_by(path: str, value: str) -> Sequence[Cause]:
    domain, slash, rest = value.partition("/")
    fits = slash and domain and rest and not check(qualified_name, path, f"{domain}/x")
    return [] if fits else [invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')]


_COUNTS = (
    "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished", "backoffLimitPerIndex",
    "maxFailedIndexes",
)  # fmt: skip


def _job_rules(path: str) -> Rules:
    """The rules of a job's spec at `path`."""

    def whole(obj: Obj) -> list[Cause]:
        spec = obj
        for part in path.split("."):
            spec = spec[part]
        causes = _completion(spec, path) + _failure_policy(spec, path) + _success_policy(spec, path)
        return causes + validate_template(spec["template"], f"{path}.template") + _restart_policy(spec, path)

    replacement = one_of("Failed", "TerminatingOrFailed")
    return rules(
        *each_at(at_least(0), *(f"{path}.{name}" for name in _COUNTS)),
        (f"{path}.completionMode", one_of("NonIndexed", _INDEXED)),
        (f"{path}.podReplacementPolicy", replacement),
        (f"{path}.managedBy", given(_managed_by)),
        whole,
    )


def _indexed_name(obj: Obj) -> Sequence[Cause]:
    """A pod's hostname is the job's name with the greatest index."""
    spec, name = obj["spec"], obj["metadata"].get("name") or ""
    if spec["completionMode"] != _INDEXED or spec.get("completions", 0) < 1:
        return []
    hostname = f"{name}-{spec['completions'] - 1}"
    if not dns1123_label(hostname):
        return []
    return [invalid("metadata.name", name, f"will not able to create pod with invalid DNS label: {hostname}")]


def _job_fixed(new: Obj, old: Obj) -> Sequence[Cause]:
    causes = list(
        immutable(
            "spec.selector", "spec.completionMode", "spec.podFailurePolicy", "spec.backoffLimitPerIndex", "spec.managedBy",
            "spec.successPolicy",
        )(new, old)
    )  # fmt: skip
    before, after = old["spec"], new["spec"]
    if before.get("completions") != after.get("completions"):
        elastic = before["completionMode"] == _INDEXED and after.get("completions") == after.get("parallelism")
        if not elastic:
            causes.append(invalid("spec.completions", after.get("completions"), "field is immutable"))
    if _fixed_part(before, before) != _fixed_part(after, before):
        path = "spec.template.spec" if before["suspend"] else "spec.template"
        causes.append(invalid(path, after["template"], "field is immutable"))
    return causes


def _fixed_part(spec: Obj, before: Obj) -> Obj:
    """What may not change of the template: of a suspended job, scheduling and resources may."""
    template = spec["template"]
    if not before["suspend"]:
        return dict(template)
    free = ("nodeSelector", "tolerations", "schedulingGates", "affinity")
    pod = {key: value for key, value in template["spec"].items() if key not in free}
    for part in ("containers", "initContainers"):
        if part in pod:
            pod[part] = [{**container, "resources": None} for container in pod[part]]
    return pod


JOB = Strategy(
    default=_default_job,
    on_create=_job_created,
    on_update=keep_filled(_job_status),
    validate=rules(_own_selector, _job_rules("spec"), _indexed_name),
    validate_update=_job_fixed,
)

# Cron jobs


def _default_job_template(obj: Obj) -> None:
    template = obj["spec"].setdefault("jobTemplate", {})
    template.setdefault("metadata", {})
    spec = template.setdefault("spec", {})
    default_template(spec)


def _schedule(path: str, value: Any, _parent: Obj) -> Sequence[Cause]:
    if not value:
        return [required(path)]
    if "TZ" in value:
        return [invalid(path, value, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")]
    why = schedules.problem(value)
    return [invalid(path, value, why)] if why else []


@cache
def _time_zones() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())


def _time_zone(path: str, value: str) -> Sequence[Cause]:
    return [] if value in _time_zones() else [invalid(path, value, f"unknown time zone {value}")]


def _cron_name(obj: Obj) -> Sequence[Cause]:
    name = obj["metadata"].get("name") or ""
    if len(name) <= _CRON_NAME_LIMIT:
        return []
    return [invalid("metadata.name", name, f"must be no more than {_CRON_NAME_LIMIT} characters")]


def _generated_selector(obj: Obj) -> Sequence[Cause]:
    spec, path = obj["spec"]["jobTemplate"]["spec"], "spec.jobTemplate.spec"
    causes = []
    if "selector" in spec:
        causes.append(invalid(f"{path}.selector", spec["selector"], "`selector` will be auto-generated"))
    if spec.get("manualSelector"):
        causes.append(not_supported(f"{path}.manualSelector", True, ["nil", "false"]))
    return causes


CRON_JOB = Strategy(
    default=in_turn(
        defaults(
            *filled("spec", concurrencyPolicy="Allow", suspend=False, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1)
        ),
        _default_job_template,
    ),
    **status_of(("status", {})),
    validate=rules(
        ("spec.schedule", _schedule),
        ("spec.timeZone", given(_time_zone)),
        ("spec.concurrencyPolicy", one_of("Allow", "Forbid", "Replace")),
        *each_at(at_least(0), "spec.startingDeadlineSeconds", "spec.successfulJobsHistoryLimit", "spec.failedJobsHistoryLimit"),
        _cron_name,
        _generated_selector,
        _job_rules("spec.jobTemplate.spec"),
    ),
)
