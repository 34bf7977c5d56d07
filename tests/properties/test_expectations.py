"""Expectations and the barrier do what their models do."""

from copy import deepcopy
from math import inf

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from jobcommon.controller.barrier import STALL, Barrier
from jobcommon.controller.expectations import TIMEOUT, Creation, Expectations
from jobcommon.testutil.models.expectations import BarrierModel, ExpectationsModel
from tests.properties.profile import examples

UIDS = st.sampled_from(["u1", "u2", "u3"])
RESOURCES = st.sampled_from(["pods", "services"])
NAMES = st.sampled_from(["a", "b", "c"])
SECONDS = st.sampled_from([0.0, 1.0, 60.0, 240.0, TIMEOUT, STALL])


class Expecting(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.real = Expectations()
        self.model = ExpectationsModel(TIMEOUT)

    @rule(uid=UIDS, resource=RESOURCES, name=NAMES)
    def create(self, uid: str, resource: str, name: str) -> None:
        self.real.expect_creation(uid, resource, name, self.now)
        self.model.expect(uid, (resource, name), self.now)

    @rule(uid=UIDS, name=NAMES)
    def delete(self, uid: str, name: str) -> None:
        self.real.expect_deletion(uid, name, self.now)
        self.model.expect(uid, (name,), self.now)

    @rule(uid=UIDS, resource=RESOURCES, name=NAMES, refused=st.booleans())
    def created(self, uid: str, resource: str, name: str, refused: bool) -> None:
        (self.real.creation_failed if refused else self.real.observe_created)(uid, resource, name)
        self.model.settle(uid, (resource, name))

    @rule(uid=UIDS, name=NAMES, refused=st.booleans())
    def deleted(self, uid: str, name: str, refused: bool) -> None:
        (self.real.deletion_failed if refused else self.real.observe_deleted)(uid, name)
        self.model.settle(uid, (name,))

    @rule(uid=UIDS)
    def forget(self, uid: str) -> None:
        self.real.forget(uid)
        self.model.forget(uid)

    @rule(uid=UIDS)
    def lapse(self, uid: str) -> None:
        assert {what(e) for e in self.real.lapsed(uid, self.now)} == self.model.lapse(uid, self.now)

    @rule(seconds=SECONDS)
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def same(self) -> None:
        for uid in ("u1", "u2", "u3"):
            assert {what(e) for e in deepcopy(self.real).lapsed(uid, inf)} == self.model.of(uid)
            assert self.real.satisfied(uid, self.now) == self.model.satisfied(uid, self.now)
            assert self.real.next_expiry(uid) == self.model.expiry(uid)
        # A job that waits for nothing must leave nothing behind.
        assert len(self.real) == len({item[0] for item in self.model.items})

    def teardown(self) -> None:
        """Nothing holds a job up for ever: at its expiry it is satisfied."""
        for uid in ("u1", "u2", "u3"):
            if (expiry := self.real.next_expiry(uid)) is not None:
                assert expiry <= self.now + TIMEOUT
                assert self.real.satisfied(uid, expiry)


def what(expected: object) -> tuple[str, ...]:
    return (expected.resource, expected.name) if isinstance(expected, Creation) else (expected.uid,)  # type: ignore[attr-defined]


class Reading(RuleBasedStateMachine):
    """Our own writes, and caches that follow them at their own pace or lose their history."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.version = 95
        self.seen: dict[str, int] = {}
        self.real = Barrier()
        self.model = BarrierModel()

    @rule(uid=UIDS, resource=RESOURCES, late=st.integers(0, 7), step=st.sampled_from([1, 4, 900]))
    def wrote(self, uid: str, resource: str, late: int, step: int) -> None:
        # Answers overtake each other.
        self.version += step
        version = max(self.version - late, 1)
        self.real.wrote(uid, resource, str(version), self.now)
        self.model.writes.append((uid, resource, version, self.now))

    @rule(uid=UIDS, version=st.sampled_from(["", "0", "007", "1e3", "-1", "٣", "abc", " 5"]))
    def wrote_what_cannot_be_compared(self, uid: str, version: str) -> None:
        self.real.wrote(uid, "pods", version, self.now)

    @rule(resource=RESOURCES, lag=st.sampled_from([0, 1, 3, 50]))
    def cache(self, resource: str, lag: int) -> None:
        self.seen[resource] = max(self.version - lag, 1)

    @rule(resource=RESOURCES, back=st.sampled_from([0, 1, 5, 1000]), ago=st.sampled_from([0.0, 0.5, 100.0]))
    def quorum_list(self, resource: str, back: int, ago: float) -> None:
        version = max(self.version - back, 1)
        assert self.real.reset(resource, str(version), self.now - ago) == self.model.reset(resource, version, self.now - ago)

    @rule(uid=UIDS)
    def forget(self, uid: str) -> None:
        self.real.forget(uid)
        self.model.writes = [write for write in self.model.writes if write[0] != uid]

    @rule(seconds=SECONDS)
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def same(self) -> None:
        versions = {resource: str(version) for resource, version in self.seen.items()}
        for uid in ("u1", "u2", "u3"):
            assert self.real.behind(uid, versions) == self.model.behind(uid, self.seen, float("inf"))
            self.model.drop_seen(uid, self.seen)
            assert self.real.stalled(uid, versions, self.now) == self.model.behind(uid, self.seen, self.now - STALL)
        assert len(self.real) == len({write[0] for write in self.model.writes})


TestExpecting = Expecting.TestCase
TestExpecting.settings = examples(50)
TestReading = Reading.TestCase
TestReading.settings = examples(50)
