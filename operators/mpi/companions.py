"""The further objects of an MPIJob: its files, its keys, and for kubectl exec its launcher's rights."""

from collections.abc import Sequence
from dataclasses import replace

from jobcommon import Companion, CompanionKind, Job, PodView, new_ssh_keys, template_for
from jobcommon.operators.mpi.hosts import files
from jobcommon.operators.mpi.job import LAUNCHER, mpi_options, transport, workers
from jobcommon.operators.mpi.pods import config_name, own_service_account, service_account, ssh_secret
from jobcommon.operators.mpi.spec import LauncherTransport

_RBAC = "rbac.authorization.k8s.io/v1"
# None of them is watched: permission to list Secrets allows reading all of them, and few change after the job's start.
KINDS = (
    CompanionKind("v1", "ConfigMap", "configmaps", watched=False),
    CompanionKind("v1", "Secret", "secrets", watched=False),
    CompanionKind("v1", "ServiceAccount", "serviceaccounts", watched=False),
    CompanionKind(_RBAC, "Role", "roles", watched=False),
    CompanionKind(_RBAC, "RoleBinding", "rolebindings", watched=False),
)


def companions(job: Job, pods: Sequence[PodView]) -> Sequence[Companion]:
    """Files and access while the job runs. Access is deleted when it ends or is suspended: a resumed job has new keys."""
    access = [_keys(job)] if transport(job) == LauncherTransport.SSH else _rights(job, pods) if mpi_options(job).exec else []
    if job.status.finished or job.suspended:
        return [replace(companion, manifest=None) for companion in access]
    return [_config(job, pods), *access]


def _config(job: Job, pods: Sequence[PodView]) -> Companion:
    manifest = {"metadata": {"labels": {"app": job.name}}, "data": files(job, pods)}
    return Companion("v1", "ConfigMap", "configmaps", config_name(job), manifest, owned_fields=("data",))


def _keys(job: Job) -> Companion:
    """The keys are made when the Secret is created and never replaced: pods that run have the old ones mounted."""
    manifest = {"metadata": {"labels": {"app": job.name}}, "type": "kubernetes.io/ssh-auth"}
    return Companion("v1", "Secret", "secrets", ssh_secret(job), manifest, owned_fields=(), generate=new_ssh_keys)


def _rights(job: Job, pods: Sequence[PodView]) -> list[Companion]:
    """The launcher may get its own workers and run commands in them, and nothing else.

    Only existing workers are named: a pod with the name of a missing one may belong to another owner (attack case S20).
    A ServiceAccount that the user names is theirs: it gets the rights, but is neither created nor deleted.
    """
    own = own_service_account(job)
    # The launcher may be what cannot be read of a job that is suspended.
    template = template_for(job.replica_specs[LAUNCHER], 0) if LAUNCHER in job.replica_specs else {}
    spec = template.get("spec")
    account = service_account(job, spec if isinstance(spec, dict) else {})
    there = {pod.name for pod in pods}
    names = [name for worker in workers(job) if (name := job.pod_name(worker)) in there]
    # kubectl opens the stream by a GET since 1.31 (WebSocket), and by a POST before.
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": names},
        {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create", "get"], "resourceNames": names},
    ]
    subjects = [{"kind": "ServiceAccount", "name": account, "namespace": job.namespace}]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": own}
    labels = {"metadata": {"labels": {"app": job.name}}}
    binding = {**labels, "roleRef": role, "subjects": subjects}
    found = [
        # Without any name the rule would be for all pods.
        Companion(_RBAC, "Role", "roles", own, {**labels, "rules": rules if names else []}, owned_fields=("rules",)),
        # What a Role of that name that is not the job's allows is unknown.
        Companion(_RBAC, "RoleBinding", "rolebindings", own, binding, owned_fields=("subjects",), after=("roles", own)),
    ]
    if account == own:
        found.insert(0, Companion("v1", "ServiceAccount", "serviceaccounts", own, labels, owned_fields=()))
    return found
