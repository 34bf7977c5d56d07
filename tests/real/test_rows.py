"""The table of lifecycles on the embedded cluster, and by `make real` on a real control plane: both come out of it alike."""

import os
import signal
from asyncio import Task
from collections.abc import AsyncIterator, Mapping

import pytest
import pytest_asyncio

from jobcommon.cli.embedded import SERVER
from jobcommon.testutil.real.cluster import process_cluster, real_cluster
from jobcommon.testutil.real.rows import KINDS, PYTORCHJOB, ROWS, Row
from jobcommon.testutil.real.runner import started
from localcluster.client import EMBEDDED, REAL
from localcluster.conformance import real

IS_REAL, ONLY = os.environ.get(SERVER) == REAL, os.environ.get("ONLY", "")
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


CHOSEN = [row for row in ROWS if ONLY in row.name and (IS_REAL or is_thin(row))]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runs(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[bool, Mapping[str, Task[None]]]]:
    """Whether the cluster has containers, and the runs of the rows on it."""
    # It ends as by Ctrl-C: a kubelet left behind would remove the containers of the next run.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    directory = tmp_path_factory.mktemp("real")
    async with real_cluster(directory) if IS_REAL else process_cluster(directory, EMBEDDED) as cluster:
        contained = cluster.node is not None
        async with started(cluster, [row for row in CHOSEN if contained or not row.killed]) as tasks:
            yield contained, tasks
    signal.signal(signal.SIGTERM, before)


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.skipif(IS_REAL and not real.available(), reason=real.WHY_NOT)
@pytest.mark.parametrize("row", CHOSEN, ids=lambda row: row.name)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_job_comes_out_as_the_table_says(runs: tuple[bool, Mapping[str, Task[None]]], row: Row) -> None:
    contained, tasks = runs
    if row.killed and not contained:
        pytest.skip("it needs containers, and parts that can be killed: here all is one process")
    await tasks[row.name]
