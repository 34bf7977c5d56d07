"""What the pods of an MPIJob need beyond their templates: mounts, the workers' command, the launcher's identity."""

from collections.abc import Mapping
from typing import Any

from jobcommon import Job, Replica, labels
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
_READ, _RUN, _OWNER_ONLY, _ALL_READ = 0o444, 0o555, 0o600, 0o644
_WORKER_COMMANDS = {LauncherTransport.SSH: ["/usr/sbin/sshd", "-De"], LauncherTransport.EXEC: ["sleep", "365d"]}


def shape_pod(job: Job, replica: Replica, pod: Manifest) -> Manifest:
    """The pod with its mounts in the first container and, for a worker without a command, that which waits for mpirun."""
    spec = pod["spec"]
    is_launcher = replica.type == LAUNCHER
    if transport(job) == LauncherTransport.SSH:
        pod["metadata"]["labels"][labels.JOB_ROLE] = replica.type.lower()
        _mount(spec, _ssh_volume(job, spec), ssh_path(job))
        if is_launcher:
            _mount(spec, _config_volume(job, {HOSTFILE: _READ, DISCOVER_HOSTS: _RUN}), CONFIG_PATH)
    elif is_launcher:
        _mount(spec, {"name": KUBECTL_VOLUME, "emptyDir": {}}, _KUBECTL_DIR)
        _mount(spec, _config_volume(job, {KUBEXEC: _RUN, HOSTFILE: _READ, DISCOVER_HOSTS: _RUN}), CONFIG_PATH)
        spec["initContainers"] = [*(spec.get("initContainers") or ()), _kubectl_delivery(job, spec)]
        spec["serviceAccountName"] = service_account(job, spec)
    else:
        # Open MPI looks for its remote shell on every node, though the launcher alone runs it.
        _mount(spec, _config_volume(job, {KUBEXEC: _RUN}), CONFIG_PATH)
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


def _ssh_volume(job: Job, pod_spec: Mapping[str, Any]) -> Manifest:
    items = (
        ("ssh-privatekey", "id_rsa", _private_key_mode(job, pod_spec)),
        ("ssh-publickey", "id_rsa.pub", _ALL_READ),
        ("ssh-publickey", "authorized_keys", _ALL_READ),
    )
    secret = {"secretName": ssh_secret(job), "items": [{"key": key, "path": path, "mode": mode} for key, path, mode in items]}
    return {"name": SSH_VOLUME, "secret": secret}


def _private_key_mode(job: Job, pod_spec: Mapping[str, Any]) -> int:
    """0600, or 0644 for a user other than root.

    The files of a volume belong to root. ssh refuses a key of the user's own that others can read, so root needs 0600; any
    other user can read the file only if others may, and ssh does not mind, because the file is not the user's own. With
    an fsGroup the kubelet itself adds what the group needs. Where the manifest does not name the user, the path decides.
    """
    pod_context = _mapping(pod_spec.get("securityContext"))
    context = {**pod_context, **_mapping(pod_spec["containers"][0].get("securityContext"))}
    user = context.get("runAsUser")
    root = user == 0 if user is not None else not context.get("runAsNonRoot") and not ssh_path(job).startswith("/home/")
    return _OWNER_ONLY if root or pod_context.get("fsGroup") is not None else _ALL_READ


def _config_volume(job: Job, modes: Mapping[str, int]) -> Manifest:
    items = [{"key": name, "path": name, "mode": mode} for name, mode in modes.items()]
    return {"name": CONFIG_VOLUME, "configMap": {"name": config_name(job), "items": items}}


def _kubectl_delivery(job: Job, pod_spec: Mapping[str, Any]) -> Manifest:
    """Copies kubectl into the launcher, whose image need not have it. Pod Security "restricted" admits it."""
    copy = f'cp "$(command -v kubectl)" {KUBECTL}'
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
    return context if _mapping(pod_spec.get("securityContext")).get("runAsUser") else {**context, "runAsUser": NOBODY}


def _mount(pod_spec: Manifest, volume: Manifest, path: str) -> None:
    """Mount `volume` in the first container, after the user's own mounts."""
    pod_spec["volumes"] = [*(pod_spec.get("volumes") or ()), volume]
    main, *others = pod_spec["containers"]
    mounts = [*(main.get("volumeMounts") or ()), {"name": volume["name"], "mountPath": path}]
    pod_spec["containers"] = [{**main, "volumeMounts": mounts}, *others]


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
