"""What the end of a job shows to programs that wait for it; docs/readers.md has the tables that these tests find.

``GOLDEN=write pytest tests/reconcile/test_readers.py`` writes the tables anew.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import pytest

from jobcommon.api.status import Metric, TrainerStatus
from jobcommon.api.timestamp import format_time
from jobcommon.framework import Framework, Options, ProgressServer
from jobcommon.operators.jax import JAX
from jobcommon.operators.mpi import MPI
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.reconcile.ending import STOPPED
from jobcommon.reconcile.reports import plan_report
from jobcommon.testutil.cluster_model import ClusterModel
from tests.architecture.source import ROOT

DOCUMENT = ROOT / "docs/readers.md"
SERVER = Options(progress=ProgressServer("https://jobcommon.test", "-----BEGIN CERTIFICATE-----"))
ENDS = {"Succeeded": "success", "Failed": "failure"}
Status = Mapping[str, Any]


@dataclass(frozen=True)
class Form:
    """Jobs by what decides their end: the type `leader`, whose pods are `leaders`."""

    framework: Framework
    replicas: Mapping[str, int]
    leader: str
    leaders: Sequence[str]


FORMS = {
    "PyTorchJob: Master 1, Worker 2": Form(PYTORCH, {"Master": 1, "Worker": 2}, "Master", ["demo-master-0"]),
    "JAXJob: Worker 2": Form(JAX, {"Worker": 2}, "Worker", ["demo-worker-0", "demo-worker-1"]),
    "TFJob: PS 1, Worker 2": Form(TF, {"PS": 1, "Worker": 2}, "Worker", ["demo-worker-0"]),
    "MPIJob: Launcher 1, Worker 2": Form(MPI, {"Launcher": 1, "Worker": 2}, "Launcher", ["demo-launcher"]),
}


# -- the ways in which a job ends --------------------------------------------------------------------------------------------


def _succeeds(world: ClusterModel, form: Form) -> None:
    for name in form.leaders:
        world.exit(name, 0)


def _fails(world: ClusterModel, form: Form) -> None:
    # A launcher is retried whatever its exit code is.
    world.exit("demo-worker-0" if form.framework is MPI else form.leaders[0], 1)


def _fails_again(world: ClusterModel, form: Form) -> None:
    world.exit(form.leaders[0], 137).start().tick(1)
    world.exit(form.leaders[0], 137)


def _fails_in_place(world: ClusterModel, form: Form) -> None:
    world.exit(form.leaders[0], 3).settle()
    world.restart(form.leaders[0])
    world.exit(form.leaders[0], 3)


def _waits(world: ClusterModel, _form: Form) -> None:
    world.tick(120)


def _hangs(world: ClusterModel, _form: Form) -> None:
    for step in (1, 2):
        world.tick(10)
        metrics = [Metric(name="current_step", value=str(step))]
        report = TrainerStatus(metrics=metrics, last_updated_time=format_time(world.now))
        decided = plan_report(world.job, report, [(step, world.now)], world.now, world.now)
        assert decided.status is not None
        world.manifest["status"] = decided.status.to_json()
    world.tick(120).settle()
    world.tick(60)


def _is_suspended(world: ClusterModel, _form: Form) -> None:
    world.suspend()


@dataclass(frozen=True)
class Way:
    """What happens to a job that runs, or whose pods are without a node (`placed`)."""

    happens: Callable[[ClusterModel, Form], None]
    run_policy: Mapping[str, Any] = field(default_factory=dict)
    policy: str = "ExitCode"
    placed: bool = True


STALLS = {"reportProgress": True, "progressDeadlineSeconds": 60, "stallAction": "Fail"}
IN_VAIN = {"minUptimeSeconds": 60, "maxRestartsWithoutProgress": 1}
WAYS = {
    "the deciding replicas succeed": Way(_succeeds), "a replica fails for good": Way(_fails),
    "`backoffLimit`, pods made anew": Way(_fails_again, {"backoffLimit": 1}),
    "`backoffLimit`, containers restarted": Way(_fails_in_place, {"backoffLimit": 1}, "OnFailure"),
    "`activeDeadlineSeconds`": Way(_waits, {"activeDeadlineSeconds": 60}),
    "`pendingDeadlineSeconds`": Way(_waits, {"pendingDeadlineSeconds": 60}, placed=False),
    "`stallAction: Fail`": Way(_hangs, STALLS), "`maxRestartsWithoutProgress`": Way(_fails_again, IN_VAIN),
    "the spec is invalid": Way(_waits, {"backoffLimit": -1}), "it is suspended": Way(_is_suspended),
}  # fmt: skip


@cache
def statuses(way: str, form: str, clean_pod_policy: str | None) -> tuple[Status, ...]:
    """What the job shows, write by write, until long after its end."""
    one, kind = WAYS[way], FORMS[form]
    run_policy = {**one.run_policy, **({"cleanPodPolicy": clean_pod_policy} if clean_pod_policy is not None else {})}
    framework = replace(kind.framework, options=SERVER)
    world = ClusterModel.of(framework, kind.replicas, policy=one.policy, run_policy=run_policy)
    world.settle()
    if one.placed:
        world.run().settle()
    one.happens(world, kind)
    for _ in range(3):
        world.settle()
        world.stop_terminating()
        world.tick(60)
    return tuple(decided.status.to_json() for decided in world.plans if decided.status is not None)


def last(status: Status) -> Mapping[str, str]:
    """The condition that `kubectl get` shows."""
    shown: Mapping[str, str] = status["conditions"][-1]
    return shown


def counts(status: Status, name: str) -> dict[str, int]:
    """By type."""
    return {kind: one[name] for kind, one in status.get("replicaStatuses", {}).items() if one.get(name)}


# -- the readers: how their code decides on each status ------------------------------------------------------------------------


def requirement(text: str, status: Status) -> bool:
    """A condition of Argo's resource template, `PATH == VALUE` or `PATH > VALUE`. A field that is absent meets none."""
    path, operator, value = text.split()
    found: Any = {"status": status}
    for key in path.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    if found is None:
        return False
    return str(found) == value if operator == "==" else int(found) > int(value)


def by_counts(kind: str, number: int) -> Callable[[Status], str]:
    """Argo looks for failure first. Couler writes this for Worker."""
    field_of = f"status.replicaStatuses.{kind}"
    conditions = {"failure": f"{field_of}.failed > 0", "success": f"{field_of}.succeeded == {number}"}
    return lambda status: next((end for end, text in conditions.items() if requirement(text, status)), "")


def by_last_condition(status: Status) -> str:
    """KFP's launcher."""
    return ENDS.get(last(status)["type"], "") if last(status)["status"] == "True" else ""


def by_any_condition(status: Status) -> str:
    """The SDK, and Katib: `status.conditions.#(type=="Succeeded")#|#(status=="True")#`."""
    return next((ENDS[c["type"]] for c in status["conditions"] if c["type"] in ENDS and c["status"] == "True"), "")


def seen(reader: Callable[[Status], str], written: Sequence[Status]) -> str:
    """The first end that the reader finds."""
    return next(filter(None, map(reader, written)), "waits")


# -- the tests -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("way", WAYS)
def test_the_end_is_the_same_under_each_policy_and_final(way: str, form: str) -> None:
    shown = []
    for policy in (None, "Running", "All", "None"):
        written = statuses(way, form, policy)
        end = next((n for n, status in enumerate(written) if by_any_condition(status)), len(written) - 1)
        for status in written[end:]:
            words = [(c["type"], c["status"], c["reason"], c["message"]) for c in status["conditions"]]
            told = [(f["replica"], f.get("exitCode")) for f in status.get("failures", ()) if f["reason"] != STOPPED]
            shown.append((words, told, counts(status, "succeeded"), counts(status, "failed")))
        assert not counts(written[-1], "active") or policy == "None"
        assert {c["type"]: c["status"] for c in written[-1]["conditions"]}.get("Running") == "False"
        assert seen(by_last_condition, written) == seen(by_any_condition, written)
    assert all(one == shown[0] for one in shown)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _in_words(status: Status) -> str:
    words = [f"{kind} {number} {name}" for name in ("succeeded", "failed") for kind, number in counts(status, name).items()]
    return ", ".join(words) or "–"


def shown_at_the_end() -> Iterator[str]:
    """The first table."""
    yield _row("what happens", "last condition, reason", "`failures`", *FORMS)
    yield "|---" * (3 + len(FORMS)) + "|"
    for way in WAYS:
        ends = {form: statuses(way, form, None)[-1] for form in FORMS}
        first = next(iter(ends.values()))
        reason = last(first)["reason"].replace("PyTorchJob", "<Kind>")
        codes = ", ".join(f"exit {f['exitCode']}" for f in first.get("failures", ()) if f["reason"] != STOPPED) or "–"
        yield _row(way, f"{last(first)['type']}, `{reason}`", codes, *map(_in_words, ends.values()))


def _types(form: Form) -> Sequence[str]:
    """Those whose counts programs read."""
    return [*dict.fromkeys((form.leader, "Worker"))]


def found_by_readers() -> Iterator[str]:
    """The second table."""
    by_kind = (" ".join((name.partition(":")[0] + ":", *_types(form))) for name, form in FORMS.items())
    yield _row("what happens", "conditions", *by_kind)
    yield "|---" * (2 + len(FORMS)) + "|"
    for way in WAYS:
        cells = []
        for name, form in FORMS.items():
            written = statuses(way, name, None)
            cells.append(", ".join(seen(by_counts(kind, form.replicas[kind]), written) for kind in _types(form)))
        yield _row(way, seen(by_last_condition, statuses(way, next(iter(FORMS)), None)), *cells)


def test_the_tables_in_the_document() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    for table in (list(shown_at_the_end()), list(found_by_readers())):
        found = re.search(rf"^{re.escape(table[0])}\n.*?(?=\n\n)", text, re.MULTILINE | re.DOTALL)
        assert found is not None, table[0]
        if os.environ.get("GOLDEN") == "write":
            text = text.replace(found[0], "\n".join(table))
            DOCUMENT.write_text(text, encoding="utf-8")
        assert found[0] == "\n".join(table) or os.environ.get("GOLDEN") == "write", "if this is meant: make golden"
