"""Building a job's manifest from a command or a function. Pure: nothing is sent."""

import dis
import inspect
import json
import re
import shlex
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from types import CodeType
from typing import Any

from jobcommon.api.resources import parse_quantity
from jobcommon.crd import read_strictly
from jobcommon.framework import Framework

KIND = "PyTorchJob"
TORCH = "pytorch"
TORCHRUN = frozenset(("torchrun", "torch.distributed.run"))
TORCHRUN_RESTARTS = 3
LAUNCHER = "Launcher"
# The user of most images; Open MPI 4 and 5 refuse it otherwise.
_AS_ROOT = {f"{name}_ALLOW_RUN_AS_ROOT{suffix}": "1" for name in ("OMPI", "PRTE") for suffix in ("", "_CONFIRM")}

_REPORTS = re.compile(r"report_progress\(|\b(?:transformers|trl)\b[\s\S]*Trainer\(")


def build_job(
    name: str, *, image: str, command: Sequence[str] = (), function: Callable[..., object] | None = None,
    arguments: Mapping[str, Any] | None = None, kind: str = KIND, replicas: int | Mapping[str, int] = 1,
    resources: Mapping[str, str | int] | None = None, env: Mapping[str, str] | None = None,
    run_policy: Mapping[str, Any] | None = None, pod: Mapping[str, Any] | None = None, namespace: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The manifest of a job that runs `command`, or calls `function` with `arguments`, in every replica.

    The source of `function` is sent, not its surroundings: it must be written with ``def``, import what it uses inside, and use
    no variables from outside. `arguments` are passed by keyword, as JSON. `replicas` is the number of processes, of which a
    Master is the first, or a number for each replica type. An MPIJob starts a function by ``mpirun``, and runs a command in the
    launcher alone. `resources` are limits (``{"nvidia.com/gpu": 1}``), `run_policy` and `pod` are fields of ``spec.runPolicy``
    and of the pods' spec, as in a manifest; ``reportProgress`` is set for a function that calls `report_progress` or has a
    ``Trainer`` of transformers. A program that exits with a code from 1 to 127 fails the job, also if it noticed a lost node
    before the operator did. If one is killed or evicted, all are started again, unless `run_policy` sets ``restartScope`` to
    ``Pod``. As torchrun ends with exit code 1 in either case, any failure of it is, up to three times. Raises ValueError if
    that is no valid job, or has unknown fields; the text names the field.
    """
    framework = framework_of(kind)
    if function is not None:
        if command:
            raise ValueError("command: a function is given, too; give only one of them")
        command = ["python", "-c", program(function, arguments or {})]
    elif isinstance(command, str):
        raise ValueError(f"command: {command!r} is one string; give a list, as in {shlex.split(command)!r}")
    elif arguments:
        raise ValueError("arguments: they are for a function; append those of a command to the command")
    torchrun = framework.name == TORCH and not TORCHRUN.isdisjoint(command)
    if isinstance(replicas, int) and replicas < 1:
        raise ValueError(f"replicas: {replicas} is too few; use 1 or more")
    for name in filter(vendors, resources or {}):
        raise ValueError(f"resources: Kubernetes has no resource {name}; use {vendors(name)}")
    counts = counts_of(framework, replicas) if isinstance(replicas, int) else dict(replicas)
    # torchrun is restarted after an error of its program, too, and not for ever.
    limit = {"backoffLimit": TORCHRUN_RESTARTS} if torchrun else {}
    reports = report_policy(command[-1]) if function is not None else {}
    manifest = job_of(
        framework, name, image=image, command=command, counts=counts, resources=resources or {}, env=env or {}, pod=pod or {},
        run_policy={**limit, **reports, **(run_policy or {})}, torchrun=torchrun, ranks=function is not None,
    )  # fmt: skip
    manifest["metadata"] |= {"namespace": namespace} if namespace else {}
    check(framework, manifest)
    return manifest


def job_of(
    framework: Framework, name: str, *, image: str, command: Sequence[str], counts: Mapping[str, int],
    resources: Mapping[str, str | int], env: Mapping[str, str], pod: Mapping[str, Any], run_policy: Mapping[str, Any],
    torchrun: bool, ranks: bool,
) -> dict[str, Any]:  # fmt: skip
    """The manifest of a job, not checked yet. `torchrun`: the command starts the processes of a replica.

    `ranks`: the command is the program of one process, which a launcher starts by ``mpirun``.
    """
    policies, specs = {one.name: one.restart_policies for one in framework.replica_types}, dict[str, Any]()
    for of_type, count in counts.items():
        start = Start(tuple(command)) if of_type == LAUNCHER or LAUNCHER not in counts else Start()
        if of_type == LAUNCHER and ranks:
            start = by_mpirun(command, counts.get("Worker", 1), env)
        container: dict[str, Any] = {"name": framework.container or "main", "image": image}
        if start.command:
            container["command"] = list(start.command)
        single = one_process(framework, resources) if ranks and not torchrun and "Master" in counts else {}
        if variables := {**start.env, **single, **env}:
            container["env"] = [{"name": key, "value": value} for key, value in variables.items()]
        if limits := limits_of(of_type, resources):
            container["resources"] = {"limits": limits}
        policy = "OnFailure" if torchrun else "ExitCode" if "ExitCode" in policies.get(of_type, ()) else "Never"
        spec = {"containers": [container], **pod}
        specs[of_type] = {"replicas": count, "restartPolicy": policy, "template": {"spec": spec}}
    return {
        "apiVersion": framework.api_version,
        "kind": framework.kind,
        "metadata": {"name": name},
        "spec": {"runPolicy": {"restartScope": "Job", **run_policy}, framework.replica_specs: specs},
    }


def check(framework: Framework, manifest: Mapping[str, Any]) -> None:
    """Raises ValueError for errors that the operator, or an API server with strict field validation, would report."""
    if errors := read_strictly(framework, manifest)[1]:
        raise ValueError("\n".join(map(str, errors)))


def vendors(resource: str) -> str:
    """The name that Kubernetes has for a resource that many misname, such as gpu; "" for another."""
    known = {"gpu": "nvidia.com/gpu", "gpus": "nvidia.com/gpu", "cuda": "nvidia.com/gpu", "tpu": "google.com/tpu"}
    return known.get(resource, "")


def report_policy(*sources: str) -> dict[str, bool]:
    """The field of runPolicy for programs of which one calls `report_progress`, or has a trainer of transformers."""
    return {"reportProgress": True} if any(map(_REPORTS.search, sources)) else {}


@dataclass(frozen=True)
class Start:
    """How a replica is started: its command, empty if the operator sets it, and variables that it needs for that."""

    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


def by_mpirun(command: Sequence[str], ranks: int, env: Mapping[str, str]) -> Start:
    """The launcher of `ranks` processes of `command`, by Open MPI, which is an MPIJob's default.

    What its shell on the workers starts has the PATH and the variables of the pod only if they are passed on.
    """
    passed = [part for name in ("PATH", *env) for part in ("-x", name)]
    return Start(("mpirun", *passed, "-n", str(ranks), *command), _AS_ROOT)


def limits_of(of_type: str, resources: Mapping[str, str | int]) -> dict[str, str]:
    """The limits of a replica: a launcher computes nothing, and one with devices would run ranks, too."""
    return {name: str(amount) for name, amount in resources.items() if of_type != LAUNCHER or "/" not in name}


def one_process(framework: Framework, resources: Mapping[str, str | int]) -> dict[str, str]:
    """What torchrun sets and a script reads, for a PyTorchJob that starts one process in each pod.

    Nothing where the pod has several devices: Lightning and others start a process for each, unless LOCAL_RANK says that this
    was done.
    """
    limit = parse_quantity("1").nanos
    several = any("/" in name and parse_quantity(str(amount)).nanos > limit for name, amount in resources.items())
    if framework.name != TORCH or several:
        return {}
    return {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "GROUP_RANK": "$(RANK)"}


def program(function: Callable[..., object], arguments: Mapping[str, Any]) -> str:
    """A Python program that calls `function` with `arguments`, as text for a container's command. Raises ValueError."""
    title = getattr(function, "__qualname__", repr(function))
    if not inspect.isfunction(function) or function.__name__ == "<lambda>" or inspect.iscoroutinefunction(function):
        raise ValueError(f"function {title}: only a plain function, written with def, can be sent")
    used = {*function.__code__.co_freevars, *_globals(function.__code__).intersection(function.__globals__)}
    if outside := ", ".join(sorted(used - {function.__name__, "__name__"})):
        raise ValueError(f"function {title}: it uses {outside} from outside; import it inside, or pass it in arguments")
    try:
        source = textwrap.dedent(inspect.getsource(function))
        given = json.dumps(dict(arguments))
    except OSError:
        raise ValueError(f"function {title}: its source cannot be read; define it in a file or in a notebook") from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"arguments: {error}; they are sent as JSON") from None
    if source.startswith("@"):
        raise ValueError(f"function {title}: its decorators cannot be sent; call them inside")
    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as error:
        raise ValueError(f"arguments: {title}: {error}") from None
    # Annotations are not evaluated: what they name is not there. Kubernetes reads $(NAME) in a command, and $$ as one $.
    text = f"from __future__ import annotations\nimport json\n{source}\n{function.__name__}(**json.loads({given!r}))\n"
    return text.replace("$", "$$")


@cache
def framework_of(kind: str) -> Framework:
    """The installed framework of a kind, as in PyTorchJob, pytorchjob or pytorch. Raises ValueError for an unknown one."""
    known: list[str] = []
    broken = ""
    for entry in sorted(entry_points(group="jobcommon.frameworks"), key=lambda entry: entry.name):
        try:
            framework: Framework = entry.load()
        except Exception as error:  # A third party's may be broken; the others are not.
            broken += f"; {entry.name} cannot be loaded: {type(error).__name__}: {error}"
            continue
        if kind.lower() in (framework.singular, framework.plural, framework.name):
            return framework
        known.append(framework.kind)
    raise ValueError(f'kind "{kind}": this kind of job is not installed; use one of {", ".join(known)}{broken}')


def counts_of(framework: Framework, processes: int) -> dict[str, int]:
    """The number of replicas by type. A Master that comes first is a process of its own: the one of rank 0.

    Raises ValueError for a framework without workers.
    """
    names = [kind.name for kind in framework.replica_types]
    if framework.related:
        raise ValueError(f"{framework.kind}: another object says what its replicas are; write its manifest")
    if "Worker" not in names:
        raise ValueError(f"{framework.kind}: it has no replica type Worker; give a number for each replica type")
    if names[0] == "Master":
        return {"Master": 1, **({"Worker": processes - 1} if processes > 1 else {})}
    # What workers cannot do without comes before them; what comes after is for jobs of another form. A kind whose workers are
    # no form of their own (MXNet's) has servers beside them.
    before, worker = framework.replica_types[: names.index("Worker")], framework.replica_types[names.index("Worker")]
    needed = [one for one in before if one.required or one.min_replicas or (one.serves and worker.min_replicas)]
    return {**{one.name: 1 for one in needed}, "Worker": processes}


def _globals(code: CodeType) -> set[str]:
    """The names that code looks up outside of itself, inner functions included."""
    own = {str(one.argval) for one in dis.get_instructions(code) if one.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return own.union(*(_globals(inner) for inner in code.co_consts if isinstance(inner, CodeType)))
