"""MPI over ssh: what a job's pods need for mpirun to reach them, whatever kind of job it is."""

from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Any

from jobcommon.api.template import mapping_of
from jobcommon.framework import EnvVar

_Json = dict[str, Any]
_OWNER_ONLY, _ALL_READ = 0o600, 0o644
# The sshd of a worker may not listen yet, and its name may not be known yet.
SSH_ARGS = "-o ConnectionAttempts=10"


def new_ssh_keys() -> Mapping[str, Any]:
    """The `data` of a Secret of type kubernetes.io/ssh-auth: a fresh ECDSA key on P-521, as mpi-operator makes them.

    P-521 is approved by FIPS 140, so that it works in every image; Ed25519 is not everywhere.
    """
    # 8 MB of memory, which an operator without such jobs need not have.
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    key = ec.generate_private_key(ec.SECP521R1())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) + b"\n"
    return {"data": {"ssh-privatekey": b64encode(private).decode(), "ssh-publickey": b64encode(public).decode()}}


def ssh_volume(name: str, secret: str, path: str, pod_spec: Mapping[str, Any]) -> _Json:
    """The volume with the keys in `secret`, to be mounted at `path` in the first container."""
    items = (
        ("ssh-privatekey", "id_rsa", _private_key_mode(path, pod_spec)),
        ("ssh-publickey", "id_rsa.pub", _ALL_READ),
        ("ssh-publickey", "authorized_keys", _ALL_READ),
    )
    files = [{"key": key, "path": file, "mode": mode} for key, file, mode in items]
    return {"name": name, "secret": {"secretName": secret, "items": files}}


def _private_key_mode(path: str, pod_spec: Mapping[str, Any]) -> int:
    """0600, or 0644 for a user other than root.

    The files of a volume belong to root. ssh refuses a key of the user's own that others can read, so root needs 0600; any
    other user can read the file only if others may, and ssh does not mind, because the file is not the user's own. With
    an fsGroup the kubelet itself adds what the group needs. Where the manifest does not name the user, the path decides.
    """
    pod_context = mapping_of(pod_spec.get("securityContext"))
    context = {**pod_context, **mapping_of(pod_spec["containers"][0].get("securityContext"))}
    user = context.get("runAsUser")
    root = user == 0 if user is not None else not context.get("runAsNonRoot") and not path.startswith("/home/")
    return _OWNER_ONLY if root or pod_context.get("fsGroup") is not None else _ALL_READ


def mount(pod_spec: _Json, volume: _Json, path: str) -> None:
    """Mount `volume` in the first container, after the user's own mounts."""
    pod_spec["volumes"] = [*(pod_spec.get("volumes") or ()), volume]
    main, *others = pod_spec["containers"]
    mounts = [*(main.get("volumeMounts") or ()), {"name": volume["name"], "mountPath": path}]
    pod_spec["containers"] = [{**main, "volumeMounts": mounts}, *others]


def open_mpi_hosts(addresses: Iterable[str], slots: int) -> str:
    """The lines of Open MPI's hostfile."""
    return "".join(f"{address} slots={slots}\n" for address in addresses)


def open_mpi_variables(hostfile: str, slots: int) -> list[EnvVar]:
    """What Open MPI's mpirun reads. Each name twice: version 5 reads PRRTE's only, and without them runs every rank in the
    launcher.
    """
    return [
        EnvVar("OMPI_MCA_orte_keep_fqdn_hostnames", "true"),
        EnvVar("OMPI_MCA_orte_default_hostfile", hostfile),
        EnvVar("OMPI_MCA_plm_rsh_args", SSH_ARGS, default=True),
        EnvVar("OMPI_MCA_orte_set_default_slots", str(slots)),
        EnvVar("PRTE_MCA_prte_keep_fqdn_hostnames", "true"),
        EnvVar("PRTE_MCA_prte_default_hostfile", hostfile),
        EnvVar("PRTE_MCA_plm_ssh_args", SSH_ARGS, default=True),
        EnvVar("PRTE_MCA_prte_set_default_slots", str(slots)),
    ]
