"""All states of a small job are searched, and what is wrong is found by its shortest trace."""

import pytest

from jobcommon.testutil.exhaust.__main__ import main
from jobcommon.testutil.exhaust.model import Bounds, Model
from jobcommon.testutil.exhaust.mutants import LEFT_OUT, TRIALS, hunt
from jobcommon.testutil.exhaust.search import Search
from jobcommon.testutil.sim.mutants import MUTANTS


@pytest.mark.parametrize(("crashes", "lost"), [(1, 0), (0, 1)])
def test_every_state_with_one_fault_is_searched_and_none_is_wrong(crashes: int, lost: int) -> None:
    search = Search(Model("Always", Bounds(crashes, lost, lag=1, failures=0))).run()
    assert (search.problem, search.trace) == ("", [])
    assert search.complete
    assert search.states > 2000
    assert search.at_rest == 2, "when the fault is over, and when it may still come"


def test_a_mutant_is_caught_by_its_shortest_trace() -> None:
    """Without the barrier and expectations the second plan is made before the cache has the Service of the first."""
    search = hunt("R5-listed-first")
    assert search.problem == "wasted-write: POST default/services 409"
    assert search.trace[0].startswith("plan: job is active; create services/demo; create pods/demo-master-0")
    assert search.trace[-2:] == ["GET default/pytorchjobs/demo: 200", "POST default/services: 409"]
    assert len(search.trace) == search.depth + 1 == 10, "states are searched in the order of their distance"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("D1-expectations-or", "wasted-write"),
        ("D4-expectation-after-nothing", "lapsed"),
        ("D5-raises-on-error-paths", "raised"),
        ("D7-magic-exit-code", "stopped-on-purpose"),
        ("D9-no-completion-time", "completion-time"),
        ("R3-no-barrier", "wasted-write"),
        ("R4-no-expectations", "wasted-write"),
        ("R7-no-second-look", "wasted-write"),
        ("R9-act-then-record", "evidence-destroyed"),
        ("R12-no-answer-is-a-success", "lapsed"),
        ("R19-written-when-nothing-changed", "wasted-write"),
    ],
)
def test_mutants_are_caught_in_small_models(name: str, problem: str) -> None:
    assert hunt(name).problem.startswith(problem)


def test_every_mutant_is_searched_for_or_has_a_reason_not_to_be() -> None:
    assert sorted([*TRIALS, *LEFT_OUT]) == sorted(MUTANTS)


def test_the_command_prints_figures_and_fails_when_it_gives_up(capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--policy", "Always", "--crashes", "0", "--lost", "0", "--lag", "1", "--failures", "0", "--workers", "1"]
    assert main(small) == 0
    assert "exhausted" in capsys.readouterr().out
    assert main([*small, "--most", "100"]) == 1
    assert "given up after 100 states" in capsys.readouterr().out
