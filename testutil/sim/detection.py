"""Which test programme catches which known defect, and at what CPU cost: ``python -m jobcommon.testutil.sim.detection``.

The defects are the mutants and what reading the code has found. Each is put back and tried by the programmes in the order of
their cost, in a process of its own, up to the first complaint. So what a programme catches, no cheaper one does. Of the
programmes that simulate there are samples; the fault-free runs that others are held against are made before. Programs that are
processes have the defect put back in those, too.
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

from jobcommon.testutil.sim import regressions, swarm, sweep
from jobcommon.testutil.sim.campaign import Case
from jobcommon.testutil.sim.differential import compare
from jobcommon.testutil.sim.lifecycles import LIFECYCLES
from jobcommon.testutil.sim.multi_job_scenarios import scenario_named
from jobcommon.testutil.sim.mutants import MUTANTS
from jobcommon.testutil.sim.mutation import hunt, known_defects
from jobcommon.testutil.sim.simulation import Run, simulate

Programme = Callable[[str], bool]
"""Whether it complains of the defect of that name, which is put back."""

MODULE = "jobcommon.testutil.sim.detection"
KNOWN = known_defects()
GOLDEN = "tests/reconcile/test_golden.py"
PROPERTIES = ("tests/reconcile/test_properties.py", "tests/reconcile/test_gang_properties.py")
UNITS = (
    "tests/controller",
    "tests/runtime/test_executor.py",
    "tests/security/test_fairness.py",
    "tests/reconcile",
    "-k",
    "not properties and not histories",
)
SEARCHED = range(100)
#: Of the lifecycles every eighth, and of their points so many.
NAMES, POINTS, SEEDS = list(LIFECYCLES)[::8], 30, range(16)
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


def _swept() -> Programme:
    """So many of the write points, evenly."""
    found = list(sweep.write_points(sweep.references(NAMES, (0,), 1)))
    return _simulated(found[:: max(len(found) // POINTS, 1)])


PROGRAMMES: Mapping[str, Callable[[], Programme]] = {
    "golden plans": lambda: _pytest(GOLDEN),
    "unit tests": lambda: _pytest("-m", "not slow", *UNITS, "--ignore", GOLDEN),
    "lifecycles without faults": lambda: _simulated(Case(name, 0) for name in NAMES),
    "swarm": lambda: _simulated(swarm.cases(SEEDS)),
    "write points": _swept,
    "search": lambda: lambda name: name in MUTANTS and hunt(KNOWN[name], SEARCHED) is not None,
    "bad jobs": lambda: _pytest("tests/sim/test_bad_jobs.py"),
    "properties of plans": lambda: _pytest(*PROPERTIES),
    "models": lambda: _pytest("tests/properties"),
    "regressions": lambda: _simulated(regressions.cases()),
    "chaos": lambda: _with_processes("tests/chaos/test_chaos.py"),
    "real": lambda: _with_processes("tests/real/test_rows.py", "-k", "PyTorchJob"),
}
"""In the order in which they are tried. The search is that of `make mutants`."""
WITH_PROCESSES = ("chaos", "real")
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


Found = Mapping[tuple[str, str], tuple[bool, float]]
"""Whether a defect (``""``: none) was caught by a programme, and the CPU seconds of the trial."""


def table(found: Found, programmes: Iterable[str]) -> Iterator[str]:
    """The results as a Markdown table, a line for each programme."""
    yield "| programme | CPU s without a defect | defects tried | caught | by no cheaper one | CPU s |"
    yield "|---|---:|---:|---:|---:|---:|"
    before: set[str] = set()
    for programme in programmes:
        tried = {name: result for (name, by), result in found.items() if by == programme and name}
        caught = {name for name, (complains, _) in tried.items() if complains}
        _, alone = found.get(("", programme), (False, 0.0))
        seconds = sum(seconds for _, seconds in tried.values())
        yield f"| {programme} | {alone:.0f} | {len(tried)} | {len(caught)} | {len(caught - before)} | {seconds:.0f} |"
        before |= caught


def _kept(results: Path | None) -> dict[tuple[str, str], tuple[bool, float]]:
    lines = results.read_text(encoding="utf-8").splitlines() if results is not None and results.exists() else []
    return {(name, column): (caught, seconds) for name, column, caught, seconds in map(json.loads, lines)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 if a programme complains of the code without a defect."""
    parser = argparse.ArgumentParser(prog="python -m jobcommon.testutil.sim.detection", description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default="", help="defects whose name contains this")
    parser.add_argument("--programme", action="append", choices=PROGRAMMES, help="only this one; may be repeated")
    parser.add_argument("--all", action="store_true", help="also try the defects that a cheaper programme has caught")
    parser.add_argument(
        "--results", type=Path, help="a file of JSON lines: what it has is not run again, and what is run is added"
    )
    options = parser.parse_args(arguments)
    os.nice(10)
    found = _kept(options.results)
    left = [name for name in KNOWN if options.only in name]
    chosen = options.programme or list(PROGRAMMES)
    for programme in chosen:
        tasks = [(programme, name) for name in ("", *left) if (name, programme) not in found]
        if tasks:
            _made[programme] = PROGRAMMES[programme]()
            # A process for each, forked from this one, which has the runs without a defect.
            with multiprocessing.get_context("fork").Pool(options.workers, maxtasksperchild=1) as pool:
                for _, name, caught, seconds in pool.imap_unordered(trial, tasks, 1):
                    found[name, programme] = caught, seconds
                    print(
                        f"{programme:<26} {name or 'no defect':<40} {caught!s:<5} {seconds:.1f} s", file=sys.stderr, flush=True
                    )
                    if options.results:
                        with options.results.open("a", encoding="utf-8") as out:
                            print(json.dumps([name, programme, caught, round(seconds, 1)]), file=out)
                # See `campaign.spread`.
                pool.close()
                pool.join()
        if not options.all:
            left = [name for name in left if not found.get((name, programme), (False, 0.0))[0]]
    print(*table(found, chosen), sep="\n")
    if not options.all:
        print(f"caught by none: {', '.join(left) or 'nothing'}")
    wrong = [programme for programme in chosen if found.get(("", programme), (False, 0.0))[0]]
    print(*(f"{programme} complains without a defect" for programme in wrong), sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
