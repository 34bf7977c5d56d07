"""The timeline of a job, from conditions, pods and failures; and where its bars are drawn."""

from typing import Any

import pytest

from jobcommon.api.status import read_status
from jobcommon.api.timestamp import format_time
from jobcommon.cli.dashboard.drawing import MIN_PERCENT, drawing
from jobcommon.cli.dashboard.history import Seen
from jobcommon.cli.dashboard.pod_row import PodRow, Run
from jobcommon.cli.dashboard.timeline import changes_of, timeline
from jobcommon.diagnosis import Found
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
