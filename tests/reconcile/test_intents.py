"""The table of intents: complete, printed in ARCHITECTURE.md, and never in the way of the record."""

import os
import re
from itertools import product

import pytest

from jobcommon.api.replica import Replica
from jobcommon.reconcile.ending import life_of
from jobcommon.reconcile.intents import INTENTS, Course, Intent, Standing, pod_actions
from jobcommon.reconcile.slots import RECORDED_STOP, Slot, Slots
from jobcommon.spec import read_job
from jobcommon.testutil.builders import Pod, job_manifest
from jobcommon.testutil.frameworks import TEST_JOB
from tests.architecture.source import ROOT

DOCUMENT = ROOT / "ARCHITECTURE.md"
POD = Pod.of(TEST_JOB, read_job(TEST_JOB, job_manifest(TEST_JOB, {"Worker": 1})), "Worker", 0)
PODS = [pod.view for made in (POD, POD.running(), POD.failed(1)) for pod in (made, made.deleting())]
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


@pytest.mark.parametrize("course", Course)
@pytest.mark.parametrize("standing", Standing)
def test_every_pod_has_an_intent_on_every_course_which_any_other_may_replace(course: Course, standing: Standing) -> None:
    assert standing in INTENTS[course]
    for pod, intent in product(PODS, Intent):
        slot = Slot(Replica("Worker", 0), pod, RECORDED_STOP, life_of(pod))
        slots = Slots({slot.replica: slot}, ())
        list(pod_actions(slots, course, {pod.uid: standing}, lambda *_, chosen=intent: chosen, lambda _: ()))
