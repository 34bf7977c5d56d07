"""The table of intents: complete, printed in ARCHITECTURE.md, and never in the way of the record."""

import os
import re
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain, combinations, permutations, product

import pytest

from jobcommon.api.replica import Replica
from jobcommon.reconcile.ending import life_of
from jobcommon.reconcile.intents import (
    ARBITRATION,
    INTENTS,
    Course,
    ForcePod,
    Intent,
    RestartPod,
    Standing,
    arbitrated,
    pod_actions,
)
from jobcommon.reconcile.slots import RECORDED_STOP, Slot, Slots
from jobcommon.spec import read_job
from jobcommon.testutil.builders import Pod, job_manifest
from jobcommon.testutil.frameworks import TEST_JOB
from tests.architecture.source import ROOT

DOCUMENT = ROOT / "ARCHITECTURE.md"
POD = Pod.of(TEST_JOB, read_job(TEST_JOB, job_manifest(TEST_JOB, {"Worker": 1})), "Worker", 0)
PODS = [pod.view for made in (POD, POD.running(), POD.failed(1)) for pod in (made, made.deleting())]
KINDS = (ForcePod, partial(RestartPod, actions=()))
PROPOSED = [*chain.from_iterable(combinations(KINDS, number) for number in range(3))]


def printed(heads: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    heads = ["", *heads]
    return "".join(f"| {' | '.join(row)} |\n" for row in [heads, ["---"] * len(heads), *rows])


FIRST = [intent for intent in Intent if any(intent in intents.values() for intents in INTENTS.values())]
TABLES = {
    "intents": printed(Course, ([one, *(INTENTS[course].get(one, "") for course in Course)] for one in Standing)),
    "arbitration": printed(FIRST, ([k.__name__, *(now.get(one, "") for one in FIRST)] for k, now in ARBITRATION.items())),
}


@pytest.mark.parametrize("name", TABLES)
def test_the_table_is_in_the_document(name: str) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    place = re.compile(rf"(<!-- {name} -->\n).*(<!-- /{name} -->)", re.DOTALL)
    wanted = place.sub(lambda found: f"{found[1]}{TABLES[name]}{found[2]}", text)
    if os.environ.get("GOLDEN") == "write":
        DOCUMENT.write_text(wanted, encoding="utf-8")
    assert text == wanted, "see `make golden`"


def test_what_is_not_on_record_is_left_alone() -> None:
    assert {intents[Standing.UNRECORDED] for intents in INTENTS.values()} == {Intent.LEAVE}
    going_on = INTENTS[Course.GO_ON]
    assert {going_on[standing] for standing in (Standing.LIVING, Standing.SURPLUS_NEW, Standing.UNKNOWN)} == {Intent.LEAVE}


@pytest.mark.parametrize("course", Course)
@pytest.mark.parametrize("standing", Standing)
def test_every_pod_has_an_intent_on_every_course_whatever_features_propose(course: Course, standing: Standing) -> None:
    assert standing in INTENTS[course]
    for pod, proposed in product(PODS, PROPOSED):
        slot = Slot(Replica("Worker", 0), pod, RECORDED_STOP, life_of(pod))
        list(pod_actions(Slots({slot.replica: slot}, ()), course, {pod.uid: standing}, [one(pod.uid) for one in proposed]))


@pytest.mark.parametrize("intent", Intent)
def test_of_several_proposals_for_one_pod_the_same_one_counts_in_any_order(intent: Intent) -> None:
    for proposed in PROPOSED:
        made = [one("uid") for one in proposed]
        decided = {arbitrated(intent, order) for order in permutations(made)}
        found = [kind for kind, changes in ARBITRATION.items() if intent in changes and kind in map(type, made)]
        wanted = (ARBITRATION[found[0]][intent], found[0]) if found else (intent, type(None))
        assert [(after, type(one)) for after, one in decided] == [wanted]
