"""The table of intents: complete, printed in ARCHITECTURE.md, and never in the way of the record."""

import os
import re

from jobcommon.reconcile.intents import INTENTS, Course, Intent, Standing
from tests.architecture.source import ROOT

DOCUMENT = ROOT / "ARCHITECTURE.md"
PLACE = re.compile(r"(<!-- intents -->\n).*(<!-- /intents -->)", re.DOTALL)


def printed() -> str:
    rows = [["", *Course], ["---"] * (len(Course) + 1)]
    rows += [[standing, *(INTENTS[course].get(standing, "") for course in Course)] for standing in Standing]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def test_the_table_is_in_the_document() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    wanted = PLACE.sub(lambda place: f"{place[1]}{printed()}{place[2]}", text)
    if os.environ.get("GOLDEN") == "write":
        DOCUMENT.write_text(wanted, encoding="utf-8")
    assert text == wanted, "see `make golden`"


def test_what_is_not_on_record_is_left_alone() -> None:
    assert {intents[Standing.UNRECORDED] for intents in INTENTS.values()} == {Intent.LEAVE}
    going_on = INTENTS[Course.GO_ON]
    assert {going_on[standing] for standing in (Standing.LIVING, Standing.SURPLUS_NEW, Standing.UNKNOWN)} == {Intent.LEAVE}


def test_every_pod_has_an_intent_on_every_course() -> None:
    only_finished = {Standing.MAY_END, Standing.LOST}
    for course, intents in INTENTS.items():
        finished = course not in (Course.GO_ON, Course.SUSPENDED)
        assert intents.keys() == (set(Standing) if finished else set(Standing) - only_finished)
