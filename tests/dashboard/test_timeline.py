"""The timeline of a job, its pods in lines, and what was seen of its reports; and how they are drawn."""

from typing import Any

import pytest

from jobcommon.api import labels
from jobcommon.api.status import read_status
from jobcommon.api.timestamp import format_time
from jobcommon.cli.dashboard import history
from jobcommon.cli.dashboard.chart import run_name
from jobcommon.cli.dashboard.drawing import MIN_PERCENT, drawing
from jobcommon.cli.dashboard.history import History, Seen
from jobcommon.cli.dashboard.pod_row import PodRow, Run, pod_rows
from jobcommon.cli.dashboard.timeline import changes_of, timeline
from jobcommon.diagnosis import Found
from jobcommon.framework import Framework
from jobcommon.operators.mpi import MPI
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.testutil.builders import condition
from tests.runtime.fakes import TESTJOB

T = 1_760_000_000.0


def at(seconds: float) -> str:
    return format_time(T + seconds)


def pod(replica: str = "Worker-0", **fields: Any) -> PodRow:
    """A pod created after 10 s and scheduled after 20 s."""
    values: dict[str, Any] = {
        "name": replica.lower(), "namespace": "default", "uid": replica, "replica": replica, "rank": "", "state": "Running",
        "cause": "", "node": "n1", "restarts": 0, "created": T + 10, "scheduled": T + 20, "deleted": None, "over": False,
        "runs": (), "ran_before": False, "containers": ("test",),
    }  # fmt: skip
    return PodRow(**{**values, **fields})


def told(status: dict[str, Any], *pods: PodRow, now: float = 100, most: int = 10) -> dict[str, list[str]]:
    """Each lane as text: ``state from-to`` in seconds after the creation, and ``!`` marks."""
    found = timeline(T, read_status(status), pods, T + now, most=most)
    return {
        lane.label: [f"{s.state} {s.begin - T:.0f}-{s.end - T:.0f}" for s in lane.segments]
        + [f"{'!' if m.failed else '.'} {m.at - T:.0f} {m.text}" for m in lane.marks]
        for lane in found.lanes
    }


def life(events: dict[float, str] | None = None, seen: dict[float, str] | None = None, **status: Any) -> list[str]:
    """The lane of a job that ran after 20 s, with events by their time, and phases that were seen."""
    about = {"kind": "TestJob", "name": "a", "uid": "u"}
    found = Found(
        TESTJOB,
        {"metadata": {"name": "a", "uid": "u"}, "spec": {}, "status": {"startTime": at(10), **status}},
        events=[{"involvedObject": about, "reason": name, "lastTimestamp": at(when)} for when, name in (events or {}).items()],
    )
    known = Seen(T, T, {T + when: phase for when, phase in (seen or {}).items()})
    pods = [pod(created=T + 10, scheduled=T + 10, runs=(ran(20),))] if "lastRestartTime" not in status else []
    lane = timeline(T, found.status, pods, T + 100, most=5, changes=changes_of(found, known)).lanes[0]
    return [f"{s.state} {s.begin - T:g}-{s.end - T:g}" for s in lane.segments][2:]


def spent(**seconds: float) -> dict[str, Any]:
    return {"phase": "Running", "since": at(90), "queued": 10, "starting": 10, "running": 30, **seconds}


RUNS, AGAIN = condition("Running", at=T + 20), condition("Running", at=T + 60)
OVER = condition("Stalled", holds=False, at=T + 80)
RESTARTED = {"conditions": [AGAIN], "lastRestartTime": at(50)}


@pytest.mark.parametrize(
    ("status", "events", "seen", "lane"),
    [
        ({"conditions": [RUNS, condition("Stalled", at=T + 60)]}, {}, {}, ["running 20-60", "stalled 60-100"]),
        ({"conditions": [OVER, RUNS]}, {60: "Stalled"}, {}, ["running 20-60", "stalled 60-80", "running 80-100"]),
        # Without its event, by the time that it took; without that, its end alone is known.
        ({"conditions": [OVER, RUNS], "timeSpent": spent(stalled=15)}, {}, {},
         ["running 20-65", "stalled 65-80", "running 80-100"]),
        ({"conditions": [OVER, RUNS]}, {}, {}, ["running 20-100"]),
        # Of two stalls the end of the first is not on record, but both together took 25 s.
        ({"conditions": [OVER, RUNS], "timeSpent": spent(stalled=25)}, {40: "Stalled", 60: "Stalled"}, {},
         ["running 20-40", "stalled 40-45", "running 45-60", "stalled 60-80", "running 80-100"]),
        ({"conditions": [OVER, RUNS]}, {}, {40: "Stalled", 45: "Running", 60: "Stalled", 80: "Running"},
         ["running 20-40", "stalled 40-45", "running 45-60", "stalled 60-80", "running 80-100"]),
        # The pods of today began after the restart, and still it is known when the job ran first.
        ({**RESTARTED, "timeSpent": spent(restarting=10)}, {}, {}, ["running 20-50", "restarting 50-60", "running 60-100"]),
        ({**RESTARTED, "timeSpent": spent(restarting=13)}, {30: "TestJobRestarting", 50: "TestJobRestarting"}, {},
         ["running 20-30", "restarting 30-33", "running 33-50", "restarting 50-60", "running 60-100"]),
        ({**RESTARTED, "timeSpent": spent(resizing=10), "lastResizeTime": at(50)}, {}, {},
         ["running 20-50", "resizing 50-60", "running 60-100"]),
        ({"conditions": [condition("Restarting", at=T + 70)], "lastRestartTime": at(70), "lastResizeTime": at(70),
          "timeSpent": spent(restarting=40)}, {50: "TestJobRestarting"}, {60: "Running"},
         ["running 20-50", "restarting 50-60", "running 60-70", "resizing 70-100"]),
        ({"conditions": [condition("Running", holds=False, at=T + 60), condition("Failed", at=T + 90)],
          "lastRestartTime": at(50), "completionTime": at(90), "timeSpent": spent(restarting=10)}, {}, {},
         ["running 20-50", "restarting 50-60", "running 60-90"]),
        # The job failed when its last restart was over, which no condition says.
        ({"conditions": [condition("Running", holds=False, at=T + 60), condition("Failed", at=T + 90)],
          "completionTime": at(90), "timeSpent": spent(restarting=0.5)}, {88: "TestJobRestarting"}, {},
         ["running 20-88", "restarting 88-88.5", "running 88.5-90"]),
        ({"conditions": [RUNS]}, {300: "Stalled"}, {-40: "Restarting", 500: "Phase"}, ["running 20-100"]),
    ],
)  # fmt: skip
def test_restarts_and_stalls_of_a_job(
    status: dict[str, Any], events: dict[float, str], seen: dict[float, str], lane: list[str]
) -> None:
    assert life(events, seen, **status) == lane


def ran(begin: float, end: float | None = None, code: int | None = None, reason: str = "") -> Run:
    return Run(T + begin, T + end if end is not None else None, code, reason)


def test_of_a_container_the_last_two_runs_are_known() -> None:
    status = {"conditions": [condition("Created", at=T), condition("Running", at=T + 30)]}
    assert told(status, pod(runs=(ran(28),)))["Job"] == ["queued 0-20", "starting 20-28", "running 28-100"]
    assert told({}) == {"Job": ["queued 0-100"]}
    often = pod(runs=(ran(60, 70, 1, "Error"), ran(80)), restarts=4, ran_before=True)
    assert told({}, often)["Worker-0"] == ["pending 10-20", "gone 20-60", "running 60-70", "waiting 70-80", "running 80-100"]
    waits = pod(runs=(ran(30, 50, 1, "Error"), ran(60, 70, 1, "Error")), restarts=2)
    assert told({}, waits)["Worker-0"][2:] == ["running 30-50", "waiting 50-60", "running 60-70", "waiting 70-100"]


def test_a_replaced_pod_leaves_its_failure() -> None:
    failure = {"replica": "Worker-0", "pod": "worker-0", "node": "n1", "reason": "OOMKilled", "exitCode": 137, "time": at(50)}
    gone = {**failure, "replica": "Worker-7", "reason": "Evicted", "exitCode": None}
    named = {**failure, "replica": "Worker-8", "reason": "Error", "exitCode": 1, "message": "KeyError: 'lr'"}
    status = {
        "conditions": [condition("Created", at=T), condition("Restarting", at=T + 51)],
        "failures": [failure, gone, named],
        "startTime": at(10),
    }
    assert told(status, pod(created=T + 60, scheduled=T + 60, runs=(ran(62),))) == {
        "Job": ["queued 0-51", "restarting 51-60", "starting 60-62", "running 62-100"],
        "Worker-0": [
            "gone 10-60",
            "starting 60-62",
            "running 62-100",
            "! 50 Worker-0: exited with code 137 (OOMKilled) on node n1",
        ],
        "Worker-7": ["! 50 Worker-7: Evicted on node n1"],
        "Worker-8": ["! 50 Worker-8: KeyError: 'lr'; exited with code 1 (Error) on node n1"],
    }


def test_a_finished_job_ends_its_timeline() -> None:
    conditions = [condition("Created", at=T), condition("Running", holds=False, at=T + 80), condition("Succeeded", at=T + 80)]
    status = {"conditions": conditions, "startTime": at(10), "completionTime": at(80)}
    assert told(status, pod(over=True, runs=(ran(25, 79, 0, "Completed"),)), now=5000) == {
        "Job": ["queued 0-20", "starting 20-25", "running 25-80"],
        "Worker-0": ["pending 10-20", "starting 20-25", "running 25-79", ". 79 Worker-0: exited with code 0"],
    }
    assert told(status, now=5000) == {"Job": ["queued 0-10", "running 10-80"]}, "after its pods were deleted"


@pytest.mark.parametrize("created", [T + 500, T - 500, 253402300799.0, -62135596800.0])
def test_forged_times_stay_on_the_drawing(created: float) -> None:
    status = {
        "conditions": [condition("Running", at=T + 10**9)],
        "failures": [{"replica": "A", "reason": "B", "time": at(-999)}],
    }
    found = drawing(timeline(T, read_status(status), [pod(created=created, runs=(ran(5, 1, 1),))], T + 100, most=5))
    for row in found.rows:
        for bar in row.bars:
            assert bar.x >= 0
            assert bar.width >= MIN_PERCENT
            assert bar.x + bar.width <= 100.01
        assert all(0 <= dot.x <= 100 for dot in row.dots)


# -- A pod in a line: its place among the replicas, its steps, and its runs

AT = "2025-10-09T08:53:{:02}Z".format
ZERO = 1_759_999_980.0  # at 0


def raw_pod(name: str, replica_type: str, index: str = "0", **status: Any) -> dict[str, Any]:
    kept = {labels.REPLICA_TYPE: replica_type, labels.REPLICA_INDEX: index}
    containers = [{"name": "pytorch", "env": [{"name": "RANK", "value": "3"}]}, {"name": "log"}]
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": kept, "creationTimestamp": AT(0)}
    return {
        "metadata": metadata,
        "spec": {"containers": containers, "initContainers": [{"name": "first"}], "nodeName": "n1"},
        "status": {"phase": "Running", **status},
    }


@pytest.mark.parametrize(
    ("framework", "pods", "replicas"),
    [
        (PYTORCH, ["a-worker-10", "a-worker-2", "a-master-0", "odd"], ["Master-0", "Worker-2", "Worker-10", "odd"]),
        # With runLauncherAsWorker the workers' labels count from 1, but the failures in the status name the replicas.
        (MPI, ["a-launcher", "a-worker-0", "a-worker-1"], ["Launcher-0", "Worker-0", "Worker-1"]),
        *((PYTORCH, [f"a-worker-{index}"], [f"a-worker-{index}"]) for index in ("-1", "", "9" * 400, "²", "x")),
    ],
)
def test_by_rank_of_the_name_and_not_of_the_label(framework: Framework, pods: list[str], replicas: list[str]) -> None:
    made = [raw_pod(name, f"{name}-".split("-")[1], str(index)) for index, name in enumerate(pods)]
    assert [row.replica for row in pod_rows(framework, made)] == replicas


def test_steps_and_runs() -> None:
    container = {
        "name": "pytorch",
        "restartCount": 1,
        "lastState": {"terminated": {"startedAt": AT(3), "finishedAt": AT(8), "exitCode": 137, "reason": "OOMKilled"}},
        "state": {"running": {"startedAt": AT(9)}},
    }
    side = {"name": "log", "restartCount": 5, "state": {"running": {"startedAt": AT(1)}}}
    conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": AT(2)}]
    (row,) = pod_rows(PYTORCH, [raw_pod("a-worker-0", "worker", containerStatuses=[side, container], conditions=conditions)])
    assert (row.created, row.scheduled, row.node, row.rank, row.restarts) == (ZERO, ZERO + 2, "n1", "3", 6)
    assert row.runs == (Run(ZERO + 3, ZERO + 8, 137, "OOMKilled"), Run(ZERO + 9, None)), "those of the main container"
    assert row.containers == ("pytorch", "log", "first")
    assert not row.over
    assert not row.ran_before
    container["restartCount"] = 2
    (row,) = pod_rows(PYTORCH, [raw_pod("a-worker-0", "worker", containerStatuses=[side, container], conditions=conditions)])
    assert row.ran_before, "a run before the last one but one"


def test_a_rank_may_come_from_an_annotation() -> None:
    sized = raw_pod("a-worker-0", "worker")
    sized["metadata"]["annotations"] = {f"{labels.VARIABLE}RANK": "7"}
    sized["spec"]["containers"][0]["env"] = [{"name": "RANK", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations"}}}]
    assert [row.rank for row in pod_rows(PYTORCH, [sized])] == ["7"]


# -- What the dashboard has seen of the reports of jobs, and how it draws them


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
