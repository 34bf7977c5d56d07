"""The sandbox of one pod's containers: directories, volumes, names, environment."""

import contextlib
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localcluster.credentials import write_secret
from localcluster.kubelet import fallback, images, service_account, volumes
from localcluster.kubelet.api import object_path
from localcluster.kubelet.environment import ConfigError, command_line, container_environment, expand, references
from localcluster.kubelet.hosts import hostname
from localcluster.kubelet.lifecycle import Container, Pod
from localcluster.kubelet.options import Shared
from localcluster.kubelet.process import Launch
from localcluster.request import StatusError

_PLURALS = {
    "ConfigMap": "configmaps",
    "Secret": "secrets",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "ServiceAccount": "serviceaccounts",
}
_RESOLVER_FILES = ("/etc/hosts", "/etc/resolv.conf", "/etc/hostname")
# Where the interpreter's programs are found by a user who may not enter the directory that they are in.
_PROGRAMS = "/run/localcluster/bin"
# Where pods have port spaces of their own (shim/ports.py), a listener on a fixed port of all addresses is moved to its pod's
# address. Open MPI takes the first free one from 1024 on, but tells its peers the machine's addresses: nothing listens there.
# A port that the kernel chooses (0) stays on all addresses.
_OWN_PORTS = {"OMPI_MCA_btl_tcp_port_min_v4": "0"}
# What images whose pods reach each other by ssh bring, as those of mpi-operator: a pod's host key is known to no other pod, and
# sshd does not start without its directory, which only the init of a machine makes.
_SSH_CONFIG = "Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n"
_SSH_CONFIGS = Path("/etc/ssh/ssh_config.d")
_SSHD_STATE = Path("/run/sshd")

Fetched = dict[tuple[str, str], dict[str, Any] | None]


@dataclass
class VolumeError(ConfigError):
    """A volume of the pod cannot be set up yet."""

    reason: str = "ContainerCreating"
    event: str = "FailedMount"


class Sandbox:
    """Prepares directories, volumes and environment for the containers of one pod."""

    def __init__(self, shared: Shared, pod: Pod) -> None:
        self._shared = shared
        self._uid: str = pod["metadata"]["uid"]
        self._dir = shared.pod_dir(self._uid)
        self._roots: dict[str, Path] | None = None
        self._projected: dict[str, volumes.Volume] = {}

    async def setup(self, pod: Pod) -> None:
        """Make the pod's volumes and name files; done once. Raises VolumeError while something is missing."""
        if self._roots is not None:
            return
        etc = self._dir / "etc"
        etc.mkdir(parents=True, exist_ok=True)
        (self._dir / "volumes").mkdir(mode=0o700, exist_ok=True)
        roots: dict[str, Path] = {}
        for volume in (*(pod["spec"].get("volumes") or ()), *await self._access(pod)):
            try:
                roots[volume["name"]] = await self._root(pod, volume)
            except VolumeError:
                raise
            except (ConfigError, OSError) as error:
                raise VolumeError(f'MountVolume.SetUp failed for volume "{volume["name"]}" : {error}') from None
        (etc / "hostname").write_text(f"{hostname(pod)}\n")
        (etc / "resolv.conf").write_text(_resolver_config())
        self._shared.names.open(self._uid, etc / "hosts")
        self._roots = roots

    async def _access(self, pod: Pod) -> list[volumes.Volume]:
        """The volume with the ServiceAccount's token, if the pod gets one."""
        if not self._shared.options.server_url:
            return []
        name = _account(pod)
        (account,) = (await self._fetch(pod, [("ServiceAccount", name)])).values()
        if account is None:
            raise VolumeError(f'serviceaccount "{name}" not found')
        return [service_account.access_volume()] if service_account.automounts(pod, account) else []

    async def _root(self, pod: Pod, volume: volumes.Volume) -> Path:
        place = self._dir / "volumes" / str(volume["name"])
        wanted = volumes.volume_references(volume)
        if volumes.is_projected(volume):
            place.mkdir(exist_ok=True)
            await self._project(pod, volume, place)
            self._projected[volume["name"]] = volume
            return place
        for (kind, name), item in (await self._fetch(pod, wanted)).items():
            if item is None:
                raise VolumeError(f'{kind.lower()} "{name}" not found')
        return volumes.plain_directory(volume, pod, place, self._shared.options.data_dir / "claims")

    async def _project(self, pod: Pod, volume: volumes.Volume, place: Path) -> None:
        objects = await self._fetch(pod, volumes.volume_references(volume))
        group = (pod["spec"].get("securityContext") or {}).get("fsGroup") if os.geteuid() == 0 else None
        files = volumes.projected_files(pod, volume, objects, await self._tokens(pod, volume))
        volumes.write_files(place, files, group)

    async def _tokens(self, pod: Pod, volume: volumes.Volume) -> dict[str, str]:
        tokens: dict[str, str] = {}
        for source in volumes.sources(volume):
            if "serviceAccountToken" in source:
                audience = source["serviceAccountToken"].get("audience") or ""
                path = object_path("serviceaccounts", pod["metadata"]["namespace"], _account(pod), "token")
                spec = {
                    "audiences": [audience] if audience else [],
                    "expirationSeconds": source["serviceAccountToken"].get("expirationSeconds") or 3600,
                    "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": self._uid},
                }
                body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
                try:
                    answer = await self._shared.api.call("POST", path, body)
                except StatusError as error:
                    if error.code != 404:
                        raise
                    raise ConfigError(f"failed to fetch token: {error}") from None
                tokens[audience] = answer["status"]["token"]
        return tokens

    async def refresh(self, pod: Pod, changed: tuple[str, str] | None) -> None:
        """Bring mounted files up to date after a change of `changed` (None: of the pod itself)."""
        for name, volume in self._projected.items():
            wanted = volumes.volume_references(volume)
            follows_pod = any("downwardAPI" in source for source in volumes.sources(volume))
            if changed in wanted or (changed is None and follows_pod):
                # Files of deleted objects are kept, as on a real node.
                with contextlib.suppress(ConfigError):
                    await self._project(pod, volume, self._dir / "volumes" / name)

    async def launch(self, pod: Pod, container: Container, attempt: int) -> Launch:
        """Everything needed to start a container. Raises ConfigError or VolumeError."""
        # As a kubelet does, which reads an image when volumes and network are there.
        await self.setup(pod)
        image = str(container.get("image") or "")
        if image and (fault := images.fault(image)):
            raise ConfigError(fault, "InvalidImageName", "InspectFailed", final=True)
        options, isolation = self._shared.options, self._shared.isolation
        objects = await self._fetch(pod, references(container))
        address = "" if pod["spec"].get("hostNetwork") else pod["status"]["podIP"]
        own = container_environment(pod, container, objects, options.capacity, self._services())
        argv = command_line(container, own)
        if not argv:
            raise ConfigError(
                f'image "{container.get("image") or ""}" is not pulled: the embedded cluster runs commands of this machine. '
                f"Give container {container['name']!r} a command.",
                "ErrImageNeverPull",
                final=True,
            )
        mounts = self._mounts(container, own)
        log = self._shared.log_path(self._uid, container["name"], attempt)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.touch()
        own_ports = _OWN_PORTS if isolation.namespaces and address else {}
        as_root = os.geteuid() == 0 and not isolation.user_namespace
        uid, gid, groups = identity(pod, container) if as_root else (None, None, ())
        inherited = dict(options.environment)
        if uid and isolation.namespaces:
            # The way to the programs of this environment may lead through a directory of root's, such as its home.
            mounts.append((str(options.python.parent), _PROGRAMS, True))
            inherited["PATH"] = f"{inherited.get('PATH') or os.defpath}{os.pathsep}{_PROGRAMS}"
        env = {**own_ports, **inherited, "HOSTNAME": hostname(pod), **own}
        cwd = container.get("workingDir") or str(options.working_dir)
        if isolation.namespaces and any(target.endswith("/.ssh") for _, target, _ in mounts):
            mounts += self._ssh_mounts()
        message = self.message_file(container, attempt)
        message.parent.mkdir(exist_ok=True)
        message.touch()
        message.chmod(0o666)
        mounts.append((str(message), container.get("terminationMessagePath") or "/dev/termination-log", False))
        if not isolation.namespaces:
            argv, env, cwd = fallback.rewrite(argv, env, cwd, mounts, hostname(pod))
        return Launch(
            argv, env, isolation, cwd=cwd, cwd_chosen=bool(container.get("workingDir")), uid=uid, gid=gid, groups=groups,
            hostname=hostname(pod), address=address, mounts=(*self._name_mounts(), *self._no_kubeconfig(), *mounts),
            log=log, log_bytes=options.log_bytes,
        )  # fmt: skip

    def message_file(self, container: Container, attempt: int) -> Path:
        """Where a run leaves its termination message."""
        return self._dir / "messages" / f"{container['name']}-{attempt}"

    def _name_mounts(self) -> list[tuple[str, str, bool]]:
        # On a machine without one of these files nothing reads it.
        return [(str(self._dir / path[1:]), path, False) for path in _RESOLVER_FILES if Path(path).exists()]

    def _ssh_mounts(self) -> list[tuple[str, str, bool]]:
        config, state = self._dir / "ssh_config", self._dir / "sshd"
        config.write_text(_SSH_CONFIG)
        state.mkdir(mode=0o755, exist_ok=True)
        found = [(str(config), str(_SSH_CONFIGS / "localcluster.conf"), True)] if _SSH_CONFIGS.is_dir() else []
        return found if _SSHD_STATE.exists() else [*found, (str(state), str(_SSHD_STATE), False)]

    def _services(self) -> dict[str, str]:
        """How the API server is found. Without mounts, clients cannot use the paths, but they can use a kubeconfig."""
        options = self._shared.options
        if not options.server_url:
            return {}
        if self._shared.isolation.namespaces:
            return service_account.server_environment(options.server_url)
        volume = (self._roots or {}).get(service_account.VOLUME)
        if volume is None:
            return {}
        path = self._dir / "kubeconfig"
        write_secret(path, service_account.kubeconfig_of(options.server_url, volume).encode())
        return {"KUBECONFIG": str(path)}

    def _no_kubeconfig(self) -> list[tuple[str, str, bool]]:
        """Hides the user's own kubeconfig: kubectl would prefer it to the ServiceAccount and reach another cluster."""
        options = self._shared.options
        path = Path(options.environment.get("HOME") or "/") / ".kube/config"
        return [("/dev/null", str(path), False)] if options.server_url and path.is_file() else []

    def _mounts(self, container: Container, env: dict[str, str]) -> list[tuple[str, str, bool]]:
        mounts = []
        wanted = [*(container.get("volumeMounts") or ())]
        if service_account.VOLUME in (self._roots or {}):
            wanted += service_account.access_mounts(container)
        for mount in wanted:
            root = (self._roots or {}).get(mount["name"])
            if root is None:
                raise ConfigError(f"volumeMount {mount['name']!r}: the pod has no volume of that name")
            # normpath keeps two leading slashes, and no command line has them.
            target = os.path.normpath(f"/{mount['mountPath'].lstrip('/')}")
            if target == "/":
                raise ConfigError(f"volumeMount {mount['name']!r}: mountPath must not be /")
            read_only = bool(mount.get("readOnly")) or mount["name"] in self._projected
            mounts.append((str(volumes.mount_source(root, mount, env, expand)), target, read_only))
        return mounts

    async def _fetch(self, pod: Pod, wanted: Iterable[tuple[str, str]]) -> Fetched:
        """The referred objects, read now: a cache of them could lag behind the pod that needs them."""
        namespace = pod["metadata"]["namespace"]
        return {
            (kind, name): await self._shared.api.get(object_path(_PLURALS[kind], namespace, name))
            for kind, name in sorted(wanted)
        }

    def remove(self) -> None:
        """Delete everything of the pod, logs included."""
        self._shared.names.close(self._uid)
        shutil.rmtree(self._dir, ignore_errors=True)


def _resolver_config() -> str:
    """A pod's resolv.conf: the host's, with a short timeout.

    No cluster search domains: the hosts file contains every existing cluster name in all the forms that a search finds, and
    searching would only send names that do not exist yet to a real DNS server.
    """
    try:
        return Path("/etc/resolv.conf").read_text().rstrip("\n") + "\noptions timeout:1 attempts:1\n"
    except OSError:
        return ""


def _account(pod: Pod) -> str:
    return pod["spec"].get("serviceAccountName") or "default"


def identity(pod: Pod, container: Container) -> tuple[int | None, int | None, tuple[int, ...]]:
    """User, group and supplementary groups by the security contexts; the container's own come first."""
    outer, inner = pod["spec"].get("securityContext") or {}, container.get("securityContext") or {}
    uid = inner.get("runAsUser", outer.get("runAsUser"))
    gid = inner.get("runAsGroup", outer.get("runAsGroup"))
    groups = [*(outer.get("supplementalGroups") or []), *([outer["fsGroup"]] if "fsGroup" in outer else [])]
    if uid is not None and gid is None:
        gid = 0
    if gid is None and groups:
        gid = os.getgid()
    return uid, gid, tuple(groups)
