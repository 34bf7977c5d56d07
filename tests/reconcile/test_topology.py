"""schedulingPolicy.topology under each gang scheduler, and what is said where no scheduler applies it."""

from typing import Any

import pytest

from jobcommon.api.gang import COSCHEDULING, KOORDINATOR, NATIVE, VOLCANO, YUNIKORN, GangScheduler
from tests.reconcile.test_gang import KEY, GangWorld, world

FIELD = "spec.runPolicy.schedulingPolicy.topology"
RACK = {"key": "topology.kubernetes.io/rack"}
REQUIRED = {"topology": [RACK]}


def asking(scheduler: GangScheduler | None, **topology: str) -> GangWorld:
    there = world(scheduler, run_policy={"schedulingPolicy": {"topology": {**RACK, **topology}}})
    there.settle()
    return there


@pytest.mark.parametrize(("scheduler", "mode", "field", "expected"), [
    (NATIVE, {}, "schedulingConstraints", REQUIRED),
    (VOLCANO, {}, "networkTopology", {"mode": "hard", "highestTierName": RACK["key"]}),
    (VOLCANO, {"mode": "Preferred"}, "networkTopology", {"mode": "soft"}),
])  # fmt: skip
def test_topology_becomes_the_schedulers_own_field(
    scheduler: GangScheduler, mode: dict[str, str], field: str, expected: Any
) -> None:
    there = asking(scheduler, **mode)
    assert there.group["spec"][field] == expected
    assert FIELD not in there.message()


@pytest.mark.parametrize(("scheduler", "mode", "why"), [
    (None, {}, ": an operator without a gang scheduler does not support it; remove it, or run the operator with"),
    (COSCHEDULING, {}, ": the gang scheduler scheduler-plugins-scheduler does not support it"),
    (YUNIKORN, {}, ": the gang scheduler yunikorn does not support it"),
    (KOORDINATOR, {}, ": the gang scheduler koord-scheduler does not support it"),
    (NATIVE, {"mode": "Preferred"}, ".mode: Kubernetes supports only Required"),
])  # fmt: skip
def test_no_scheduler_applies_it(scheduler: GangScheduler | None, mode: dict[str, str], why: str) -> None:
    there = asking(scheduler, **mode)
    assert f"{FIELD}{why}" in there.message()
    assert [event for event in there.events if event.reason == "TopologyIgnored"]
    assert len(there.pods) == 3, "its pods are placed without it"


@pytest.mark.parametrize(("scheduler", "field", "gate"), [
    (NATIVE, "schedulingConstraints", "the feature gate TopologyAwareWorkloadScheduling"),
    (VOLCANO, "networkTopology", "Volcano's definition of PodGroup"),
])  # fmt: skip
def test_a_server_that_drops_it_is_not_asked_again(scheduler: GangScheduler, field: str, gate: str) -> None:
    there = asking(scheduler)
    spec = {key: value for key, value in there.group["spec"].items() if key != field}
    there.others[KEY] = {**there.group, "spec": spec}
    assert not [line for line in there.writes() if "podgroups" in line or "workloads" in line]
    assert f"{FIELD}: PodGroup demo was created without it; check {gate}" in there.message()
