"""Each rule of the controller names what checks it."""

import re

from jobcommon.testutil.mutants import known_defects
from tests.architecture.source import ROOT

MUTANTS = known_defects()
ORACLES = set(re.findall(r'"([a-z]+-[a-z-]+)"', (ROOT / "testutil/sim/oracles.py").read_text(encoding="utf-8")))


def test_each_rule_names_its_mutant_oracle_or_test() -> None:
    rows = re.findall(r"^\| R\d+ \|.*\| (.+) \|$", (ROOT / "docs/rules.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    checks = [re.findall(r"`([^`]+)`", row) for row in rows]
    assert len(checks) == 20
    assert all(checks)
    assert [one for names in checks for one in names if not (one in MUTANTS or one in ORACLES or (ROOT / one).is_file())] == []
