"""``python -m jobcommon.testutil.sim my_package:FRAMEWORK``: the jobs of a framework, without and with faults.

What fails is printed as the options that repeat it. The exit code is 1 then.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from pkgutil import resolve_name

import yaml

from jobcommon.testutil.sim.faults import from_json
from jobcommon.testutil.sim.framework_sweep import Trial, Trials


def _conduct(title: str, trials: Trials, chosen: Sequence[Trial]) -> int:
    found = trials.conduct(chosen)
    summary = f"{title}: {found.runs} runs, {len(found.problems)} problems"
    print(*(f"FAILED: {problem}" for problem in found.problems), summary, sep="\n", flush=True)
    return len(found.problems)


def main() -> int:
    """Nothing else is run where a lifecycle fails without faults: all that follows would fail as well."""
    parser = argparse.ArgumentParser(prog="python -m jobcommon.testutil.sim", description=__doc__.splitlines()[0])
    parser.add_argument("framework", type=resolve_name, help="my_package:FRAMEWORK")
    parser.add_argument("-f", "--filename", type=Path, help="the job; without it one that has every replica type")
    parser.add_argument("--seeds", type=int, default=100, help="how many random sets of faults")
    parser.add_argument("--points", action="store_true", help="every fault at every write (minutes), not a hundred of them")
    parser.add_argument("--lifecycle", help="repeat one run, with --seed and --faults")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--faults", type=from_json, default=())
    given = parser.parse_args()
    trials = Trials(given.framework, given.filename and yaml.safe_load(given.filename.read_text()))
    if given.lifecycle:
        return 1 if _conduct("replay", trials, [Trial(given.lifecycle, given.seed, given.faults)]) else 0
    if _conduct("without faults", trials, trials.without_faults()):
        return 1
    failures = _conduct("faults at writes", trials, trials.at_writes(most=None if given.points else 100))
    return 1 if failures + _conduct("swarm", trials, [*map(trials.of_seed, range(given.seeds))]) else 0


if __name__ == "__main__":
    sys.exit(main())
