"""How a kubelet is set up, and what its parts share."""

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from localcluster.kubelet.api import Api
from localcluster.kubelet.events import EventRecorder
from localcluster.kubelet.hosts import Names
from localcluster.kubelet.lifecycle import Settings
from localcluster.kubelet.node import machine_capacity
from localcluster.kubelet.process import Isolation
from localcluster.kubelet.service_account import FOREIGN

PYTHON = Path(sys.executable).with_name("python")
"""The interpreter of this process."""


def host_environment(python: Path = PYTHON) -> dict[str, str]:
    """The environment that every container inherits: that of this process, with `python` first on PATH.

    It is then the interpreter that commands call by that name. Another cluster that the environment leads to is left out, and
    so is how Python writes: the lines of ranks that share an output are whole only if each is one write.
    """
    path = os.environ.get("PATH") or os.defpath
    if shutil.which("python", path=path) != str(python):
        path = f"{python.parent}{os.pathsep}{path}"
    inherited = {name: value for name, value in os.environ.items() if name not in (*FOREIGN, "PYTHONUNBUFFERED")}
    return {**inherited, "PATH": path}


@dataclass(frozen=True)
class KubeletOptions:
    """Settings of one kubelet.

    `data_dir` holds logs and volumes and must exist. `server_url` is where pods reach the API server; without it they get no
    in-cluster configuration. `restart` is the restart back-off. `isolation` None: detected by
    trying. `enforce_resources` makes pods wait Pending while the node's `capacity` is used up. `stop_grace` bounds, in
    seconds, how long pods may take to end when the cluster stops. `log_bytes` is when a container's log file is rotated.
    `port` is where an API server of another process reaches this kubelet (`localcluster.kubelet.server`), `heartbeat` the
    seconds between two signs of life.
    `cluster` is the first choice of a pod network (see `AddressPool`). `python` is the interpreter that `environment` has; pods
    find the programs beside it last on their PATH when they run as another user.
    """

    data_dir: Path
    server_url: str = ""
    node_name: str = "local"
    host_address: str = "127.0.0.1"
    port: int = 0
    heartbeat: float = 10.0
    restart: Settings = field(default_factory=Settings)
    isolation: Isolation | None = None
    enforce_resources: bool = False
    capacity: Mapping[str, str] = field(default_factory=machine_capacity)
    environment: Mapping[str, str] = field(default_factory=host_environment)
    working_dir: Path = field(default_factory=Path.cwd)
    python: Path = PYTHON
    stop_grace: float = 5.0
    log_bytes: int = 64 << 20
    cluster: int = field(default_factory=lambda: os.getpid() % 200)


@dataclass(frozen=True)
class Shared:
    """What the parts of one kubelet have in common."""

    options: KubeletOptions
    isolation: Isolation
    api: Api
    names: Names
    recorder: EventRecorder
    now: Callable[[], float]

    def pod_dir(self, uid: str) -> Path:
        """The directory of one pod."""
        return self.options.data_dir / "pods" / uid

    def log_path(self, uid: str, container: str, attempt: int) -> Path:
        """The log file of one run."""
        return self.pod_dir(uid) / "logs" / container / f"{attempt}.log"
