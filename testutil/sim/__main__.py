"""The simulator on the command line: ``python -m jobcommon.testutil.sim``. `make sim` and `make sim-full` call it."""

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

from jobcommon.testutil.sim import regressions, swarm, sweep
from jobcommon.testutil.sim.campaign import Case, Tally, conduct, judge, record
from jobcommon.testutil.sim.faults import from_json, unfired
from jobcommon.testutil.sim.lifecycles import LIFECYCLES
from jobcommon.testutil.sim.multi_job_scenarios import scenario_named
from jobcommon.testutil.sim.shrink import shrink
from jobcommon.testutil.sim.simulation import simulate

#: The thin run: the stride of the write-point sweep, and the number of seeds.
THIN_STEP = 183
THIN_SEEDS = 120
#: How many more seeds the thin run takes for a kind of fault that was not injected yet.
SEEDS_OF_A_KIND = 24
FULL_SEEDS = 10_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 1 when something was not as it should be."""
    parser = argparse.ArgumentParser(prog="python -m jobcommon.testutil.sim", description=__doc__)
    commands = parser.add_subparsers(required=True)
    for name, action, text in (
        ("thin", thin, "a sample of everything, in a few minutes"),
        ("full", full, "everything; --first and --results to go on later"),
        ("writes", writes, "the write-point sweep"),
        ("swarm", seeds, "random scenarios and faults"),
    ):
        command = commands.add_parser(name, help=text)
        command.set_defaults(run=action)
        command.add_argument("--workers", type=int, default=2)
        command.add_argument("--only", default="", help="lifecycles whose name contains this")
        command.add_argument("--step", type=int, default=1, help="every so manieth point only")
        command.add_argument("--seed", type=int, default=[0], nargs="+", help="seeds of the sweeps")
        command.add_argument("--first", type=int, default=0, help="the first seed of the swarm")
        command.add_argument("--count", type=int, default=FULL_SEEDS, help="how many seeds")
        command.add_argument("--minutes", type=float, default=None, help="begin nothing more after this time")
        command.add_argument("--results", type=Path, default=None, help="append the counts to this file, as JSON lines")
    again = commands.add_parser("replay", help="run one case again, and shrink its faults if it fails")
    again.set_defaults(run=replay)
    again.add_argument("--scenario", required=True)
    again.add_argument("--seed", type=int, required=True)
    again.add_argument("--faults", default="[]", help="a JSON list")
    again.add_argument("--trace", action="store_true", help="print every write of the operators")
    again.add_argument("--no-shrink", action="store_true")
    options = parser.parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = options.run
    return run(options)


def _names(options: argparse.Namespace) -> list[str]:
    return [name for name in LIFECYCLES if options.only in name]


def _until(options: argparse.Namespace) -> float | None:
    return None if options.minutes is None else time.monotonic() + options.minutes * 60


def _conclude(options: argparse.Namespace, *tallies: Tally, complete: bool = False) -> int:
    total = Tally("total")
    for tally in tallies:
        print(*tally.lines(), sep="\n")
        total.merge(tally)
        if options.results is not None:
            with options.results.open("a", encoding="utf-8") as out:
                record(tally, out)
    print(*total.lines(), *(total.coverage() if total.fired else ()), f"CPU: {sum(os.times()[:4]):.0f} s", sep="\n")
    missing = unfired(total.fired) if complete else []
    if missing:
        print(f"never injected: {', '.join(missing)}")
    return 1 if total.failures or missing else 0


def _sweep(options: argparse.Namespace, step: int) -> Tally:
    found = sweep.references(_names(options), options.seed, options.workers)
    cases = sweep.write_points(found, step)
    return conduct(f"write points (1 of {step})", cases, options.workers, until=_until(options))


def thin(options: argparse.Namespace) -> int:
    """A sample of everything."""
    swept = _sweep(options, THIN_STEP)
    swarmed = conduct("swarm", swarm.cases(range(THIN_SEEDS)), options.workers)
    # A kind of fault may find no victim in so few seeds: those that draw it follow.
    for kind in unfired(swarmed.fired):
        with_it = (case for case in swarm.cases(range(THIN_SEEDS, FULL_SEEDS)) if kind in {fault.kind for fault in case.faults})
        swarmed.merge(conduct(f"swarm, seeds with {kind}", islice(with_it, SEEDS_OF_A_KIND), options.workers))
    again = conduct("regressions", regressions.cases(), options.workers)
    return _conclude(options, swept, swarmed, again, complete=True)


def full(options: argparse.Namespace) -> int:
    """Everything."""
    tallies = [
        _sweep(options, 1),
        conduct("swarm", swarm.cases(range(options.first, options.first + options.count)), options.workers),
        conduct("regressions", regressions.cases(), options.workers),
    ]
    return _conclude(options, *tallies, complete=True)


def writes(options: argparse.Namespace) -> int:
    """The write-point sweep."""
    return _conclude(options, _sweep(options, options.step))


def seeds(options: argparse.Namespace) -> int:
    """The swarm."""
    chosen = range(options.first, options.first + options.count)
    title = f"swarm, seeds {chosen.start} to {chosen.stop - 1}"
    return _conclude(options, conduct(title, swarm.cases(chosen, options.only), options.workers, until=_until(options)))


def replay(options: argparse.Namespace) -> int:
    """One case."""
    case = Case(options.scenario, options.seed, from_json(options.faults))
    if options.trace:
        _trace(case)
    verdict = judge(case)
    print(f"history {verdict.history}, injected: {verdict.fired or 'nothing'}")
    print(*verdict.problems, sep="\n")
    if verdict.problems and not options.no_shrink and case.faults:
        small = shrink(case.faults, lambda faults: bool(judge(Case(case.scenario, case.seed, faults)).problems))
        print(f"shrunk to {len(small)} faults: {Case(case.scenario, case.seed, small).replay}")
    return 1 if verdict.problems else 0


def _trace(case: Case) -> None:
    for write in simulate(scenario_named(case.scenario), case.seed, case.faults).trace:
        print(f"{write.index:4} {write.at:9.3f} {write.writer} {write.method:6} {write.path} {write.status or 'no answer'}")


if __name__ == "__main__":
    sys.exit(main())
