"""A pod in a line, and its steps: created, scheduled, started, ended. Pods are shown in the order of their ranks."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from jobcommon.api import labels
from jobcommon.api.pod import ContainerView, PodView, Running, Terminated, pod_view
from jobcommon.api.timestamp import parse_time
from jobcommon.cli.pod_state import describe, why
from jobcommon.framework import Framework
from jobcommon.reconcile.ending import is_over

Json = Mapping[str, Any]
_LAST = 2**31


@dataclass(frozen=True)
class Run:
    """A run of the main container, in seconds since the epoch; `end` is None while it lasts."""

    begin: float
    end: float | None
    exit_code: int | None = None
    reason: str = ""


@dataclass(frozen=True)
class PodRow:
    """A pod as the page of its job shows it. Times are seconds since the epoch; `runs` are those that are still known, and
    `ran_before` whether there were earlier ones."""

    name: str
    namespace: str
    uid: str
    replica: str
    rank: str
    state: str
    cause: str
    node: str
    restarts: int
    created: float | None
    scheduled: float | None
    deleted: float | None
    over: bool
    runs: tuple[Run, ...]
    ran_before: bool
    containers: tuple[str, ...]

    @property
    def log_path(self) -> str:
        """The address of its log."""
        return f"/pods/{self.namespace}/{self.name}/log"


def pod_rows(framework: Framework, pods: Iterable[Json]) -> Sequence[PodRow]:
    """The pods by rank: the types in the framework's order, and indexes ascending."""
    spelling = {kind.name.lower(): (place, kind.name) for place, kind in enumerate(framework.replica_types)}

    def order(pod: Json) -> tuple[int, int, str]:
        place, _ = spelling.get(_label(pod, labels.REPLICA_TYPE), (len(spelling), ""))
        return place, _index(pod), str(pod["metadata"].get("name", ""))

    return [
        pod_row(framework, pod, spelling.get(_label(pod, labels.REPLICA_TYPE), (0, "Pod"))[1])
        for pod in sorted(pods, key=order)
    ]


def pod_row(framework: Framework, pod: Json, replica_type: str) -> PodRow:
    """One pod."""
    view = pod_view(msgspec.json.encode(pod))
    main = _main(framework, view)
    index = _index(pod)
    specs = (pod.get("spec") or {}).get("containers") or ()
    inits = (pod.get("spec") or {}).get("initContainers") or ()
    runs = _runs(main)
    return PodRow(
        name=view.name,
        namespace=view.namespace,
        uid=view.uid,
        replica=f"{replica_type}-{index}" if index < _LAST else view.name,
        rank=_rank(specs, pod["metadata"].get("annotations") or {}),
        state=describe(pod),
        cause=why(view),
        node=view.node_name,
        restarts=sum(container.restart_count for container in (*view.init_containers, *view.containers)),
        created=view.creation_time,
        scheduled=_transition(pod, "PodScheduled"),
        deleted=view.deletion_time,
        over=is_over(view),
        runs=runs,
        ran_before=bool(runs) and main is not None and main.restart_count >= len(runs),
        containers=tuple(str(c["name"]) for c in (*specs, *inits) if isinstance(c, dict) and c.get("name")),
    )


def _main(framework: Framework, view: PodView) -> ContainerView | None:
    named = (container for container in view.containers if container.name == framework.container)
    return next(named, view.containers[0] if view.containers else None)


def _runs(main: ContainerView | None) -> tuple[Run, ...]:
    if main is None:
        return ()
    found = []
    for state in (main.last, main.state):
        if isinstance(state, Terminated) and state.started_at is not None:
            found.append(Run(state.started_at, state.finished_at, state.exit_code, state.reason))
        elif isinstance(state, Running) and state.started_at is not None:
            found.append(Run(state.started_at, None))
    return tuple(found)


def _transition(pod: Json, kind: str) -> float | None:
    """When a condition of the pod became true."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    true = (c for c in conditions if isinstance(c, dict) and c.get("type") == kind and c.get("status") == "True")
    return next((parse_time(c.get("lastTransitionTime")) for c in true), None)


def _rank(containers: Iterable[Any], annotations: Mapping[str, str]) -> str:
    """The RANK that the operator gave the pod, of a job that can be resized by an annotation; "" for other frameworks."""
    variables = (v for c in containers if isinstance(c, Mapping) for v in c.get("env") or () if isinstance(v, Mapping))
    value = next((str(v.get("value", "")) for v in variables if v.get("name") == "RANK"), "")
    return value or annotations.get(f"{labels.VARIABLE}RANK", "")


def _label(pod: Json, label: str) -> str:
    found = pod["metadata"].get("labels")
    return str(found.get(label, "")) if isinstance(found, dict) else ""


def _index(pod: Json) -> int:
    """The index in the pod's name, which the controller goes by; the label of MPI workers may count from 1."""
    name, replica_type = str(pod["metadata"].get("name", "")), _label(pod, labels.REPLICA_TYPE)
    if replica_type and name.endswith(f"-{replica_type}"):
        return 0  # the only one of its type
    text = name.rpartition(f"-{replica_type}-")[2] if replica_type else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else _LAST
