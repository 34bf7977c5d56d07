"""The table of `make real` on the embedded cluster: both must come out of it alike."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
import pytest_asyncio

from jobcommon.testutil.real import __main__ as command
from jobcommon.testutil.real.cluster import embedded_cluster
from jobcommon.testutil.real.rows import KINDS, PYTORCHJOB, ROWS, Row
from jobcommon.testutil.real.runner import run_rows
from localcluster.conformance import envtest

#: Of the other kinds, which go the same way through the library, these stand for all; each row costs an operator's start.
OF_EVERY_KIND = ("success", "eviction")
OTHERS = tuple(f"{kind.name}: " for kind in KINDS if kind is not PYTORCHJOB)
#: Of the products of policy, exit code and operator, those with this policy.
PRODUCTS, POLICY = ("suspension under ", "kubectl delete pod under "), "under Never"


def is_thin(row: Row) -> bool:
    """Whether the row runs with the slow tests."""
    if row.killed or row.alone:
        return False
    if row.name.startswith(OTHERS):
        return row.name.endswith(OF_EVERY_KIND)
    return not row.name.startswith(PRODUCTS) or POLICY in row.name


THIN = [row for row in ROWS if is_thin(row)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def problems(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Mapping[str, str]]:
    async with embedded_cluster(tmp_path_factory.mktemp("real")) as cluster:
        yield {outcome.row.name: outcome.problem async for outcome in run_rows(cluster, THIN)}


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", [row.name for row in THIN])
def test_the_embedded_cluster_agrees(problems: Mapping[str, str], name: str) -> None:
    assert problems[name] == ""


def test_without_a_cluster_it_says_so_and_ends_well(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.delenv(envtest.ASSETS, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["real"])
    assert command.main() == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"make real: {len(ROWS)} rows skipped; no real cluster")
