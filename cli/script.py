"""A job from a script alone: ``jobcommon run train.py --workers 3``."""

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobcommon.api.resources import parse_quantity
from jobcommon.cli.errors import UserError
from jobcommon.cli.frameworks import chosen
from jobcommon.cli.manifests import Manifest
from jobcommon.framework import Framework
from jobcommon.sdk.build import LAUNCHER, TORCH, counts_of, job_of, report_policy, vendors

MOUNT = "/scripts"
#: Of the name of the ConfigMap with a job's script.
SCRIPT_SUFFIX = "-script"
# An API server takes objects of up to 1 MiB; the rest of the ConfigMap needs some, too.
MAX_BYTES = 1_000_000
BACKOFF_LIMIT = 3
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,40}[a-z0-9])?")
LOCAL_IMAGE = "none"


@dataclass(frozen=True)
class Script:
    """What the command line says of a job. `image` None: it runs here, from this environment."""

    path: str
    arguments: tuple[str, ...] = ()
    workers: int = 1
    framework: str = "pytorch"
    image: str | None = None
    name: str | None = None
    include: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    nproc_per_node: int | None = None
    report_progress: bool = False

    def manifests(self, *, unique: bool = False) -> list[Manifest]:
        """The job, and on a cluster before it the ConfigMap with the script. `unique`: with a name that is not in use yet.

        Raises `UserError` for files that cannot be read or are too large, and for options that make no job.
        """
        (framework,) = chosen([self.framework])
        if self.nproc_per_node is not None and framework.name != TORCH:
            raise UserError(f"--nproc-per-node: applies to torchrun, so to --framework {TORCH}, not {framework.name}")
        files = {path.name: text for path, text in map(_read, (self.path, *self.include))}
        if self.image is None and self.include:
            raise UserError("--include: applies to --image; without it the script reads the files of this machine in place")
        name = self.name or _name_of(self.path) + (f"-{secrets.token_hex(3)}" if unique else "")
        if _NAME.fullmatch(name) is None:
            raise UserError(f'--name {name}: use up to 42 lower-case letters, digits and "-", beginning with a letter')
        reports = {"reportProgress": True} if self.report_progress else report_policy(*files.values())
        bodies = [_job(framework, self, name, reports)]
        if self.image is not None:
            bodies.insert(0, _config_map(name, files, self.path))
        owned = self.image is not None
        return [Manifest(self.path, 1, body, owned=owned and body["kind"] == "ConfigMap") for body in bodies]


def _read(name: str) -> tuple[Path, str]:
    path = Path(name)
    try:
        return path, path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{name}: no such file; give the path of a script on this machine, or a manifest with -f") from None
    except UnicodeDecodeError:
        raise UserError(f"{name}: is not text; a ConfigMap delivers scripts, put other files into the image") from None
    except OSError as error:
        raise UserError(f"{name}: cannot be read: {error.strerror}") from None


def _config_map(name: str, files: dict[str, str], script: str) -> dict[str, Any]:
    size = sum(len(text.encode()) + len(file) for file, text in files.items())
    if size > MAX_BYTES:
        raise UserError(
            f"{script}: the files have {size:,} bytes, and a ConfigMap holds at most {MAX_BYTES:,}; put them into the image, "
            "and give a manifest with -f that starts them there"
        )
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{name}{SCRIPT_SUFFIX}"}, "data": files}


def _job(framework: Framework, script: Script, name: str, reports: dict[str, bool]) -> dict[str, Any]:
    try:
        counts = counts_of(framework, script.workers)
    except ValueError as error:
        raise UserError(f"--framework {framework.name}: {error}; a manifest is run with -f") from None
    here, torchrun = script.image is None, script.nproc_per_node is not None
    volumes = [{"name": "script", "configMap": {"name": f"{name}{SCRIPT_SUFFIX}"}}]
    job = job_of(
        framework, name, image=script.image or LOCAL_IMAGE, command=[*_start(script), *script.arguments], counts=counts,
        resources=_amounts(script.resources), env=dict(map(_variable, script.env)), pod={} if here else {"volumes": volumes},
        run_policy={"backoffLimit": BACKOFF_LIMIT, **reports}, torchrun=torchrun, ranks=True,
    )  # fmt: skip
    if torchrun:
        job["spec"]["nprocPerNode"] = str(script.nproc_per_node)
    if LAUNCHER in counts and here:
        # ssh between pods of this machine needs sshd and root.
        job["spec"]["transport"] = "Exec"
    for spec in job["spec"][framework.replica_specs].values():
        if not here:
            spec["template"]["spec"]["containers"][0]["volumeMounts"] = [{"name": "script", "mountPath": MOUNT}]
        elif torchrun:
            # The exit code of torchrun is 1 whatever ended its program. Here it is tried, and nothing else is likely to end it.
            spec["restartPolicy"] = "Never"
    return job


def _start(script: Script) -> list[str]:
    path = str(Path(script.path).resolve()) if script.image is None else f"{MOUNT}/{Path(script.path).name}"
    torchrun = ["-m", "torch.distributed.run"] if script.nproc_per_node is not None else []
    return ["python", *torchrun, path]


def _variable(pair: str) -> tuple[str, str]:
    name, equals, value = pair.partition("=")
    if not equals or not name:
        raise UserError(f"--env {pair}: write a name and a value, such as EPOCHS=3")
    return name, value


def _amounts(given: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in (pair for text in given for pair in text.split(",")):
        name, equals, amount = pair.strip().partition("=")
        if vendor := vendors(name):
            raise UserError(f"--resources {pair}: Kubernetes has no resource {name}; write {vendor}={amount or 1}")
        if not equals or not name or not _is_amount(amount):
            raise UserError(
                f"--resources {pair}: write a resource and an amount, such as cpu=4, memory=16Gi or nvidia.com/gpu=1"
            )
        found[name] = amount
    return found


def _is_amount(text: str) -> bool:
    try:
        return parse_quantity(text).nanos >= 0
    except ValueError:
        return False


def _name_of(path: str) -> str:
    name = re.sub(r"[^a-z0-9]+", "-", Path(path).stem.lower()).strip("-")[:30].strip("-")
    return name if name[:1].isalpha() else f"job-{name}".rstrip("-")
