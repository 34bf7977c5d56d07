"""How a TrainJob restarts, is suspended and is cleaned up: the runtime's failure policy and the job's fields as a runPolicy."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from jobcommon import ApiModel, FieldError, RestartPolicy, RunPolicy, mapping_of, merge_template, model_errors
from jobcommon.operators.trainjob.kinds import MULTIKUEUE, OWN_FIELDS
from jobcommon.operators.trainjob.resolved import Json, Role

#: Before the name of a field of runPolicy, in an annotation of a job; a dot leads to the fields of a field.
ANNOTATION = "training.kubeflow.org/run-policy."
_UNLIMITED = 2**31 - 1
# The reason of the one failure that a job of ours has: its pods have failed more often than its backoffLimit.
_REASON = "BackoffLimitExceeded"
_ALONE = ("RestartJob", "RestartJobAndIgnoreMaxRestarts")
_UNCOUNTED = ("RestartJobSetAndIgnoreMaxRestarts", "RestartJobAndIgnoreMaxRestarts")


@dataclass(frozen=True, slots=True)
class Policies:
    """The fields of a runPolicy, the roles with their part in it, and the paths of what has no effect."""

    fields: Json
    roles: tuple[Role, ...]
    ignored: tuple[str, ...]


def run_policy(job: Json, spec: Json, jobset: Json, gang: Json, roles: tuple[Role, ...], errors: list[FieldError]) -> Policies:
    """The runPolicy of the job. Later ones win: the runtime's policies, the job's annotations, the job's own runPolicy."""
    found, changed, ignored = _failures(jobset.get("failurePolicy"), roles)
    found["reportProgress"] = True
    if scheduling := _scheduling(gang):
        found["schedulingPolicy"] = scheduling
    if "ttlSecondsAfterFinished" in jobset:
        found["ttlSecondsAfterFinished"] = jobset["ttlSecondsAfterFinished"]
    given = mapping_of(spec.get("runPolicy"))
    errors += [FieldError(f"spec.runPolicy.{name}", f"Forbidden: set spec.{name}") for name in OWN_FIELDS if name in given]
    fields = merge_template(merge_template(found, _annotated(job, errors)), given)
    own = {name: spec[name] for name in OWN_FIELDS if spec.get(name)}
    if own.get("managedBy") != MULTIKUEUE:
        own.pop("managedBy", None)
    return Policies({**fields, **own}, changed, tuple(ignored))


def _scheduling(gang: Json) -> dict[str, Any]:
    """What a podGroupPolicy says beyond the scheduler, which is the operator's."""
    if "coscheduling" in gang:
        return {"scheduleTimeoutSeconds": gang["coscheduling"].get("scheduleTimeoutSeconds", 60)}
    topology = mapping_of(mapping_of(gang.get("volcano")).get("networkTopology"))
    tier, mode = topology.get("highestTierName"), "Preferred" if topology.get("mode") == "soft" else "Required"
    return {"topology": {"key": tier, "mode": mode}} if isinstance(tier, str) else {}


def _failures(policy: Json | None, roles: tuple[Role, ...]) -> tuple[dict[str, Any], tuple[Role, ...], list[str]]:
    """Without a policy the job fails when its pods have failed more often than a role's limit: one limit for the whole job."""
    if policy is None:
        return {"backoffLimit": max((role.backoff_limit for role in roles), default=0)}, roles, []
    rules = policy.get("rules", ())
    path = "spec.template.spec.failurePolicy.rules"
    ignored = [f"{path}[{index}]" for index, rule in enumerate(rules) if not _applies(rule)]
    actions = {role.name: _action(rules, role.name) for role in roles}
    restarted = [action for action in actions.values() if action != "FailJobSet"]
    uncounted = bool(restarted) and all(action in _UNCOUNTED for action in restarted)
    found: dict[str, Any] = {"backoffLimit": _UNLIMITED if uncounted else policy.get("maxRestarts", 0)}
    if not restarted or any(action not in _ALONE for action in restarted):
        found["restartScope"] = "Job"
        if policy.get("restartStrategy") == "InPlaceRestart":
            found["restartMethod"] = "Auto"
    fails = {True: RestartPolicy.NEVER, False: RestartPolicy.ON_FAILURE}
    changed = (replace(one, restart_policy=fails[actions[one.name] == "FailJobSet"], retries=False) for one in roles)
    return found, tuple(changed), ignored


def _applies(rule: Json) -> bool:
    reasons = rule.get("onJobFailureReasons")
    return not rule.get("onJobFailureMessagePatterns") and (not reasons or _REASON in reasons)


def _action(rules: Sequence[Json], role: str) -> str:
    found = (rule["action"] for rule in rules if _applies(rule) and role in (rule.get("targetReplicatedJobs") or [role]))
    return next(found, "RestartJobSet")


def _annotated(job: Json, errors: list[FieldError]) -> Json:
    """The fields of runPolicy that the job's annotations set."""
    found: dict[str, Any] = {}
    for key, text in mapping_of(mapping_of(job.get("metadata")).get("annotations")).items():
        if not str(key).startswith(ANNOTATION):
            continue
        fields = _read(str(key).removeprefix(ANNOTATION).split("."), str(text))
        if isinstance(fields, str):
            errors.append(FieldError(f"metadata.annotations[{key}]", fields))
        else:
            found = merge_template(found, fields)
    return found


def as_annotations(job: Json) -> Json:
    """What to change of the job's annotations so that they say what its runPolicy does, and None for those it replaces."""
    metadata, given = mapping_of(job.get("metadata")), mapping_of(mapping_of(job.get("spec")).get("runPolicy"))
    before = mapping_of(metadata.get("annotations"))
    merged = merge_template(_annotated(job, []), given)
    found: dict[str, str | None] = {key: None for key in before for name in given if key.startswith(f"{ANNOTATION}{name}.")}
    found |= {f"{ANNOTATION}{name}": json.dumps(merged[name], sort_keys=True) for name in given if name in merged}
    return {key: text for key, text in found.items() if before.get(key) != text}


def _read(names: Sequence[str], text: str) -> dict[str, Any] | str:
    """The field as JSON, or else as text, whichever it takes; or why it takes neither."""
    if names[0] in OWN_FIELDS:
        return f"Forbidden: set spec.{names[0]}"
    values: list[Any] = [text]
    with suppress(ValueError, RecursionError):
        values.insert(0, json.loads(text))
    message = ""
    for value in values:
        fields: Any = value
        for name in reversed(names):
            fields = {name: fields}
        try:
            if not _unknown(RunPolicy.model_validate(fields)):
                return dict(fields)
            message = f"runPolicy has no field {'.'.join(names)[:80]}"
        except ValidationError as error:
            message = model_errors(error, "")[0].message
    return message


def _unknown(value: object) -> bool:
    """Whether a part of it has fields that its model does not know."""
    return isinstance(value, ApiModel) and (bool(value.model_extra) or any(_unknown(one) for _, one in value))
