"""The labels of JobSet, by which the SDK and schedulers find the pods of a TrainJob."""

from hashlib import sha1

from jobcommon.operators.trainjob.resolved import Resolved, Role

_JOBSET = "jobset.sigs.k8s.io/"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"


def pod_labels(
    resolved: Resolved, role: Role, job: int, index: int, *, namespace: str, uid: str, attempt: int
) -> dict[str, str]:
    """Those of the pod `index` in job `job` of the role, which are its annotations as well."""
    name = job_name(resolved, role, job)
    before = resolved.roles[: resolved.roles.index(role)]
    group = [one for one in resolved.roles if one.group == role.group]
    found = {
        "jobset-name": resolved.name,
        "jobset-uid": uid,
        "replicatedjob-name": role.name,
        "replicatedjob-replicas": str(role.jobs),
        "global-replicas": str(sum(one.jobs for one in resolved.roles)),
        "restart-attempt": str(attempt),
        "job-index": str(job),
        "job-key": sha1(f"{namespace}/{name}".encode(), usedforsecurity=False).hexdigest(),
        "job-global-index": str(sum(one.jobs for one in before) + job),
        "group-name": role.group,
        "group-replicas": str(sum(one.jobs for one in group)),
        "job-group-index": str(sum(one.jobs for one in before if one.group == role.group) + job),
    }
    if resolved.coordinator:
        found["coordinator"] = resolved.coordinator
    return {**{f"{_JOBSET}{key}": value for key, value in found.items()}, COMPLETION_INDEX: str(index)}


def job_labels(resolved: Resolved, role: Role, job: int) -> dict[str, str]:
    """Those by which people select the pods of a batch Job, the older one as well."""
    return dict.fromkeys(("job-name", "batch.kubernetes.io/job-name"), job_name(resolved, role, job))


def job_name(resolved: Resolved, role: Role, job: int) -> str:
    """The name that JobSet's batch Job would have."""
    return f"{resolved.name}-{role.name}-{job}"
