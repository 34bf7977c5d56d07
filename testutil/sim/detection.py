"""Which test programme catches which mutant, and at what CPU cost: ``python -m jobcommon.testutil.sim.detection``.

Each mutant is tried by each programme in a process of its own, up to the first complaint, and by its own search
(`jobcommon.testutil.sim.mutants`) beside them. The fault-free runs that others are held against are made before, without it.
Programmes that start processes (chaos, soak, real) are left out: a mutant is planted in the process that it is tried in.
"""

import argparse
import contextlib
import io
import json
import multiprocessing
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

import pytest

from jobcommon.testutil.sim import acto, election, regressions, sieve, swarm, sweep
from jobcommon.testutil.sim.campaign import Case, Verdict
from jobcommon.testutil.sim.differential import compare
from jobcommon.testutil.sim.lifecycles import LIFECYCLES
from jobcommon.testutil.sim.multi_job_scenarios import scenario_named
from jobcommon.testutil.sim.mutants import MUTANTS
from jobcommon.testutil.sim.mutation import hunt
from jobcommon.testutil.sim.simulation import Run, simulate

Programme = Callable[[str], bool]
"""Whether it complains of the mutant of that name, which is planted."""

UNITS = ("tests/controller", "tests/reconcile", "tests/runtime")
GOLDEN = "tests/reconcile/test_golden.py"
SWARM, ELECTIONS, SEQUENCES, SEARCHED = range(32), range(8), range(4), range(200)
#: A quarter of the lifecycles, and of their points and plans every so-manieth.
NAMES, STEP = list(LIFECYCLES)[::4], 244
LIMIT_SECONDS = 300
"""CPU time after which a programme hangs, which is a complaint."""
_expected: dict[tuple[str, int], Run] = {}


def _pytest(*arguments: str) -> Programme:
    def tried(_name: str) -> bool:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            code = pytest.main(
                ["-x", "-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning", *arguments]
            )
        return code != pytest.ExitCode.OK

    return tried


def _simulated(cases: Iterable[Case]) -> Programme:
    chosen = list(cases)
    for case in chosen:
        if (case.scenario, case.seed) not in _expected:
            _expected[case.scenario, case.seed] = simulate(scenario_named(case.scenario), case.seed)
    return lambda _name: any(map(_problems, chosen))


def _problems(case: Case) -> list[str]:
    scenario = scenario_named(case.scenario)
    return compare(_expected[case.scenario, case.seed], simulate(scenario, case.seed, case.faults), scenario)


def _swept(points: Callable[[Sequence[Verdict], int], Iterable[Case]], step: int) -> Programme:
    return _simulated(points(sweep.references(NAMES, (0,), 1), step))


def _sieved() -> Programme:
    plans = (sieve.plans((name, 0)).cases[number % STEP :: STEP] for number, name in enumerate(NAMES))
    return _simulated(chain.from_iterable(plans))


def _edited() -> Programme:
    tasks = [(template.name, number) for number in SEQUENCES for template in acto.JOB_TEMPLATES]
    for task in tasks:  # the jobs from scratch are kept
        acto.run_sequence(task)
    return lambda _name: any(acto.run_sequence(task).problems for task in tasks)


def _elected() -> Programme:
    for seed in ELECTIONS:
        election.hold(seed)
    return lambda _name: any(election.hold(seed).verdict.problems for seed in ELECTIONS)


PROGRAMMES: Mapping[str, Callable[[], Programme]] = {
    "golden plans": lambda: _pytest(GOLDEN),
    "unit": lambda: _pytest("-m", "not cluster and not slow", *UNITS, "--ignore", GOLDEN),
    "properties": lambda: _pytest("tests/properties"),
    "lifecycles": lambda: _simulated(Case(name, 0) for name in NAMES),
    "regressions": lambda: _simulated(regressions.cases()),
    "writes": lambda: _swept(sweep.write_points, STEP),
    "reads": lambda: _swept(sweep.read_points, STEP * 3),
    "swarm": lambda: _simulated(swarm.cases(SWARM)),
    "elections": _elected,
    "acto": _edited,
    "sieve": _sieved,
    "search": lambda: lambda name: bool(name) and hunt(MUTANTS[name], SEARCHED) is not None,
}
_made: dict[str, Programme] = {}


class _Hangs(BaseException):
    """The CPU time is over."""


def _hangs(*_: object) -> None:
    raise _Hangs


def trial(task: tuple[str, str]) -> tuple[str, str, bool, float]:
    """Whether a programme catches a mutant, and the CPU seconds until then."""
    programme, name = task
    begin, (_, most) = time.process_time(), resource.getrlimit(resource.RLIMIT_CPU)
    signal.signal(signal.SIGXCPU, _hangs)
    resource.setrlimit(resource.RLIMIT_CPU, (int(begin) + LIMIT_SECONDS, most))
    try:
        with MUTANTS[name].planted() if name and programme != "search" else contextlib.nullcontext():
            caught = _made[programme](name)
    except _Hangs:
        caught = True
    return *task, caught, time.process_time() - begin


def table(found: Mapping[tuple[str, str], tuple[bool, float]], rows: Iterable[str], columns: Sequence[str]) -> Iterator[str]:
    """The results as a Markdown table: the CPU seconds until a mutant was caught, nothing where it was not."""
    yield "| | " + " | ".join(columns) + " |"
    yield "|---|" + "---:|" * len(columns)
    for name in rows:
        results = [found[name, column] for column in columns]
        yield f"| {name} | " + " | ".join(f"{seconds:.0f}" if caught else "" for caught, seconds in results) + " |"
    by_column = [[found[name, column] for name in rows] for column in columns]
    yield "| **caught** | " + " | ".join(str(sum(caught for caught, _ in results)) for results in by_column) + " |"
    yield "| CPU seconds | " + " | ".join(f"{sum(seconds for _, seconds in results):.0f}" for results in by_column) + " |"


def _kept(results: Path | None) -> dict[tuple[str, str], tuple[bool, float]]:
    lines = results.read_text(encoding="utf-8").splitlines() if results is not None and results.exists() else []
    return {(name, column): (caught, seconds) for name, column, caught, seconds in map(json.loads, lines)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 if a programme complains of the code without a mutant."""
    parser = argparse.ArgumentParser(prog="python -m jobcommon.testutil.sim.detection", description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default="", help="mutants whose name contains this")
    parser.add_argument("--programme", action="append", choices=PROGRAMMES, help="only this one; may be repeated")
    parser.add_argument(
        "--results", type=Path, help="a file of JSON lines: what it has is not run again, and what is run is added"
    )
    options = parser.parse_args(arguments)
    columns = options.programme or list(PROGRAMMES)
    rows = [name for name in MUTANTS if options.only in name]
    found = _kept(options.results)
    for column in columns:
        tasks = [(column, name) for name in ("", *rows) if (name, column) not in found]
        if not tasks:
            continue
        _made[column] = PROGRAMMES[column]()
        # A process for each, forked from this one, which has the runs without a mutant.
        with multiprocessing.get_context("fork").Pool(options.workers, maxtasksperchild=1) as pool:
            for _, name, caught, seconds in pool.imap_unordered(trial, tasks, 1):
                found[name, column] = caught, seconds
                print(f"{column:<14} {name or 'no mutant':<40} {caught!s:<5} {seconds:.1f} s", file=sys.stderr, flush=True)
                if options.results:
                    with options.results.open("a", encoding="utf-8") as out:
                        print(json.dumps([name, column, caught, round(seconds, 1)]), file=out)
            # See `campaign.spread`.
            pool.close()
            pool.join()
    print(*table(found, rows, columns), sep="\n")
    print("no mutant, CPU seconds: " + ", ".join(f"{column} {found['', column][1]:.0f}" for column in columns))
    wrong = [column for column in columns if found["", column][0]]
    print(*(f"{column} complains without a mutant" for column in wrong), sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
