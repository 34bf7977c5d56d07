"""``jobcommon plan``: what the operator would do for a job, without a cluster."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from jobcommon import crd
from jobcommon.api import reasons
from jobcommon.api.observed import Observed
from jobcommon.api.text import said
from jobcommon.cli.errors import UserError
from jobcommon.cli.frameworks import installed, not_loaded, of_manifest
from jobcommon.cli.manifests import Manifest
from jobcommon.cli.yaml_scalars import as_yaml
from jobcommon.framework import Framework, Job
from jobcommon.reconcile import Create, Plan, Update, plan
from jobcommon.reconcile.features import features_of
from jobcommon.reconcile.view import look

_OURS = "kubeflow.org"
_NO_UID = "00000000-0000-0000-0000-000000000000"


def jobs_among(
    manifests: Sequence[Manifest], namespace: str = "default"
) -> tuple[list[tuple[Manifest, Framework]], list[Manifest]]:
    """The jobs, with their frameworks, and the other objects. What names no namespace is in `namespace`.

    Raises `UserError` for an object named twice, a kind of ours that no operator here runs, and when there is no job.
    """
    jobs: list[tuple[Manifest, Framework]] = []
    others: list[Manifest] = []
    first: dict[tuple[str, str, str, str], Manifest] = {}
    kinds = {framework.kind: framework for framework in installed().values()}
    for manifest in manifests:
        framework, group = of_manifest(manifest.body), str(manifest.body["apiVersion"]).rpartition("/")[0]
        # The second of two objects with one name would change the first while it runs: an error in the files.
        earlier = first.setdefault((group, manifest.kind, manifest.namespace or namespace, manifest.name), manifest)
        if earlier is not manifest:
            where = f"{earlier.source}:{earlier.line}"
            raise UserError(f"{manifest.place}: is given twice, first in {where}; leave one out, or give it another name")
        if framework is not None:
            jobs.append((manifest, framework))
        elif group == _OURS:
            known = ", ".join(kinds)
            raise UserError(f'{not_loaded()}{manifest.place}: kind: "{manifest.kind}" is not a kind supported here: {known}')
        else:
            others.append(manifest)
    if not jobs:
        raise UserError(_no_job(manifests, kinds))
    return jobs, others


def _no_job(manifests: Sequence[Manifest], kinds: Mapping[str, Framework]) -> str:
    known = ", ".join(kinds)
    for manifest in manifests:
        if (framework := kinds.get(manifest.kind)) is not None:
            written = manifest.body["apiVersion"]
            return f'{manifest.place}: apiVersion "{written}" has no {framework.kind} here: write {framework.api_version}'
        if manifest.kind == "Job":
            return (
                f"{manifest.place}: a Job of batch/v1 runs on a cluster only (jobcommon convert FILE | kubectl apply -f -); "
                f"a polyaxonfile that names a framework, as in `framework: pytorch`, becomes one that runs here: {known}"
            )
    return f"{not_loaded()}{manifests[0].source}: contains no job; the kind of a job is one of {known}"


def describe(manifests: Sequence[Manifest], namespace: str = "default", *, with_manifests: bool) -> str:
    """The plans for all jobs among `manifests`, of which there are no pods. A job without a namespace is in `namespace`.

    With `with_manifests` the objects to be written follow as YAML. Raises `UserError` as `jobs_among`, and when the spec of a
    job that has not begun is invalid. For a job that has begun, the errors stand before the plan: the operator goes on.
    """
    jobs, _ = jobs_among(manifests, namespace)
    texts = [_describe(one, framework, manifests, namespace, with_manifests) for one, framework in jobs]
    return "\n".join(texts)


def checked(manifest: Manifest, framework: Framework, namespace: str = "default", others: Sequence[Manifest] = ()) -> Job:
    """The job in `manifest`, which may refer to `others`.

    Raises `UserError` with a line for each error: those that the operator would report, or else those of an API server with
    strict field validation.
    """
    job, errors = _read(manifest, framework, namespace, others)
    if errors:
        raise UserError("\n".join(errors))
    return job


def _read(manifest: Manifest, framework: Framework, namespace: str, others: Sequence[Manifest]) -> tuple[Job, Sequence[str]]:
    job, found = crd.read_strictly(framework, manifest.body, (other.body for other in others))
    errors = [f"{manifest.place_of(error.path)}: {error}" for error in found]
    return replace(job, namespace=job.namespace or namespace), errors


def _describe(
    manifest: Manifest, framework: Framework, others: Sequence[Manifest], namespace: str, with_manifests: bool
) -> str:
    job, errors = _read(manifest, framework, namespace, others)
    related = framework.related_to((*framework.shipped(), *(other.body for other in others)))
    framework, _ = framework.specialized(manifest.body, related)
    job, seen, now = replace(job, uid=job.uid or _NO_UID), Observed(), time.time()
    try:
        begun = not errors or look(framework, job, seen, now, features_of(framework)).facts.has_begun
        decision = plan(framework, job, seen, now) if begun else None
    except Exception as error:
        raise UserError(f"{manifest.place}: a function of framework {framework.name} raises {said(error)}") from None
    if decision is None:
        raise UserError("\n".join(errors))
    if refused := _refused_pods(decision):
        raise UserError("\n".join(f"{manifest.place}: {error}" for error in refused))
    # It is the operator's options that say whether it takes reports.
    events = tuple(event for event in decision.events if event.reason != reasons.NO_PROGRESS_SERVER)
    decision = replace(decision, events=events)
    title = f"# {job.kind} {job.key}"
    text = "\n".join([title, *(f"error: {error}" for error in errors), decision.describe(), ""])
    if not any(event.reason == reasons.SPEC_WARNING for event in decision.events):
        text += "".join(f"warning: {warning}\n" for warning in job.warnings)
    written = [one.manifest for one in decision.actions if isinstance(one, Create | Update)] if with_manifests else ()
    return text + "".join(f"---\n{as_yaml(msgspec.to_builtins(manifest))}" for manifest in written)


def _refused_pods(decision: Plan) -> list[str]:
    """What an API server would say to the pods of a plan; the same is said once, with the first of its pods."""
    try:
        from localcluster.rules import pod_errors
    except ModuleNotFoundError:
        # The rules come with the embedded cluster, without which a plan can be made.
        return []
    found: dict[str, str] = {}
    for action in decision.actions:
        if isinstance(action, Create) and action.manifest["kind"] == "Pod":
            pod = msgspec.to_builtins(action.manifest)
            for error in pod_errors(pod):
                found.setdefault(error, pod["metadata"]["name"])
    return [f"an API server refuses pod {name}: {error}" for error, name in found.items()]
