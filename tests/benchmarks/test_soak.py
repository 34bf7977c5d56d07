"""The long run in a thin form, and what its figures say. Nothing here depends on how fast the machine is."""

from itertools import pairwise

import pytest

from benchmarks.apiserver import EMBEDDED
from benchmarks.soak.churn import Life
from benchmarks.soak.figures import ColdStart, Run, Sample, goals, lines
from benchmarks.soak.jobs import FATES, FRAMEWORKS, Fate, SoakJob
from benchmarks.soak.run import Plan, run
from benchmarks.soak.warming import Warming

MB = 1_000_000


def a_run(*, growth: int = 0, slower: float = 1.0, faults: tuple[str, ...] = (), writes: int = 0) -> Run:
    """A minute with a window of ten seconds, quiet from the half on, in which each second a job was over."""
    found = Run("embedded", 1.0, 1.0, ColdStart(100, 1.0, 1.0, writes, 90 * MB, 2.0))
    found.start, found.window, found.quiet_from, found.end = 1000.0, 10.0, 1030.0, 1060.0
    found.lives = [Life(1000.0 + n, 0.1 * (slower if n >= 50 else 1), 0.2) for n in range(60)]
    found.samples = [Sample(1000.0 + n, n, 100 * MB + max(0, n - 30) * growth, n * 0.01) for n in range(61)]
    found.restarts, found.faults, found.ends = ["operator", "API server", "operator"], faults, {Fate.SUCCEEDS.value: 60}
    found.warming = [Warming("restart of the server", 13, 130, 0.9, 1.5)]
    return found


def missed(found: Run) -> list[str]:
    return [goal.text.partition(",")[0] for goal in goals(found) if not goal.met]


def test_a_run_that_stays_as_it_began_meets_every_goal() -> None:
    found = a_run()
    assert missed(found) == []
    text = dict(lines(found))
    assert text["restarts, each with kill -9"] == "1 × API server, 2 × operator"
    assert text["resident memory over the last 30 s, 30 jobs"] == "100.0 → 100.0 MB, most 100.0 MB, +0 bytes a job"
    assert text["CPU in that time"] == "10.0 s for 1,000 jobs"


def test_what_grows_or_slows_down_or_goes_wrong_is_told() -> None:
    assert missed(a_run(growth=300_000)) == ["resident memory"]
    assert a_run(growth=300_000).growth == pytest.approx(300_000)
    assert missed(a_run(slower=1.2)) == ["latency until the pods are created"]
    assert missed(a_run(faults=("a job hung",))) == ["jobs that hung or ended otherwise than they should"]
    assert missed(a_run(writes=1)) == ["cold start: writes"]


def test_every_kind_has_every_fate() -> None:
    jobs = [SoakJob.of(number) for number in range(len(FRAMEWORKS) * len(FATES))]
    assert {(job.framework.kind, job.fate) for job in jobs} == {(f.kind, fate) for f in FRAMEWORKS for fate in Fate}


@pytest.mark.cluster
@pytest.mark.slow
async def test_a_thin_run() -> None:
    """Every fate of every kind, restarts of operator and server, a server that warms its caches; nothing hangs."""
    told: list[str] = []
    found = await run(EMBEDDED, Plan(minutes=0.3, rate=4.0, kept=60, warming=6.0), told.append)
    assert found.faults == []
    assert set(found.ends) == {fate.value for fate in Fate}
    assert found.cold_start.writes == 0
    assert found.restarts == ["operator", "API server", "operator"]
    assert [warming.watches for warming in found.warming] == [len(FRAMEWORKS) * 3 + 1] * 2
    assert all(warming.rate <= 1.1 for warming in found.warming)
    assert all(earlier.over <= later.over for earlier, later in pairwise(found.samples))
