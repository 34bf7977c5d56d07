"""Checks whether an operator acts: by its lease, and by jobs and pods that wait for one."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobcommon.api.timestamp import parse_time
from jobcommon.causes.cause import listed, span
from jobcommon.causes.cause_reasons import Reason
from jobcommon.cli.doctor.finding import Finding, Severity
from jobcommon.cli.doctor.operators import OwnOperator
from jobcommon.cli.doctor.state import ClusterState, Json, names
from jobcommon.cli.rights import LEASE
from jobcommon.diagnosis import Found
from jobcommon.diagnosis.operator import ANSWER_SECONDS, behind
from jobcommon.diagnosis.pods import OVERDUE_SECONDS
from jobcommon.framework import FINALIZER, Framework

# Three times the usual duration of a lease; clocks differ.
_LEASE_SECONDS = 45.0
_WHY = "jobs neither start nor end while no operator acts"
_MEND = "start the operators, or check their log: kubectl get pods --all-namespaces -l app.kubernetes.io/part-of=jobcommon"
_RELEASE = "; if they were uninstalled: jobcommon release-finalizers"
# The embedded cluster's version ends so. Its operators run inside it, with neither a Deployment nor a lease.
_EMBEDDED = "+localcluster"


@dataclass
class _Waiting:
    """Titles of jobs and names of pods that wait for an operator."""

    unanswered: list[str] = field(default_factory=list)
    behind: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)


def check_acting(
    state: ClusterState, frameworks: Sequence[Framework], own: Sequence[OwnOperator], now: float
) -> Iterator[Finding]:
    """All of them. `now` is the time in seconds since the epoch."""
    renewed = _renewed(state, own)
    waiting = _waiting(state, frameworks, now)
    for subject, what, found, fix in (
        ("jobs", "wait for an operator's answer", waiting.unanswered, _MEND),
        ("jobs", "have a status that does not follow their pods", waiting.behind, _MEND),
        ("pods", f"are being deleted, but blocked by the finalizer {FINALIZER}", waiting.held, _MEND + _RELEASE),
    ):
        if found:
            yield Finding(Severity.ERROR, subject, f"{what} ({len(found)}): {listed(found)}", _WHY, fix)
    if own and not any(one.replicas for one in own):
        return  # Its Deployment says so.
    if renewed is not None and now - renewed[0] > _LEASE_SECONDS:
        yield Finding(
            Severity.ERROR,
            f"Lease {renewed[2]} in {renewed[1]}",
            f"was renewed {span(now - renewed[0])} ago: no leader acts",
            _WHY,
            _MEND,
        )
    elif renewed is None and not own and not (state.unread.keys() & {"Leases", "Deployments"}) and not _embedded(state):
        yield Finding(
            Severity.WARNING, "operators", "of this project were not found: no Deployment, no lease",
            f"{_WHY}; an operator elsewhere without leader election is not seen", "install them (docs/install.md)",
        )  # fmt: skip


def _embedded(state: ClusterState) -> bool:
    return state.version.endswith(_EMBEDDED)


def _renewed(state: ClusterState, own: Sequence[OwnOperator]) -> tuple[float, str, str] | None:
    """When one of our leases was renewed last, and its namespace and name."""
    prefixes = tuple({LEASE, *(one.lease for one in own)})
    found = []
    for lease in state.leases:
        namespace, name = names(lease)
        at = parse_time((lease.get("spec") or {}).get("renewTime"))
        if name.startswith(prefixes) and at is not None:
            found.append((at, namespace, name))
    return max(found, default=None)


def _waiting(state: ClusterState, frameworks: Sequence[Framework], now: float) -> _Waiting:
    kinds = {framework.kind: framework for framework in frameworks}
    by_owner: dict[str, list[Json]] = {}
    found = _Waiting()
    for pod in state.pods:
        metadata = pod.get("metadata") or {}
        for owner in metadata.get("ownerReferences") or ():
            by_owner.setdefault(str(owner.get("uid")), []).append(pod)
        if _held(pod, now):
            found.held.append("/".join(names(pod)))
    for job in state.jobs:
        framework = kinds.get(str(job.get("kind")))
        if framework is not None:
            _sort(found, Found(framework, job, by_owner.get(str(job["metadata"].get("uid")), ())), now)
    return found


def _sort(found: _Waiting, one: Found, now: float) -> None:
    job = one.read
    title = f"{one.framework.singular}/{job.name} in {job.namespace}"
    if job.deleting or job.managed_elsewhere:
        return
    if not one.status.conditions:
        if job.creation_time is not None and now - job.creation_time > ANSWER_SECONDS:
            found.unanswered.append(title)
    elif not job.suspended and (cause := behind(one, now)) is not None and cause.reason == Reason.NO_OPERATOR:
        found.behind.append(title)


def _held(pod: Mapping[str, Any], now: float) -> bool:
    """Whether our finalizer alone keeps a pod that has ended."""
    metadata = pod.get("metadata") or {}
    since = parse_time(metadata.get("deletionTimestamp"))
    over = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return over and since is not None and now - since > OVERDUE_SECONDS and FINALIZER in (metadata.get("finalizers") or ())
