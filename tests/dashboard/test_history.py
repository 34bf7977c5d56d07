"""What the dashboard has seen of the reports of jobs, and how it draws them."""

from typing import Any

import pytest

from jobcommon.api.status import Metric, read_status
from jobcommon.api.timestamp import format_time
from jobcommon.cli.dashboard import history
from jobcommon.cli.dashboard.chart import charts, run_name
from jobcommon.cli.dashboard.history import History, Seen

T = 1_760_000_000.0


def report(step: int, at: float = 0.0, *, attempt: int | None = None, **metrics: object) -> dict[str, Any]:
    """A status with a report that arrived at that time; it is `step` seconds after T without one."""
    values = [{"name": name, "value": str(value)} for name, value in {"current_step": step, **metrics}.items()]
    times = {"lastReportTime": format_time(T + (at or step))}
    return {
        "trainerStatus": {"metrics": values, "lastUpdatedTime": format_time(T)},
        "progress": {"step": step, "attempt": attempt, **times},
    }


def seen(*statuses: dict[str, Any]) -> Seen:
    watched = History()
    found = [watched.see("u", read_status(status), T + number) for number, status in enumerate(statuses)][-1]
    assert found is not None
    return found


def lines(found: Seen) -> list[dict[str, list[float]]]:
    return [{name: [*points] for name, points in run.points.items()} for run in found.runs]


def test_reports_become_points_and_each_run_of_the_program_is_apart() -> None:
    found = seen(
        report(1, loss=3, note="warm"),
        report(1, loss=9),
        report(2, loss=2, eval_loss=2.5),
        report(2, at=3, loss=2, accuracy=0.5),
        report(1, at=4, loss=2.9),
        report(2, at=5, loss=2.5),
        report(6, attempt=1, loss=2.1),
        report(4, at=7, attempt=1, loss=1),
    )
    assert lines(found) == [
        {"loss": [1, 3, 2, 2], "eval_loss": [2, 2.5], "accuracy": [2, 0.5]},
        {"loss": [1, 2.9, 2, 2.5]},
        {"loss": [4, 1]},
    ], "without the report of the earlier run that came when attempt 1 had begun"
    assert [run_name(run) for run in found.runs] == ["from step 1", "from step 1", "attempt 1, from step 4"]


def test_a_status_of_a_cache_that_is_behind_is_no_other_run() -> None:
    assert lines(seen(report(1, loss=3), report(3, loss=1), report(1, loss=3), report(4, loss=0))) == [
        {"loss": [1, 3, 3, 1, 4, 0]}
    ]


def test_phases_are_kept_by_their_begin() -> None:
    phases = [("Running", 5), ("Stalled", 60), ("Stalled", 60), ("Running", 90)]
    found = seen(*({"timeSpent": {"phase": phase, "since": format_time(T + at)}} for phase, at in phases))
    assert found.phases == {T + 5: "Running", T + 60: "Stalled", T + 90: "Running"}
    assert History().see("u", read_status({}), T) is None, "there is nothing to be seen"


def test_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    many = {f"m{i}": 1 for i in range(20)}
    found = seen(*(report(step, attempt=step // 5000, loss=step, **many) for step in range(10, 20_000, 10)))
    assert len(found.runs) == history.MAX_RUNS
    assert all(len(run.points) == history.MAX_METRICS for run in found.runs)
    assert all(len(points) <= 2 * history.MAX_POINTS for run in found.runs for points in run.points.values())
    steps = found.runs[-1].points["loss"][::2]
    assert (steps[0], steps[-1]) == (15_000, 19_990), "the first and the last one stay"
    monkeypatch.setattr(history, "MAX_JOBS", 2)
    watched, status = History(), read_status(report(1, loss=1))
    assert [watched.see(uid, status, T) is not None for uid in ("a", "b", "c", "a")] == [True, True, False, True]
    assert watched.see("c", status, T + history.FORGOTTEN_SECONDS) is not None, "in the place of b"
    assert watched.see("a", status, T + history.FORGOTTEN_SECONDS) is not None


def test_charts_have_the_loss_first_and_their_lines_in_a_square() -> None:
    steps = enumerate(((0, 0), (0, 3), (1, 2), (1, 4)), 1)
    found = seen(*(report(s, at, attempt=a, accuracy=s / 10, loss=5 - s, zeta=1, once=s) for at, (a, s) in steps))
    for run in found.runs:
        run.points["once"] = run.points["once"][:2]
    drawn = charts(found.runs, [Metric(name="loss", value="0.98765")])
    assert [chart.name for chart in drawn] == ["loss", "accuracy", "zeta"]
    loss = drawn[0]
    assert (loss.value, loss.top, loss.bottom, loss.left, loss.right) == ("0.98765", "5", "1", "0", "4")
    assert [line.path for line in loss.lines if line] == ["M0.00,0.00L75.00,75.00", "M50.00,50.00L100.00,100.00"]
    assert loss.words == "loss over steps 2 to 4: 3 at first, 1 at last"
    assert drawn[2].value == "1"
    assert {line.end for line in drawn[2].lines if line} == {"M75.00,100.00h0", "M100.00,100.00h0"}, "all values are equal"
