"""Checks for other operators of our kinds: their Deployments, leases and webhooks, and the jobs they have begun."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from jobcommon.cli.doctor.finding import Finding, Severity
from jobcommon.cli.doctor.operators import LEASES, OwnOperator, ReferenceOperator, reference_operators
from jobcommon.cli.doctor.state import ClusterState, Json, names
from jobcommon.framework import Framework

_TWO = "two operators on one kind create pods twice and overwrite each other's status"
# The clock of this machine and that of the lease's holder may differ.
_SKEW_SECONDS = 60.0
_REFERENCE_WEBHOOKS = ("training-operator", "trainer.kubeflow.org")


def check_other_operators(
    state: ClusterState, frameworks: Sequence[Framework], own: Sequence[OwnOperator], now: float
) -> Iterator[Finding]:
    """All of them. `now` is the time in seconds since the epoch."""
    kinds = {kind for one in own for kind in one.kinds} or {framework.kind for framework in frameworks}
    yield from _deployments(state, kinds)
    yield from _leases(state, own, now)
    yield from _own_twice([one for one in own if one.replicas])
    yield from _webhooks(state, [framework for framework in frameworks if framework.kind in kinds])
    if "MPIJob" in kinds:
        yield from _launchers(state)


def _deployments(state: ClusterState, kinds: set[str]) -> Iterator[Finding]:
    for other in reference_operators(state.deployments):
        if both := sorted(kinds & other.kinds):
            yield _to_stop(other, f"runs {other.program}, which acts on {', '.join(both)}")


def _leases(state: ClusterState, own: Sequence[OwnOperator], now: float) -> Iterator[Finding]:
    ours = {(one.namespace, one.lease) for one in own}
    # Of a Deployment that was found it is known which kinds it handles.
    known = {(one.namespace, one.program) for one in reference_operators(state.deployments)}
    for lease in state.leases:
        namespace, name = names(lease)
        program = LEASES.get(name)
        if program is None or (namespace, name) in ours or (namespace, program) in known:
            continue
        spec = lease.get("spec") or {}
        age = now - _seconds(spec.get("renewTime"))
        if spec.get("holderIdentity") and age < max(float(spec.get("leaseDurationSeconds") or 0), _SKEW_SECONDS):
            yield Finding(
                Severity.ERROR, f"Lease {name} in {namespace}",
                f"is held by {spec['holderIdentity']}: a {program} runs", _TWO,
                f"kubectl get pods --namespace {namespace}   # stop what runs it; the lease is free a minute later",
            )  # fmt: skip


def _own_twice(own: Sequence[OwnOperator]) -> Iterator[Finding]:
    for position, one in enumerate(own):
        for other in own[position + 1 :]:
            both = sorted(one.kinds & other.kinds)
            same_lease = (one.namespace, one.lease) == (other.namespace, other.lease)
            apart = one.watched and other.watched and not one.watched & other.watched
            if both and not same_lease and not apart:
                yield _to_stop(other, f"acts on {', '.join(both)} in the same namespaces as {one.place}")


def _to_stop(other: OwnOperator | ReferenceOperator, what: str) -> Finding:
    fix = f"kubectl scale deployment {other.name} --namespace {other.namespace} --replicas=0"
    return Finding(Severity.ERROR, f"Deployment {other.name} in {other.namespace}", what, _TWO, fix)


def _webhooks(state: ClusterState, frameworks: Sequence[Framework]) -> Iterator[Finding]:
    for configuration in state.webhooks:
        kind, (_, name) = str(configuration.get("kind", "")), names(configuration)
        for hook in configuration.get("webhooks") or ():
            plurals = _asked_about(hook, frameworks)
            service = ((hook.get("clientConfig") or {}).get("service")) or {}
            if plurals and any(known in f"{name} {service.get('name', '')}" for known in _REFERENCE_WEBHOOKS):
                what = f"its webhook {hook.get('name', '')} is asked about {', '.join(plurals)}"
                why = "it refuses jobs that are valid here, and all jobs once its operator is stopped"
                yield Finding(Severity.ERROR, f"{kind} {name}", what, why, f"kubectl delete {kind.lower()} {name}")


def _asked_about(hook: Json, frameworks: Sequence[Framework]) -> list[str]:
    """The plurals of our kinds in the rules of a webhook that names our group."""
    found = set()
    for rule in hook.get("rules") or ():
        for framework in frameworks:
            resources = {str(resource).partition("/")[0] for resource in rule.get("resources") or ()}
            if framework.group in (rule.get("apiGroups") or ()) and resources & {framework.plural, "*"}:
                found.add(framework.plural)
    return sorted(found)


def _launchers(state: ClusterState) -> Iterator[Finding]:
    """mpi-operator's launcher was a batch Job, which we do not take over."""
    for job in state.batch_jobs:
        owner = next((one for one in job["metadata"].get("ownerReferences") or () if one.get("kind") == "MPIJob"), None)
        over = any(
            one.get("type") in ("Complete", "Failed") and one.get("status") == "True"
            for one in (job.get("status") or {}).get("conditions") or ()
        )
        if owner is None or over:
            continue
        namespace, name = names(job)
        if (job.get("spec") or {}).get("suspend"):
            what = f"is the suspended launcher of MPIJob {owner.get('name')}"
            why = "mpi-operator has created it; our operator starts a launcher of its own when the job is resumed"
            fix = f"kubectl delete job {name} --namespace {namespace}"
            yield Finding(Severity.WARNING, f"Job {name} in {namespace}", what, why, fix)
        else:
            yield Finding(
                Severity.ERROR, f"MPIJob {owner.get('name')} in {namespace}",
                f"was begun by mpi-operator: its launcher is the batch Job {name}",
                "our operator does not take it over, and would start a second launcher; wait for its end, or suspend it",
                f"kubectl patch mpijob {owner.get('name')} --namespace {namespace} --type merge "
                "-p '{\"spec\":{\"runPolicy\":{\"suspend\":true}}}'",
            )  # fmt: skip


def _seconds(text: object) -> float:
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return 0.0
