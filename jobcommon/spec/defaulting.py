"""Reading a job: from the API's JSON to a `Job` with its defaults filled in and its errors found.

Total: any JSON object gives a Job, never an exception (rule R14). Defaults live in memory only; what the user wrote is not
rewritten.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from jobcommon.api.job import JobSpec, ReplicaSpec, RunPolicy
from jobcommon.api.model import ApiModel
from jobcommon.api.status import ConditionType, read_status
from jobcommon.api.template import mapping_of
from jobcommon.api.timestamp import parse_time
from jobcommon.framework import FieldError, Framework, Job
from jobcommon.manifests.size import sized
from jobcommon.reconcile.features import features_of
from jobcommon.reconcile.rendering import with_last_restart
from jobcommon.spec.checks import warnings
from jobcommon.spec.validation import run_policy_errors, template_errors, validate

M = TypeVar("M", bound=BaseModel)
_WORDS = {
    "missing": "Required value",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "list_type": "must be a list",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "enum": "Unsupported value: use one of {expected}",
    "string_type": "must be text, in quotes",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "too_short": "must not be empty",
    "too_long": "must not have more than {max_length} entries",
}

# What the API server keeps for itself with every write.
_BOOKKEEPING = {"resourceVersion", "managedFields"}


def read_job(framework: Framework, raw: Mapping[str, Any]) -> Job:
    """The job in `raw`: replica types in canonical spelling and declared order, defaults set, `errors` complete.

    A job that refers to other objects is read with those that come with the operator. A caller that has the cluster's objects
    calls `Framework.specialized` first.
    """
    if framework.specialize is not None:
        framework, raw = framework.specialized(raw, framework.related_to(framework.shipped()))
    metadata = mapping_of(raw.get("metadata"))
    version = str(raw.get("apiVersion", "")).rpartition("/")[2] or framework.storage_version
    defaults = framework.defaults_of(version)
    errors = [*framework.unresolved]
    raw_spec = raw.get("spec")
    if not isinstance(raw_spec, Mapping):
        errors.append(FieldError("spec", f"must be an object with {framework.replica_specs}"))
    # As the API server does: null is nothing where there is a default.
    given = {key: value for key, value in mapping_of(raw_spec).items() if value is not None or key not in defaults}
    spec = dict(framework.upgrade({**defaults, **given}, version))
    raw_replicas = spec.pop(framework.replica_specs, None)
    unread: set[str] = {kind.name for kind in framework.replica_types} if errors else set()
    replica_specs = {} if errors else _read_replica_specs(framework, raw_replicas, errors, unread)
    job = Job(
        kind=framework.kind,
        api_version=str(raw.get("apiVersion") or framework.api_version),
        namespace=_text(metadata.get("namespace")),
        name=_text(metadata.get("name")),
        uid=_text(metadata.get("uid")),
        resource_version=_text(metadata.get("resourceVersion")),
        generation=metadata.get("generation") if isinstance(metadata.get("generation"), int) else 0,  # type: ignore[arg-type]
        creation_time=parse_time(metadata.get("creationTimestamp")),
        deleting=metadata.get("deletionTimestamp") is not None,
        labels=mapping_of(metadata.get("labels")),
        annotations=mapping_of(metadata.get("annotations")),
        spec=(read_spec := _read_spec(framework, spec, errors)),
        features=_read_features(framework, read_spec, errors),
        replica_specs=replica_specs,
        status=with_last_restart(read_status(raw.get("status"))),
        raw_status=mapping_of(raw.get("status")),
        options=framework.options,
        own_options=framework.own_options,
        unread=frozenset(unread),
        unindexed=frozenset(kind.name.lower() for kind in framework.replica_types if not kind.indexed),
        missing=framework.missing,
        pods={kind.name: kind.pods for kind in framework.replica_types if kind.pods},
        subdomain=framework.subdomain,
    )
    if offsets := framework.index_offsets(job):
        job = replace(job, index_offsets=offsets)
    # Rules over the whole job need a job whose parts could be read.
    # Templates are checked in any case: the pods of a job that has begun are built from them.
    # So are the rules of the run policy: what they refuse counts as not set, as what cannot be read does.
    parts = (*errors, *run_policy_errors(job), *template_errors(framework, job)) if errors else validate(framework, job)
    if parts:
        return sized(framework, replace(job, spec=_without_refused(job.spec, parts), errors=tuple(parts)))
    found = () if job.managed_elsewhere or job.status.has(ConditionType.SUCCEEDED) else warnings(framework, job)
    return sized(framework, replace(job, warnings=found) if found else job)


def reread_job(framework: Framework, job: Job, raw: Mapping[str, Any]) -> Job:
    """The job with the status in `raw`, from which it differs in that alone: most changes of a job are our own statuses."""
    read = replace(
        job,
        resource_version=_text(mapping_of(raw.get("metadata")).get("resourceVersion")),
        status=with_last_restart(read_status(raw.get("status"))),
        raw_status=mapping_of(raw.get("status")),
    )
    return sized(framework, read)


def differs_in_status_alone(before: Mapping[str, Any], raw: Mapping[str, Any]) -> bool:
    """Whether a job as it was `before` and as it is have everything in common but their statuses."""
    if any(before.get(part) != raw.get(part) for part in ("apiVersion", "spec")):
        return False
    metadata, earlier = mapping_of(raw.get("metadata")), mapping_of(before.get("metadata"))
    return all(metadata.get(key) == earlier.get(key) for key in {*metadata, *earlier} - _BOOKKEEPING)


def _read_spec(framework: Framework, spec: dict[str, Any], errors: list[FieldError]) -> JobSpec:
    if (found := _read(framework.spec, spec, "spec", errors, in_part=True)) is not None:
        return found
    # Whatever else is wrong with it, we leave a job alone that another controller manages.
    given = (mapping_of(spec.get("runPolicy")).get("managedBy"), spec.get("managedBy"))
    of_policy, of_spec = (name if isinstance(name, str) else None for name in given)
    return framework.spec.model_construct(run_policy=RunPolicy(managed_by=of_policy), managed_by=of_spec)


def _read_features(framework: Framework, spec: JobSpec, errors: list[FieldError]) -> Mapping[str, ApiModel]:
    """What the run policy says of features that have a model of their own. A field that cannot be read counts as not set."""
    given, found = spec.run_policy.model_extra or {}, dict[str, ApiModel]()
    for feature in features_of(framework):
        if feature.spec is not None and given.get(feature.name) is not None:
            value, path = given[feature.name], f"spec.runPolicy.{feature.name}"
            if not isinstance(value, Mapping):
                errors.append(FieldError(path, "must be an object"))
            elif (read := _read(feature.spec, value, path, errors)) is not None:
                found[feature.name] = read
    return found


def _read_replica_specs(
    framework: Framework, raw: object, errors: list[FieldError], unread: set[str]
) -> dict[str, ReplicaSpec]:
    path = f"spec.{framework.replica_specs}"
    names = [kind.name for kind in framework.replica_types]
    if not isinstance(raw, Mapping) or not raw:
        errors.append(FieldError(path, f"Required value: name at least one replica type of {', '.join(names)}"))
        unread.update(names)
        return {}
    canonical = {name.lower(): name for name in names}
    found: dict[str, ReplicaSpec] = {}
    for key, value in raw.items():
        name = canonical.get(str(key).lower())
        if name is None:
            errors.append(FieldError(f"{path}[{key}]", f"Unsupported value: use one of {', '.join(names)}"))
        elif name in found:
            errors.append(FieldError(f"{path}[{key}]", f"Duplicate value: {name} is given twice in different spellings"))
        elif not isinstance(value, Mapping):
            errors.append(FieldError(f"{path}[{key}]", "Required value: a replica spec with a template"))
            unread.add(name)
        elif (spec := _read(framework.replica_spec, value, f"{path}[{key}]", errors)) is not None:
            kind = next(kind for kind in framework.replica_types if kind.name == name)
            replicas = kind.replicas if spec.replicas is None else spec.replicas
            policy = spec.restart_policy or kind.restart_policy
            found[name] = spec.model_copy(update={"replicas": replicas, "restart_policy": policy})
        else:
            unread.add(name)
    if any(str(key).lower() not in canonical for key in raw):
        # A misspelt name may mean any type that is absent; its pods must not be taken for surplus.
        unread.update(name for name in names if name not in found)
    return {name: found[name] for name in names if name in found}


def _read(model: type[M], value: Mapping[str, Any], path: str, errors: list[FieldError], *, in_part: bool = False) -> M | None:
    """The model, or None if it cannot be read. `in_part`: then without the fields that cannot be; a job that has begun goes on.

    What the end of a pod means depends on each field of its replica spec, so those are read whole or not at all.
    """
    try:
        return model.model_validate(dict(value))
    except ValidationError as error:
        errors += model_errors(error, path)
        if in_part:
            with suppress(ValidationError, RecursionError):
                return model.model_validate(_without(value, error))
    except RecursionError:
        errors.append(FieldError(path, "is nested too deeply"))
    return None


def model_errors(error: ValidationError, path: str) -> list[FieldError]:
    """pydantic's findings with paths and words that fit a manifest."""
    found = []
    for detail in error.errors(include_url=False):
        where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in detail["loc"])
        words = _WORDS.get(detail["type"])
        message = words.format(**detail.get("ctx", {})) if words else detail["msg"].removeprefix("Value error, ")
        found.append(FieldError(f"{path}{where}", message))
    return found


def _without(value: Mapping[str, Any], error: ValidationError) -> dict[str, Any]:
    """The value without the fields that could not be read: of each, the last part of its path that is
    not inside a list."""
    result = dict(value)
    for detail in error.errors(include_url=False):
        at, path = result, [str(part) for part in detail["loc"]]
        while len(path) > 1 and isinstance(at.get(path[0]), Mapping):
            at[path[0]] = at = dict(at[path[0]])
            del path[0]
        at.pop(path[0], None)
    return result


def _without_refused(spec: JobSpec, errors: Collection[FieldError]) -> JobSpec:
    """The spec without the fields of its run policy that are invalid, each as a whole."""
    paths = {error.path for error in errors}
    unset = {name: None for name, field in RunPolicy.model_fields.items() if f"spec.runPolicy.{field.alias}" in paths}
    return spec.model_copy(update={"run_policy": spec.run_policy.model_copy(update=unset)}) if unset else spec


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
