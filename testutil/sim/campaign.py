"""Many simulated runs over several processes, each held against the fault-free run of its scenario.

A failing case is printed as one command that runs it again.
"""

import gc
import json
import multiprocessing
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TextIO, TypeVar
from zlib import crc32

from jobcommon.testutil.sim import image
from jobcommon.testutil.sim.differential import compare
from jobcommon.testutil.sim.faults import KINDS, Fault, to_json
from jobcommon.testutil.sim.multi_job_scenarios import scenario_named
from jobcommon.testutil.sim.simulation import Run, simulate

A = TypeVar("A")
B = TypeVar("B")
COMMAND = "python -m jobcommon.testutil.sim"
DOUBLE_RUN = 100
"""Every n-th case is run twice, and must have the same history (oracle O8)."""
PROGRESS_SECONDS = 60.0
_REFERENCES_KEPT = 512
#: The number of cases whose first events are compared.
_AHEAD = 64
#: How many more objects than at the last collection there must be for the next one: about as many as a few runs leave behind.
_GARBAGE = 100_000


@dataclass(frozen=True, slots=True)
class Case:
    """One run to be made: a scenario by name, a seed and the faults."""

    scenario: str
    seed: int
    faults: tuple[Fault, ...] = ()

    @property
    def replay(self) -> str:
        """The command that runs it again."""
        command = f"{COMMAND} replay --scenario {self.scenario} --seed {self.seed}"
        return f"{command} --faults {shlex.quote(to_json(self.faults))}" if self.faults else command


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a case. `writes` is the number of points at which a fault can be injected."""

    case: Case
    problems: tuple[str, ...]
    fired: dict[str, int]
    writes: int
    jobs: int
    history: str


@dataclass
class Tally:
    """The count of a campaign."""

    title: str
    runs: int = 0
    jobs: int = 0
    seconds: float = 0.0
    fired: Counter[str] = field(default_factory=Counter)
    failures: list[Verdict] = field(default_factory=list)

    def add(self, verdict: Verdict) -> None:
        """Count one run."""
        self.runs += 1
        self.jobs += verdict.jobs
        self.fired.update(verdict.fired)
        if verdict.problems:
            self.failures.append(verdict)

    def merge(self, other: "Tally") -> None:
        """Count another campaign's runs, too."""
        self.runs += other.runs
        self.jobs += other.jobs
        self.seconds += other.seconds
        self.fired.update(other.fired)
        self.failures += other.failures

    def lines(self) -> Iterator[str]:
        """The counts, for people."""
        rate = self.runs / self.seconds if self.seconds else 0.0
        lives = self.jobs / self.seconds if self.seconds else 0.0
        yield (
            f"{self.title}: {self.runs} runs of {self.jobs} jobs in {self.seconds:.0f} s ({rate:.1f} runs/s, "
            f"{lives:.1f} jobs/s), {sum(self.fired.values())} faults struck, {len(self.failures)} failures"
        )

    def coverage(self) -> Iterator[str]:
        """How often each kind of fault was injected."""
        for kind, facts in KINDS.items():
            yield f"  {facts.number:>4} {kind:<22} {self.fired.get(kind, 0)}"


_references: dict[tuple[str, int], Run] = {}


def reference(scenario: str, seed: int) -> Run:
    """The fault-free run; kept for a while."""
    found = _references.get((scenario, seed))
    return found if found is not None else _keep(simulate(scenario_named(scenario), seed))


def _keep(run: Run) -> Run:
    if len(_references) >= _REFERENCES_KEPT:
        _references.clear()
    return _references.setdefault((run.scenario, run.seed), run)


def judge(case: Case) -> Verdict:
    """Make one run and say what is wrong with it."""
    scenario = scenario_named(case.scenario)
    expected = reference(case.scenario, case.seed)
    run = simulate(scenario, case.seed, case.faults) if case.faults else expected
    problems = compare(expected, run, scenario)
    if crc32(case.replay.encode()) % DOUBLE_RUN == 0 and simulate(scenario, case.seed, case.faults).history != run.history:
        problems.append("determinism: a second run had another history")
    return Verdict(case, tuple(problems), dict(run.fired), len(run.trace), run.jobs, run.history)


def conduct(title: str, cases: Iterable[Case], workers: int, out: TextIO = sys.stdout, until: float | None = None) -> Tally:
    """Judge all cases; failures are printed as they come. `until` (monotonic seconds) is when to begin no more."""
    tally, started, said = Tally(title), time.monotonic(), 0.0
    for verdict in verdicts(_until(cases, until), workers):
        tally.add(verdict)
        if verdict.problems:
            print(f"FAILED {verdict.case.replay}", file=out)
            for problem in verdict.problems[:5]:
                print(f"    {problem.strip()}", file=out)
        tally.seconds = time.monotonic() - started
        if tally.seconds >= said + PROGRESS_SECONDS:
            said = tally.seconds
            print(*tally.lines(), "so far", file=out)
        out.flush()
    tally.seconds = time.monotonic() - started
    return tally


def verdicts(cases: Iterable[Case], workers: int) -> Iterator[Verdict]:
    """The verdicts on all cases, in whatever order they come, from `workers` processes."""
    if workers > 1:
        rest = iter(cases)
        first = list(islice(rest, _AHEAD))
        _prepare(case.scenario for case in first)
        cases = chain(first, rest)
    return spread(judge, cases, workers)


def _prepare(scenarios: Iterable[str]) -> None:
    """Make what runs begin with before there are workers, each of which would have to make it for itself."""
    for name in scenarios:
        image.prepare(scenario_named(name).frameworks)


def references(keys: Iterable[tuple[str, int]], workers: int) -> Iterator[Verdict]:
    """The verdicts on fault-free runs, in whatever order they come; the runs are kept for the workers of later campaigns."""
    cases = [Case(*key) for key in keys]
    if workers > 1:
        _prepare(case.scenario for case in cases)
    for verdict, run in spread(_judge_reference, cases, workers):
        _keep(run)
        yield verdict


def _judge_reference(case: Case) -> tuple[Verdict, Run]:
    return judge(case), reference(case.scenario, case.seed)


def spread(work: Callable[[A], B], tasks: Iterable[A], workers: int, chunk: int = 8) -> Iterator[B]:
    """Do `work` for each task in `workers` processes; results in whatever order they come."""
    if workers <= 1:
        yield from map(work, tasks)
        return
    # A fresh interpreter would compile every CRD again; nothing here has started a thread.
    with multiprocessing.get_context("fork").Pool(workers, _collect_rarely) as pool:
        # A pool reads its input to the end at once, and the tasks may be many or bounded by time.
        rest = iter(tasks)
        while batch := list(islice(rest, workers * chunk * 4)):
            yield from pool.imap_unordered(work, batch, chunk)
        # They end by themselves: a fork of a process that handles SIGTERM in its event loop ignores it, and is waited for.
        pool.close()
        pool.join()


def _collect_rarely() -> None:
    """A worker lives on runs, each of which leaves its garbage at once; what the worker began with stays."""
    gc.freeze()
    gc.set_threshold(_GARBAGE, 10, 10)


def _until(cases: Iterable[Case], until: float | None) -> Iterator[Case]:
    for case in cases:
        if until is not None and time.monotonic() >= until:
            return
        yield case


def record(tally: Tally, out: TextIO) -> None:
    """One line of JSON with the counts."""
    line = {
        "title": tally.title, "runs": tally.runs, "jobs": tally.jobs, "seconds": round(tally.seconds, 1),
        "fired": dict(sorted(tally.fired.items())), "failures": [verdict.case.replay for verdict in tally.failures],
    }  # fmt: skip
    print(json.dumps(line), file=out)
    out.flush()
