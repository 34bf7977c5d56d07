"""Three replicas that share the jobs, in the simulator: whatever befalls one of them, the jobs end as with one replica."""

from typing import Any

import pytest

from jobcommon.api import labels
from jobcommon.api.shard import Shard, slot_of
from jobcommon.localcluster.apiserver.storage import ADDED, MODIFIED, Change, Item
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.testutil.sim import shard_election, swarm
from jobcommon.testutil.sim.campaign import Case, judge
from jobcommon.testutil.sim.faults import Fault
from jobcommon.testutil.sim.network import Write
from jobcommon.testutil.sim.shard_watch import ShardWatch
from jobcommon.testutil.sim.sweep import SHARD_FAULTS

JOBS, LEASES = "pytorchjobs.kubeflow.org", "leases.coordination.k8s.io"
UID = "d8f1e1f0-0000-4000-8000-000000000001"
HOME = next(index for index in range(3) if Shard(index, 3).has_job(UID))


def an_item(name: str, uid: str, **content: Any) -> Item:
    return Item("default", name, 1, {"metadata": {"name": name, "uid": uid, "labels": {}}, **content})


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(SHARD_FAULTS)))
def test_what_befalls_a_replica_at_a_write_changes_nothing_in_the_end(number: int) -> None:
    fault = SHARD_FAULTS[number]
    struck = Fault(fault.kind, write=2 * number + 1, seconds=fault.seconds, value=fault.value)
    verdict = judge(Case("mpi/L2-retryable-exit@3", number, (struck,)))
    assert verdict.problems == (), verdict.case.replay
    assert verdict.fired[fault.kind] == 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_another_replica_takes_the_shards_over(seed: int) -> None:
    trial = shard_election.hold(seed)
    assert trial.verdict.problems == (), trial.verdict.case.replay
    assert trial.seconds is not None


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 3, 5])
def test_seeds_of_the_swarm(seed: int) -> None:
    verdict = judge(swarm.case_of(seed, shards=3))
    assert verdict.problems == (), verdict.case.replay


class Watched:
    """A ShardWatch and what it says."""

    def __init__(self, *faults: Fault) -> None:
        self.said: list[str] = []
        self.watch = ShardWatch([PYTORCH], 3, "op", faults, lambda _, rule, __: self.said.append(rule))

    def lease(self, at: float, holder: str, index: int = HOME) -> None:
        item = an_item(f"op-shard-{index}", "lease", spec={"holderIdentity": f"{holder}_1" if holder else ""})
        self.watch.see(at, Change(LEASES, MODIFIED, 1, item, None), holder or "world")

    def write(self, at: float, writer: str) -> None:
        self.watch.see(at, Change(JOBS, MODIFIED, 1, an_item("train", UID), None), writer)

    def create(self, at: float, writer: str, slot: int) -> None:
        item = an_item("train-worker-0", "pod")
        item.obj["metadata"] |= {"labels": {labels.SHARD: str(slot)}, "ownerReferences": [{"uid": UID, "controller": True}]}
        self.watch.see(at, Change("pods", ADDED, 1, item, None), writer)


def test_a_write_without_the_shard_is_a_violation() -> None:
    watched = Watched()
    watched.write(0.0, "operator-0")
    assert watched.said == ["not-the-holder"]
    watched.lease(1.0, "operator-0")
    watched.write(2.0, "operator-0")
    watched.write(2.0, "world")
    assert watched.said == ["not-the-holder"]
    watched.lease(3.0, "operator-1", (HOME + 1) % 3)
    watched.write(4.0, "operator-1")
    assert watched.said == ["not-the-holder"] * 2
    watched.lease(5.0, "")
    watched.write(6.0, "operator-0")
    assert watched.said == ["not-the-holder"] * 3


def test_the_label_of_another_slot_is_a_violation() -> None:
    watched = Watched()
    watched.lease(1.0, "operator-0")
    watched.create(2.0, "operator-0", slot_of(UID))
    assert watched.said == []
    watched.create(2.0, "operator-0", slot_of(UID) ^ 1)
    assert watched.said == ["wrong-slot"]


def test_what_is_sent_without_any_shard_is_a_violation() -> None:
    watched = Watched()
    for at, holder in ((1.0, "operator-0"), (5.0, "operator-1")):
        watched.lease(at, holder)
    sent = [Write(number, at, "operator-0", "PUT", "/x") for number, at in enumerate((0.5, 1.5, 5.5))]
    watched.watch.judge_sent(sent)
    assert watched.said == ["no-shard"] * 2


def test_a_replica_that_was_robbed_of_its_lease_is_not_judged() -> None:
    watched = Watched(Fault("lease-lost", at=1.0))
    watched.write(0.0, "operator-0")
    watched.watch.judge_sent([Write(0, 0.5, "operator-0", "PUT", "/x")])
    assert watched.said == []
