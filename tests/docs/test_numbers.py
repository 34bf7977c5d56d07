"""Numbers of things in the code that the documents name."""

import re
import tomllib

import pytest

from jobcommon.testutil.conformance.cases import TABLE
from jobcommon.testutil.poison.kinds import KINDS
from jobcommon.testutil.sim.faults import NUMBERS
from jobcommon.testutil.sim.lifecycles import LIFECYCLES
from jobcommon.testutil.sim.mutants import MUTANTS
from tests.architecture.source import ROOT
from tests.cli.seeded import ON_A_REAL_ONE, SEEDED
from tests.diagnosis.scenarios import SCENARIOS
from tests.upgrade.reference import SHAPES

DEPENDENCIES = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
IN_WORDS = {"seven": 7, "ten": 10}


@pytest.mark.parametrize(
    ("document", "sentence", "number"),
    [
        ("reliability", r"There are (\w+) lifecycles", len(LIFECYCLES)),
        ("reliability", r"(\w+) faults \(F1 to F45", len(NUMBERS)),
        ("reliability", r"`make mutants` \| (\w+) known defects", len(MUTANTS)),
        ("conformance", r"(\w+) cases, [\d,]+ requests, each", len(TABLE)),
        ("conformance", r"cases, ([\d,]+) requests, each", sum(len(case.steps) for case in TABLE)),
        ("chaos-and-poison", r"(\w+) kinds of malformed", len(KINDS)),
        ("kubectl-train", r"names each of (\w+) causes", len(SCENARIOS)),
        ("kubectl-train", r"seeds (\w+) of them", len(SEEDED)),
        ("kubectl-train", r"and (\w+) where", sum(not one.embedded for one in (*SEEDED, *ON_A_REAL_ONE))),
        ("from-reference", r"(\w+) kinds in seven situations", len(SHAPES)),
        ("security", r"have (\w+) direct dependencies", len(DEPENDENCIES)),
    ],
)
def test_a_number_is_that_of_the_code(document: str, sentence: str, number: int) -> None:
    text = " ".join((ROOT / "docs" / f"{document}.md").read_text(encoding="utf-8").split())
    (said,) = re.findall(sentence, text)
    assert IN_WORDS.get(said) == number or said.replace(",", "") == str(number)
