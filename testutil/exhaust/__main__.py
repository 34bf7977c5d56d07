"""Search all states of one small job, for each restart policy: ``python -m jobcommon.testutil.exhaust`` (`make exhaust`).

Ends with 1 and the shortest trace if there is anything wrong, or if a search is given up before its end.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import fields

from jobcommon.testutil.exhaust.model import POLICIES, Bounds, Model
from jobcommon.testutil.exhaust.mutants import LEFT_OUT, TRIALS, hunt
from jobcommon.testutil.exhaust.search import Search
from jobcommon.testutil.sim.campaign import spread


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table of the searches, or with ``--mutants`` one of the mutants."""
    parser = argparse.ArgumentParser(prog="python -m jobcommon.testutil.exhaust", description=__doc__)
    parser.add_argument("--policy", choices=POLICIES, action="append", help="only this restart policy; may be repeated")
    for bound in fields(Bounds):
        parser.add_argument(
            f"--{bound.name.replace('_', '-')}", type=int, default=bound.default, help="%(default)s if not given"
        )
    parser.add_argument("--most", type=int, default=0, help="give up after this many states; 0: never")
    parser.add_argument("--workers", type=int, default=2, help="how many searches run at the same time")
    parser.add_argument("--mutants", action="store_true", help="search for what each mutant does wrong instead")
    parser.add_argument("--only", default="", help="with --mutants: those whose name contains this")
    options = parser.parse_args(arguments)
    if options.mutants:
        return _mutants(options.only, options.workers)
    bounds = Bounds(**{bound.name: getattr(options, bound.name) for bound in fields(Bounds)})
    return _policies(options.policy or POLICIES, bounds, options.most, options.workers)


def _policies(policies: Iterable[str], bounds: Bounds, most: int, workers: int) -> int:
    print(", ".join(f"{bound.name} {getattr(bounds, bound.name)}" for bound in fields(bounds)))
    print(f"{'policy':<10} {'states':>9} {'transitions':>11} {'depth':>6} {'at rest':>8} {'CPU s':>7}  result")
    bad = 0
    for policy, counts, result, trace in spread(_search, ((policy, bounds, most) for policy in policies), workers, 1):
        states, transitions, depth, at_rest, seconds = counts
        print(f"{policy:<10} {states:>9} {transitions:>11} {depth:>6} {at_rest:>8} {seconds:>7.0f}  {result}", flush=True)
        _print_trace(trace)
        bad += result != "exhausted"
    return 1 if bad else 0


def _search(task: tuple[str, Bounds, int]) -> tuple[str, tuple[int, int, int, int, float], str, list[str]]:
    policy, bounds, most = task
    search = Search(Model(policy, bounds), most).run()
    counts = search.states, search.transitions, search.depth, search.at_rest, search.seconds
    result = search.problem or ("exhausted" if search.complete else f"given up after {most} states")
    return policy, counts, result, search.trace


def _mutants(only: str, workers: int) -> int:
    names = [name for name in TRIALS if only in name]
    print(f"{'mutant':<34} {'policy':<9} {'states':>7} {'steps':>5} {'CPU s':>6}  caught by")
    away = 0
    for name, policy, states, trace, seconds, problem in spread(_hunt, names, workers, 1):
        away += not problem
        print(f"{name:<34} {policy:<9} {states:>7} {len(trace):>5} {seconds:>6.1f}  {problem or 'NOT CAUGHT'}", flush=True)
    for name, why in LEFT_OUT.items():
        if only in name:
            print(f"{name:<44} cannot show: {why}")
    print(f"mutants: {len(names)} tried, {len(names) - away} caught; {sum(only in name for name in LEFT_OUT)} cannot show here")
    return 1 if away else 0


def _hunt(name: str) -> tuple[str, str, int, list[str], float, str]:
    search = hunt(name)
    return name, search.model.policy, search.states, search.trace, search.seconds, search.problem


def _print_trace(trace: Sequence[str]) -> None:
    for number, step in enumerate(trace, 1):
        print(f"  {number:>3} {step}")


if __name__ == "__main__":
    sys.exit(main())
