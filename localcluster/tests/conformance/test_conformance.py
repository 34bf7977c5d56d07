"""The embedded API server against the recorded table, and a real kube-apiserver against it when there is one."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from localcluster import envtest
from localcluster.conformance import real
from localcluster.conformance.driver import Driver
from localcluster.conformance.table import Case, table

#: The cases of one test: few enough to name a failure closely, enough to pay for a server's start.
BATCH = 20
BATCHES = [table()[first : first + BATCH] for first in range(0, len(table()), BATCH)]


@pytest.fixture
async def ours() -> AsyncIterator[Driver]:
    async with real.embedded() as target:
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


async def unmet(driver: Driver, cases: list[Case]) -> list[str]:
    return [problem for case in cases for problem in await driver.run(case)]


def test_cases_have_names_of_their_own() -> None:
    assert len({case.name for case in table()}) == len(table())


@pytest.mark.parametrize("cases", BATCHES, ids=lambda cases: cases[0].name)
async def test_table(ours: Driver, cases: list[Case]) -> None:
    assert await unmet(ours, cases) == []


@pytest.mark.parametrize("cases", BATCHES, ids=lambda cases: cases[0].name)
async def test_table_on_a_real_server(theirs: Driver, cases: list[Case]) -> None:
    assert await unmet(theirs, cases) == []


async def test_an_expectation_that_does_not_hold_is_reported(ours: Driver) -> None:
    made = {"do": "POST configmaps", "code": 200, "reason": "Odd", "fields": {"data.k": "w"}, "items": ["x"]}
    seen = {"do": "WATCH configmaps", "query": {"resourceVersion": "0"}, "events": ["DELETED n"]}
    text = "\n".join(await unmet(ours, [Case("wrong", [made, seen])]))
    assert all(part in text for part in ("code 201, not 200", "not 'Odd'", "data.k is 'v'", "items []", "'ADDED n'"))


def test_assets_that_are_not_there_are_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(envtest.ASSETS, str(tmp_path))
    with pytest.raises(envtest.StartError, match="no executable etcd and kube-apiserver and kube-controller-manager there"):
        real.available()
