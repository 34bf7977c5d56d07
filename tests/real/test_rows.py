"""The table of `make real` on the embedded cluster: both must come out of it alike."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
import pytest_asyncio

from jobcommon.testutil.real import __main__ as command
from jobcommon.testutil.real.cluster import embedded_cluster
from jobcommon.testutil.real.manifests import KINDS, PYTORCHJOB
from jobcommon.testutil.real.rows import ROWS
from jobcommon.testutil.real.runner import Outcome, run_row
from jobcommon.testutil.real.table import Row
from localcluster.conformance import envtest

#: Of the other kinds, which go the same way through the library, these stand for all; each row costs an operator's start.
OF_EVERY_KIND = ("success", "eviction")
OTHERS = tuple(f"{kind.name}: " for kind in KINDS if kind is not PYTORCHJOB)
#: Of the products of policy, exit code and operator, those with this policy.
PRODUCTS, POLICY = ("suspension under ", "kubectl delete pod under "), "under Never"


def is_thin(row: Row) -> bool:
    """Whether the row runs with the slow tests."""
    if row.needs or row.alone:
        return False
    return (
        row.name.endswith(OF_EVERY_KIND)
        if row.name.startswith(OTHERS)
        else (not row.name.startswith(PRODUCTS) or POLICY in row.name)
    )


THIN = [row for row in ROWS if is_thin(row)]
AT_ONCE = 4


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def outcomes(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Mapping[str, "asyncio.Task[Outcome]"]]:
    """All rows under way, several at a time; each test awaits its own."""
    turns = asyncio.Semaphore(AT_ONCE)
    async with embedded_cluster(tmp_path_factory.mktemp("real")) as cluster:

        async def in_turn(row: Row) -> Outcome:
            async with turns:
                return await run_row(cluster, row)

        tasks = {row.name: asyncio.create_task(in_turn(row)) for row in THIN}
        yield tasks
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", [row.name for row in THIN])
async def test_the_embedded_cluster_agrees(outcomes: Mapping[str, "asyncio.Task[Outcome]"], name: str) -> None:
    outcome = await outcomes[name]
    assert not outcome.problem, outcome.problem
    assert not outcome.skipped, outcome.skipped


def test_without_a_cluster_it_says_so_and_ends_well(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.delenv(envtest.ASSETS, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["real"])
    assert command.main() == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"make real: {len(ROWS)} rows skipped; no real cluster")
