"""Which test programme catches which known defect, and at what CPU cost: ``python -m jobcommon.testutil.sim.detection``.

The defects are the mutants and what reading the code has found. Each is put back and tried by each programme in a process of
its own, up to the first complaint. The samples cost a few CPU seconds each on the code without a defect; the fault-free runs
that others are held against are made before. What costs more is tried with the defects that the others leave. Programs that
are processes have the defect put back in those, too.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from jobcommon.testutil.sim import election, regressions, swarm, sweep
from jobcommon.testutil.sim.campaign import Case, Verdict
from jobcommon.testutil.sim.differential import compare
from jobcommon.testutil.sim.lifecycles import LIFECYCLES
from jobcommon.testutil.sim.multi_job_scenarios import scenario_named
from jobcommon.testutil.sim.mutant_reviewed import REVIEWED
from jobcommon.testutil.sim.mutants import MUTANTS
from jobcommon.testutil.sim.mutation import hunt
from jobcommon.testutil.sim.simulation import Run, simulate

Programme = Callable[[str], bool]
"""Whether it complains of the defect of that name, which is put back."""

MODULE = "jobcommon.testutil.sim.detection"
KNOWN = {**MUTANTS, **{mutant.name: mutant for mutant in REVIEWED}}
GOLDEN = "tests/reconcile/test_golden.py"
PROPERTIES = ("tests/reconcile/test_properties.py", "tests/reconcile/test_gang_properties.py")
UNITS = ("tests/controller", "tests/runtime/test_executor.py", "tests/reconcile", "-k", "not properties and not histories")
SEARCHED = range(100)
#: Of the lifecycles every eighth, and of their points so many.
NAMES, POINTS, SEEDS, ELECTIONS = list(LIFECYCLES)[::8], 30, range(16), range(6)
LIMIT_SECONDS = 120
"""CPU time after which a programme hangs, which is a complaint."""
_expected: dict[tuple[str, int], Run] = {}


def _pytest(*arguments: str) -> Programme:
    def tried(_name: str) -> bool:
        options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--no-header", "--timeout", "600"]
        with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            return pytest.main([*options, "-W", "ignore::pytest.PytestAssertRewriteWarning", *arguments]) != pytest.ExitCode.OK

    return tried


def _with_processes(*arguments: str) -> Programme:
    """Tests whose programs are processes: each interpreter puts the defect back when it starts."""

    def tried(name: str) -> bool:
        with tempfile.TemporaryDirectory() as directory:
            plant = f"from {MODULE} import KNOWN\nplanted = KNOWN[{name!r}].planted()\nplanted.__enter__()\n"
            (Path(directory) / "sitecustomize.py").write_text(plant if name else "")
            path = os.pathsep.join([directory, *filter(None, [os.environ.get("PYTHONPATH")])])
            command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *arguments]
            done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, check=False)  # noqa: S603
        return done.returncode != 0

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


def _spread(cases: Iterable[Case]) -> list[Case]:
    """So many of the cases, evenly."""
    found = list(cases)
    return found[:: max(len(found) // POINTS, 1)]


def _swept(points: Callable[[Sequence[Verdict]], Iterable[Case]]) -> Programme:
    return _simulated(_spread(points(sweep.references(NAMES, (0,), 1))))


def _elected() -> Programme:
    for seed in ELECTIONS:
        election.hold(seed)
    return lambda _name: any(election.hold(seed).verdict.problems for seed in ELECTIONS)


PROGRAMMES: Mapping[str, Callable[[], Programme]] = {
    "golden plans": lambda: _pytest(GOLDEN),
    "unit tests": lambda: _pytest("-m", "not slow", *UNITS, "--ignore", GOLDEN),
    "properties": lambda: _pytest(*PROPERTIES),
    "bad jobs": lambda: _pytest("tests/sim/test_bad_jobs.py"),
    "search": lambda: lambda name: bool(name) and hunt(KNOWN[name], SEARCHED) is not None,
    "elections": _elected,
    "lifecycles": lambda: _simulated(Case(name, 0) for name in NAMES),
    "writes": lambda: _swept(sweep.write_points),
    "swarm": lambda: _simulated(swarm.cases(SEEDS)),
}
WITH_PROCESSES: Mapping[str, Callable[[], Programme]] = {
    "chaos": lambda: _with_processes("tests/chaos/test_chaos.py"),
    "real": lambda: _with_processes("tests/real/test_rows.py", "-k", "PyTorchJob"),
}
LATE: Mapping[str, Callable[[], Programme]] = {
    "reads": lambda: _swept(sweep.read_points),
    "regressions": lambda: _simulated(regressions.cases()),
    "models": lambda: _pytest("tests/properties"),
    **WITH_PROCESSES,
}
"""What is tried with the defects that are left by the others."""
_made: dict[str, Programme] = {}


class _Hangs(BaseException):
    """The CPU time is over."""


def _hangs(*_: object) -> None:
    raise _Hangs


def trial(task: tuple[str, str]) -> tuple[str, str, bool, float]:
    """Whether a programme catches a defect, and the CPU seconds until then."""
    programme, name = task
    begin, (_, most) = _cpu_seconds(), resource.getrlimit(resource.RLIMIT_CPU)
    signal.signal(signal.SIGXCPU, _hangs)
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + LIMIT_SECONDS, most))
    try:
        in_here = name and programme != "search" and programme not in WITH_PROCESSES
        with KNOWN[name].planted() if in_here else contextlib.nullcontext():
            caught = _made[programme](name)
    except _Hangs:
        caught = True
    return *task, caught, _cpu_seconds() - begin


def _cpu_seconds() -> float:
    """Of this process and those that it has started and that have ended."""
    return sum(os.times()[:4])


def table(found: Mapping[tuple[str, str], tuple[bool, float]], rows: Iterable[str], columns: Sequence[str]) -> Iterator[str]:
    """The results as a Markdown table: the CPU seconds until a defect was caught, ``-`` where it was not."""
    yield "| | " + " | ".join(columns) + " |"
    yield "|---|" + "---:|" * len(columns)
    for name in rows:
        cells = [_cell(found.get((name, column))) for column in columns]
        yield f"| {name} | " + " | ".join(cells) + " |"
    by_column = [[found[name, column] for name in rows if (name, column) in found] for column in columns]
    yield "| **caught** | " + " | ".join(f"{sum(c for c, _ in tried)} of {len(tried)}" for tried in by_column) + " |"
    caught_by = {name: [column for column in columns if found.get((name, column), (False, 0.0))[0]] for name in rows}
    alone = [[name for name in rows if caught_by[name] == [column]] for column in columns]
    yield "| caught by no other | " + " | ".join(str(len(names)) for names in alone) + " |"
    yield "| CPU seconds | " + " | ".join(f"{sum(seconds for _, seconds in tried):.0f}" for tried in by_column) + " |"
    yield "| CPU seconds without a defect | " + " | ".join(_seconds(found.get(("", column))) for column in columns) + " |"


def _cell(result: tuple[bool, float] | None) -> str:
    return "" if result is None else f"{result[1]:.0f}" if result[0] else "-"


def _seconds(result: tuple[bool, float] | None) -> str:
    return "" if result is None else f"{result[1]:.0f}"


def _kept(results: Path | None) -> dict[tuple[str, str], tuple[bool, float]]:
    lines = results.read_text(encoding="utf-8").splitlines() if results is not None and results.exists() else []
    return {(name, column): (caught, seconds) for name, column, caught, seconds in map(json.loads, lines)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 if a programme complains of the code without a defect."""
    parser = argparse.ArgumentParser(prog="python -m jobcommon.testutil.sim.detection", description=__doc__)
    every = {**PROGRAMMES, **LATE}
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default="", help="defects whose name contains this")
    parser.add_argument("--programme", action="append", choices=every, help="only this one; may be repeated")
    parser.add_argument(
        "--results", type=Path, help="a file of JSON lines: what it has is not run again, and what is run is added"
    )
    options = parser.parse_args(arguments)
    os.nice(10)
    columns = options.programme or list(every)
    rows = [name for name in KNOWN if options.only in name]
    found = _kept(options.results)
    for column in columns:
        # Its own search is no programme of the tests.
        caught_before = {name for (name, by), (caught, _) in found.items() if caught and by != "search"}
        wanted = [name for name in rows if column not in LATE or name not in caught_before]
        tasks = [(column, name) for name in ("", *wanted) if (name, column) not in found]
        if not tasks:
            continue
        _made[column] = every[column]()
        # A process for each, forked from this one, which has the runs without a defect.
        with multiprocessing.get_context("fork").Pool(options.workers, maxtasksperchild=1) as pool:
            for _, name, caught, seconds in pool.imap_unordered(trial, tasks, 1):
                found[name, column] = caught, seconds
                print(f"{column:<14} {name or 'no defect':<40} {caught!s:<5} {seconds:.1f} s", file=sys.stderr, flush=True)
                if options.results:
                    with options.results.open("a", encoding="utf-8") as out:
                        print(json.dumps([name, column, caught, round(seconds, 1)]), file=out)
            # See `campaign.spread`.
            pool.close()
            pool.join()
    print(*table(found, rows, columns), sep="\n")
    wrong = [column for column in columns if found.get(("", column), (False, 0.0))[0]]
    print(*(f"{column} complains without a defect" for column in wrong), sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
