"""The long run in a thin form. Nothing here depends on how fast the machine is."""

from itertools import pairwise

import pytest

from benchmarks.processes import EMBEDDED
from benchmarks.soak import FATES, FRAMEWORKS, Fate, Soak, SoakJob, run


def test_every_kind_has_every_fate() -> None:
    jobs = [SoakJob.of(number) for number in range(len(FRAMEWORKS) * len(FATES))]
    assert {(job.framework.kind, job.fate) for job in jobs} == {(f.kind, fate) for f in FRAMEWORKS for fate in Fate}


@pytest.mark.cluster
@pytest.mark.slow
async def test_a_thin_run() -> None:
    """Every fate of every kind, restarts of operator and server: nothing hangs."""
    found = await run(EMBEDDED, Soak(minutes=0.3, rate=4.0, kept=60))
    assert found.faults == []
    assert set(found.ends) == set(Fate)
    assert found.writes == 0
    assert found.restarts == ["operator", "API server", "operator"]
    assert all(earlier[0] <= later[0] for earlier, later in pairwise(found.resident))
    assert "restarts, each with kill -9" in found.text()
