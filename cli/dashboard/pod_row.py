"""A pod in a line: how it is, its rank, where it runs, and for how long."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from jobcommon.api import labels
from jobcommon.api.pod import Running, Terminated
from jobcommon.cli.pod_state import describe, why
from jobcommon.diagnosis.found import Member, main_container
from jobcommon.framework import Framework


@dataclass(frozen=True)
class PodRow:
    """A pod as the page of its job shows it. `began` and `ended` are the present or last run of its main container; times are
    seconds since the epoch."""

    name: str
    namespace: str
    replica: str
    rank: str
    state: str
    cause: str
    node: str
    restarts: int
    created: float | None
    began: float | None
    ended: float | None
    containers: tuple[str, ...]

    @property
    def log_path(self) -> str:
        """The address of its log."""
        return f"/pods/{self.namespace}/{self.name}/log"


def pod_row(framework: Framework, member: Member) -> PodRow:
    """One pod."""
    view, spec = member.pod, member.raw.get("spec") or {}
    main = main_container(framework, member.pod)
    states = (state for container in view.containers if container.name == main for state in (container.state, container.last))
    run = next((state for state in states if isinstance(state, Running | Terminated)), None)
    specs = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    return PodRow(
        name=view.name,
        namespace=view.namespace,
        replica=member.replica,
        rank=_rank(specs, member.raw["metadata"].get("annotations") or {}),
        state=describe(member.raw),
        cause=why(view),
        node=view.node_name,
        restarts=sum(container.restart_count for container in (*view.init_containers, *view.containers)),
        created=view.creation_time,
        began=run.started_at if run is not None else None,
        ended=run.finished_at if isinstance(run, Terminated) else None,
        containers=tuple(str(one["name"]) for one in specs if isinstance(one, dict) and one.get("name")),
    )


def _rank(containers: Iterable[Any], annotations: Mapping[str, str]) -> str:
    """The RANK that the operator gave the pod, of a job that can be resized by an annotation; "" for other frameworks."""
    variables = (v for c in containers if isinstance(c, Mapping) for v in c.get("env") or () if isinstance(v, Mapping))
    value = next((str(v.get("value", "")) for v in variables if v.get("name") == "RANK"), "")
    return value or annotations.get(f"{labels.VARIABLE}RANK", "")
