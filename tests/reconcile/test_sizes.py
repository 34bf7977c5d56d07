"""No job costs the others more than its size: every list and map of the specs, filled up, with and without gang scheduling."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from time import thread_time

import pytest

from jobcommon.api.gang import VOLCANO
from jobcommon.api.observed import Observed
from jobcommon.framework import Framework
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.reconcile import plan
from jobcommon.reconcile.plan import Create
from jobcommon.spec import read_job
from jobcommon.testutil.builders import START, Manifest
from tests.reconcile.attacks import Attack, attacks

#: The dearest, a map of quantities, is at 26; what is quadratic is at many hundreds.
ALLOWED = 80
ENTRIES = 2000
GANGS = {"alone": None, "volcano": VOLCANO}
CASES = [
    pytest.param(attack, gang, id=f"{framework.name}-{gang}-{attack.title}")
    for framework in (PYTORCH, TF, MPI, MXNET)
    for attack in attacks(framework, ENTRIES, pods=framework is PYTORCH)
    for gang in GANGS
]


def cost(work: Callable[[], object]) -> float:
    """CPU seconds of this thread."""
    began = thread_time()
    work()
    return thread_time() - began


def decide(framework: Framework, manifest: Manifest) -> int:
    decided = plan(framework, read_job(framework, manifest), Observed(), START)
    pods = [action for action in decided.actions if isinstance(action, Create) and action.plural == "pods"]
    for pod in pods[-5:]:
        assert pod.manifest
    return len(pods)


@pytest.mark.parametrize(("attack", "gang"), CASES)
def test_a_job_costs_what_its_size_and_its_replicas_cost(attack: Attack, gang: str) -> None:
    options = replace(attack.framework.options, gang=GANGS[gang])
    framework = replace(attack.framework, options=options)
    fair = found = float("inf")
    for _ in range(3):
        # In turns, and again if it seems too much: what else the machine does is not the job's cost.
        fair = min(fair, cost(lambda: decide(framework, attack.peer())) + cost(lambda: deepcopy(attack.manifest)))
        found = min(found, cost(lambda: decide(framework, attack.manifest)))
        if found < ALLOWED * fair:
            return
    pytest.fail(f"{found:.3f} s, {found / fair:.0f} times what is fair")


def test_the_attacks_are_many_and_most_of_them_are_jobs_that_run() -> None:
    found = list(attacks(PYTORCH, 50))
    valid = [attack for attack in found if not read_job(PYTORCH, attack.manifest).errors]
    assert len(found) > 150
    assert len(valid) > 0.8 * len(found), [a.title for a in found if a not in valid]
