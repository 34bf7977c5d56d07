"""When a run is stuck: by the clock that is handed in, without waiting."""

import pytest

from jobcommon.cli.stalls import STARTED, Stalls, State

AFTER = 300.0


def stalls(*states: tuple[float, str, str]) -> Stalls:
    """What was seen at which time of which pod of the job "a", which began at 0: waits, runs, done, gone, or a line of it."""
    found = Stalls(AFTER)
    found.begin("a", 0.0)
    for now, name, state in states:
        if state == "line":
            found.line("a", name, now)
        else:
            found.pod("a", name, State[state.upper()], now)
    return found


ROWS: dict[str, tuple[list[tuple[float, str, str]], float | None]] = {
    "no pods: a quota, a gang that waits": ([], AFTER),
    "never started": ([(1, "w0", "waits")], 1 + AFTER),
    "runs, and prints nothing": ([(1, "w0", "waits"), (5, "w0", "runs")], None),
    "the others wait for one": ([(1, "w0", "runs"), (1, "w1", "waits")], 1 + AFTER),
    "the others get on without it": ([(1, "w0", "runs"), (1, "w1", "waits"), (200, "w0", "line")], 200 + AFTER),
    "the last words of one that failed": ([(1, "w0", "waits"), (200, "w0", "line")], 1 + AFTER),
    "a crash loop is one stall": (
        [(1, "w0", "waits"), (5, "w0", "runs"), (6, "w0", "waits"), (60, "w0", "runs"), (61, "w0", "waits")], 1 + AFTER,
    ),
    "it had started": ([(1, "w0", "waits"), (5, "w0", "runs"), (5 + STARTED, "w0", "waits")], 5 + STARTED + AFTER),
    "all pods have ended, and the job has not": ([(1, "w0", "runs"), (9, "w0", "done")], 9 + AFTER),
    "made anew, it waits again": ([(1, "w0", "waits"), (9, "w0", "gone"), (9, "w0", "waits")], 1 + AFTER),
    "the one that waited is gone": ([(1, "w0", "runs"), (1, "w1", "waits"), (9, "w1", "gone")], None),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_when_a_job_is_stuck(name: str) -> None:
    states, expected = ROWS[name]
    assert stalls(*states).stuck_at("a") == expected


def test_each_job_has_a_deadline_of_its_own_and_zero_is_never() -> None:
    found, never = stalls((1, "w0", "waits")), Stalls(0)
    found.begin("b", 7.0)
    assert (found.stuck_at("a"), found.stuck_at("b"), found.stuck_at("c")) == (1 + AFTER, 7 + AFTER, None)
    never.begin("a", 0.0)
    assert never.stuck_at("a") is None
