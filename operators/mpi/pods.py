"""What the pods of an MPIJob need beyond their templates: mounts, the workers' command, the launcher's identity."""

from collections.abc import Mapping
from typing import Any

from jobcommon import Job, Replica, labels, mapping_of, mount, ssh_volume
from jobcommon.operators.mpi.hosts import KUBECTL
from jobcommon.operators.mpi.job import (
    CONFIG_PATH,
    DISCOVER_HOSTS,
    HOSTFILE,
    KUBEXEC,
    LAUNCHER,
    mpi_options,
    ssh_path,
    transport,
)
from jobcommon.operators.mpi.spec import LauncherTransport

Manifest = dict[str, Any]

SSH_VOLUME, CONFIG_VOLUME, KUBECTL_VOLUME = "ssh-auth", "mpi-job-config", "mpi-job-kubectl"
_KUBECTL_DIR = KUBECTL.rpartition("/")[0]
NOBODY = 65534
_READ, _RUN = 0o444, 0o555
_WORKER_COMMANDS = {LauncherTransport.SSH: ["/usr/sbin/sshd", "-De"], LauncherTransport.EXEC: ["sleep", "365d"]}


def shape_pod(job: Job, replica: Replica, pod: Manifest) -> Manifest:
    """The pod with its mounts in the first container and, for a worker without a command, that which waits for mpirun."""
    spec = pod["spec"]
    is_launcher = replica.type == LAUNCHER
    if transport(job) == LauncherTransport.SSH:
        pod["metadata"]["labels"][labels.JOB_ROLE] = replica.type.lower()
        mount(spec, ssh_volume(SSH_VOLUME, ssh_secret(job), ssh_path(job), spec), ssh_path(job))
        if is_launcher:
            mount(spec, _config_volume(job, {HOSTFILE: _READ, DISCOVER_HOSTS: _RUN}), CONFIG_PATH)
    elif is_launcher:
        mount(spec, {"name": KUBECTL_VOLUME, "emptyDir": {}}, _KUBECTL_DIR)
        mount(spec, _config_volume(job, {KUBEXEC: _RUN, HOSTFILE: _READ, DISCOVER_HOSTS: _RUN}), CONFIG_PATH)
        spec["initContainers"] = [*(spec.get("initContainers") or ()), _kubectl_delivery(job, spec)]
        spec["serviceAccountName"] = service_account(job, spec)
    else:
        # Open MPI looks for its remote shell on every node, though the launcher alone runs it.
        mount(spec, _config_volume(job, {KUBEXEC: _RUN}), CONFIG_PATH)
    main = spec["containers"][0]
    if not is_launcher and not main.get("command") and not main.get("args"):
        main["command"] = _WORKER_COMMANDS[transport(job)]
    return pod


def service_account(job: Job, pod_spec: Mapping[str, Any]) -> str:
    """The launcher's ServiceAccount: the user's, or one of the job's own."""
    return str(pod_spec.get("serviceAccountName") or own_service_account(job))


def own_service_account(job: Job) -> str:
    """The name of the job's ServiceAccount, Role and RoleBinding."""
    return f"{job.name}-launcher"


def config_name(job: Job) -> str:
    """The name of the job's ConfigMap."""
    return f"{job.name}-config"


def ssh_secret(job: Job) -> str:
    """The name of the Secret with the job's keys."""
    return f"{job.name}-ssh"


def _config_volume(job: Job, modes: Mapping[str, int]) -> Manifest:
    items = [{"key": name, "path": name, "mode": mode} for name, mode in modes.items()]
    return {"name": CONFIG_VOLUME, "configMap": {"name": config_name(job), "items": items}}


def _kubectl_delivery(job: Job, pod_spec: Mapping[str, Any]) -> Manifest:
    """Copies kubectl into the launcher, whose image need not have it. Pod Security "restricted" admits it."""
    copy = f'path=$(command -v kubectl || kubectl) && cp "$path" {KUBECTL}'
    amounts = {"cpu": "100m", "memory": "512Mi"}
    return {
        "name": "kubectl-delivery",
        "image": mpi_options(job).kubectl_image,
        "command": ["/bin/sh", "-c", copy],
        "resources": {"limits": amounts, "requests": amounts},
        "volumeMounts": [{"name": KUBECTL_VOLUME, "mountPath": _KUBECTL_DIR}],
        "securityContext": _unprivileged(pod_spec),
    }


def _unprivileged(pod_spec: Mapping[str, Any]) -> Manifest:
    """The pod's own user if it names one that is not root; the image's may be."""
    context = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    return context if mapping_of(pod_spec.get("securityContext")).get("runAsUser") else {**context, "runAsUser": NOBODY}
