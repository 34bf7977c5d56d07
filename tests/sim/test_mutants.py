"""Each mutant is caught by a seed of its search, and over the same seeds the code without it is clean."""

from pathlib import Path

import pytest

from jobcommon.testutil.sim import detection
from jobcommon.testutil.sim.mutants import MUTANTS, trial
from jobcommon.testutil.sim.mutation import known_defects

#: A change of the code may move what a seed does, so none is named.
SEEDS = 200


def test_every_rule_and_defect_has_its_mutant() -> None:
    wanted = {f"{letter}{n}" for letter, last in (("D", 14), ("R", 19), ("E", 26), ("B", 2)) for n in range(1, last + 1)}
    # What these faults have shown to be wrong.
    wanted |= {"F34", "F41", "F42", "F43", "F44"}
    assert {name.partition("-")[0] for name in MUTANTS} == wanted


@pytest.mark.parametrize("name", known_defects())
def test_a_defect_is_a_change_of_the_code_as_it_is(name: str) -> None:
    defect = known_defects()[name]
    functions = [patch.function for patch in defect.patches]
    sound = [function.__code__ for function in functions]
    with defect.planted():
        assert [function.__code__ for function in functions] != sound
    assert [function.__code__ for function in functions] == sound


@pytest.mark.slow
@pytest.mark.timeout(0)  # some take a minute of CPU, whatever time that is
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught_and_the_code_without_it_is_clean(name: str) -> None:
    _, seeds, _, dirty = trial((name, SEEDS))
    assert seeds, f"none of {SEEDS} seeds catches it"
    assert dirty == []


def test_a_table_says_which_programme_catches_what(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "results"
    kept.write_text('["D7-magic-exit-code", "golden plans", false, 2.0]\n["", "golden plans", true, 3.0]\n')
    chosen = [
        "--only",
        "D7",
        *("--programme", "golden plans", "--programme", "search"),
        "--results",
        str(kept),
        "--workers",
        "1",
    ]
    assert detection.main(chosen) == 1, "golden plans complain without a defect, as the results say"
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == "| golden plans | 3 | 1 | 0 | 0 | 2 |"
    assert lines[3].startswith("| search | 0 | 1 | 1 | 1 | ")
    assert lines[4:] == ["caught by none: nothing", "golden plans complains without a defect"]
    assert '["D7-magic-exit-code", "search", true,' in kept.read_text(), "it is not run again"
