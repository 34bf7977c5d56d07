"""The embedded API server against the measured table, against itself, and against a real kube-apiserver when there is one.

CONFORMANCE_SEQUENCES sets how many random sequences run (default 40), CONFORMANCE_SEED the first of them.
"""

import os
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from localcluster.conformance import envtest, real, runner
from localcluster.conformance.case import Case, Expect, Step
from localcluster.conformance.cases import TABLE
from localcluster.conformance.comparison import Outcome, compare
from localcluster.conformance.driver import Driver
from localcluster.conformance.kinds import CONFIG_MAPS, config_map
from localcluster.conformance.record import Answer, Record, difference
from localcluster.conformance.sequences import KINDS, sequence
from localcluster.conformance.target import embedded

SEQUENCES = int(os.environ.get("CONFORMANCE_SEQUENCES", "40"))
SEED = int(os.environ.get("CONFORMANCE_SEED", "0"))
#: The cases of one test: few enough to name a failure closely, enough to pay for a server's start.
BATCH = 20
BATCHES = [TABLE[first : first + BATCH] for first in range(0, len(TABLE), BATCH)]
SEEDS = [range(first, min(first + BATCH, SEED + SEQUENCES)) for first in range(SEED, SEED + SEQUENCES, BATCH)]
#: What only a defect gives; the other 500s are the real server's own and are in the table.
DEFECT = "Internal error occurred"


@pytest.fixture
async def ours() -> AsyncIterator[Driver]:
    async with embedded() as target:
        driver = Driver(target)
        await driver.prepare()
        yield driver


@pytest.fixture
async def theirs() -> AsyncIterator[Driver]:
    if not real.available():
        pytest.skip(real.WHY_NOT)
    async with real.real() as target:
        assert target is not None
        driver = Driver(target, f"run{os.getpid()}")
        await driver.prepare()
        yield driver
        if target.lasting:
            await driver.clean_up()


def test_the_table_is_as_large_as_promised() -> None:
    names = Counter(case.name for case in TABLE)
    assert max(names.values()) == 1
    assert len(names) >= 60


# The two sizes that a server refuses are beyond what aiohttp likes to send in one piece.
@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
@pytest.mark.parametrize("cases", BATCHES, ids=lambda cases: cases[0].name)
async def test_table(ours: Driver, cases: tuple[Case, ...]) -> None:
    outcomes = [await compare(case, ours, None) for case in cases]
    assert [outcome.report() for outcome in outcomes if not outcome.agrees] == []


@pytest.mark.parametrize("seeds", SEEDS, ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
async def test_sequences_alone(ours: Driver, seeds: range) -> None:
    """No defect shows, and the events of a watch from the start add up to what a list shows."""
    for seed in seeds:
        case = sequence(seed)
        record, _ = await ours.run(case)
        assert not [answer.body for answer in record.answers if DEFECT in str(answer.body)], case.name
        for kind in KINDS:
            _assert_replay(case, record, kind.plural)


async def test_the_same_seed_gives_the_same_record() -> None:
    records = []
    for _ in range(2):
        async with embedded() as target:
            driver = Driver(target)
            await driver.prepare()
            records.append((await driver.run(sequence(7)))[0].normalised())
    assert difference(*records) == []


@pytest.mark.timeout(600)
# The two sizes that a server refuses are beyond what aiohttp likes to send in one piece.
@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
@pytest.mark.parametrize("cases", BATCHES, ids=lambda cases: cases[0].name)
async def test_table_against_a_real_server(theirs: Driver, ours: Driver, cases: tuple[Case, ...]) -> None:
    outcomes = [await compare(case, ours, theirs) for case in cases]
    assert [outcome.report() for outcome in outcomes if not outcome.agrees] == []


@pytest.mark.timeout(36_000)
async def test_sequences_against_a_real_server(theirs: Driver) -> None:
    outcomes: list[Outcome] = []
    await runner.run((sequence(SEED + number) for number in range(SEQUENCES)), theirs, outcomes.append)
    assert len(outcomes) == SEQUENCES
    assert [outcome.report() for outcome in outcomes if not outcome.agrees] == []


async def test_an_expectation_that_does_not_hold_is_told(ours: Driver) -> None:
    wrong = Case("wrong", (
        Step("POST", CONFIG_MAPS, body=config_map("n"), expect=Expect(200, "Odd", fields={"data.k": "w"}, items=("x",))),
        Step("WATCH", CONFIG_MAPS, query={"resourceVersion": "0"}, expect=Expect(200, events=("DELETED n",))),
    ))  # fmt: skip
    outcome = await compare(wrong, ours, None)
    told = "\n".join(outcome.problems)
    assert all(part in told for part in ("code 201, not 200", "not 'Odd'", "data.k is 'v'", "items ()", "'ADDED n'"))


def test_records_differ_in_what_matters_only() -> None:
    def record(uid: str, version: str, **data: str) -> Record:
        body = {"metadata": {"uid": uid, "resourceVersion": version, "creationTimestamp": "2026-01-01T00:00:00Z"}, "data": data}
        return Record({}, [Answer(200, body)])

    first = record("11111111-1111-4111-8111-111111111111", "5", k="v").normalised()
    other = "22222222-2222-4222-8222-222222222222"
    assert difference(first, record(other, "905", k="v").normalised()) == []
    assert difference(first, record(other, "905", k="w").normalised()) == ["[0].body.data.k: 'v' / 'w'"]


def test_assets_that_are_not_there_are_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(envtest.ASSETS, str(tmp_path))
    with pytest.raises(envtest.StartError, match="no executable etcd and kube-apiserver there"):
        real.available()


@pytest.mark.parametrize(("context", "counts"), [("conformance", True), ("production", False)])
def test_a_plain_kubeconfig_counts_only_when_its_context_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, context: str, counts: bool
) -> None:
    path = tmp_path / "config"
    path.write_text(f"current-context: {context}\n")
    monkeypatch.delenv(real.MARKED, raising=False)
    monkeypatch.setenv("KUBECONFIG", str(path))
    assert (real.kubeconfig() == path) is counts


def _assert_replay(case: Case, record: Record, plural: str) -> None:
    """The last watch of the kind starts where the first list ended; the two lists after it are what must come out."""
    steps = [(step, answer) for step, answer in zip(case.steps, record.answers, strict=True) if step.kind.plural == plural]
    if not steps:
        return
    (_, watched), *lists = steps[-3:]
    state: dict[tuple[str, str], str] = {}
    versions = []
    for event in watched.events or ():
        meta = event["object"]["metadata"]
        key = (meta["namespace"], meta["name"])
        # Each type follows from what was there: this is what an informer relies on.
        assert (event["type"] == "ADDED") == (key not in state), (case.name, event)
        versions.append(int(meta["resourceVersion"]))
        state[key] = meta["resourceVersion"]
        if event["type"] == "DELETED":
            del state[key]
    assert versions == sorted(set(versions)), case.name
    shown = {
        (item["metadata"]["namespace"], item["metadata"]["name"]): item["metadata"]["resourceVersion"]
        for _, answer in lists
        for item in answer.body["items"]
        if not item["metadata"]["name"].startswith("zz-end-")
    }
    assert state == shown, case.name
