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


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        pytest.param([], AFTER, id="no pods: a quota, a gang that waits"),
        pytest.param([(1, "w0", "waits")], 1 + AFTER, id="never started"),
        pytest.param([(1, "w0", "waits"), (5, "w0", "runs")], None, id="runs, and prints nothing"),
        pytest.param([(1, "w0", "runs"), (1, "w1", "waits")], 1 + AFTER, id="the others wait for one"),
        pytest.param(
            [(1, "w0", "runs"), (1, "w1", "waits"), (200, "w0", "line")], 200 + AFTER, id="the others get on without it"
        ),
        pytest.param([(1, "w0", "waits"), (200, "w0", "line")], 1 + AFTER, id="the last words of one that failed"),
        pytest.param(
            [(1, "w0", "waits"), (5, "w0", "runs"), (6, "w0", "waits"), (60, "w0", "runs"), (61, "w0", "waits")],
            1 + AFTER,
            id="a crash loop is one stall",
        ),
        pytest.param(
            [(1, "w0", "waits"), (5, "w0", "runs"), (5 + STARTED, "w0", "waits")], 5 + STARTED + AFTER, id="it had started"
        ),
        pytest.param([(1, "w0", "runs"), (9, "w0", "done")], 9 + AFTER, id="all pods have ended, and the job has not"),
        pytest.param([(1, "w0", "waits"), (9, "w0", "gone"), (9, "w0", "waits")], 1 + AFTER, id="made anew, it waits again"),
        pytest.param([(1, "w0", "runs"), (1, "w1", "waits"), (9, "w1", "gone")], None, id="the one that waited is gone"),
    ],
)
def test_when_a_job_is_stuck(states: list[tuple[float, str, str]], expected: float | None) -> None:
    assert stalls(*states).stuck_at("a") == expected


def test_zero_is_never() -> None:
    found = Stalls(0)
    found.begin("a", 0.0)
    assert found.stuck_at("a") is None


def test_each_job_has_a_deadline_of_its_own() -> None:
    found = stalls((1, "w0", "waits"))
    found.begin("b", 7.0)
    assert (found.stuck_at("a"), found.stuck_at("b"), found.stuck_at("c")) == (1 + AFTER, 7 + AFTER, None)
