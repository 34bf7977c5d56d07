"""The mutants by name, and which oracle catches each: ``python -m jobcommon.testutil.sim.mutants`` (`make mutants`).

`MUTANTS` are those of `mutants.toml` that a simulated job shows. For each, the first seed that catches it is searched; the
unmutated code runs over the same seeds and must be clean.
"""

import argparse
import sys
import time
from collections.abc import Mapping, Sequence

from jobcommon.testutil.sim import campaign
from jobcommon.testutil.sim.mutation import LIMIT, Mutant, hunt, known_defects, problems

MUTANTS: Mapping[str, Mutant] = {name: mutant for name, mutant in known_defects().items() if not name.startswith("P")}


def trial(task: tuple[str, int]) -> tuple[str, int, str, list[str]]:
    """One line of the table: name, seeds needed (0: not caught), the problem, and what is wrong without the mutant."""
    name, limit = task
    found = hunt(MUTANTS[name], range(limit))
    seeds, problem = (found[0] + 1, found[1]) if found else (0, "")
    dirty = [
        f"seed {seed}: {p[0].strip()}" for seed in range(seeds or limit) if (p := problems(MUTANTS[name], seed, planted=False))
    ]
    return name, seeds, problem, dirty


def oracle(problem: str) -> str:
    """The kind of a problem."""
    return problem.partition(":")[0].partition(" at ")[0] if ":" in problem else "election"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 when a mutant got away or the unmutated code was not clean."""
    parser = argparse.ArgumentParser(prog="python -m jobcommon.testutil.sim.mutants", description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--limit", type=int, default=LIMIT, help="how many seeds to try for each")
    parser.add_argument("--only", default="", help="mutants whose name contains this")
    options = parser.parse_args(arguments)
    chosen = [name for name in MUTANTS if options.only in name]
    away, dirty, seeds_run, started = 0, 0, 0, time.monotonic()
    print(f"{'mutant':<36} {'seeds':>5}  {'caught by':<20} unmutated  problem")
    for name, seeds, problem, faults in campaign.spread(trial, ((name, options.limit) for name in chosen), options.workers, 1):
        away += not seeds
        dirty += bool(faults)
        seeds_run += seeds or options.limit
        state = "NOT CLEAN" if faults else "clean"
        caught = oracle(problem) if seeds else "NOT CAUGHT"
        text = " ".join((faults[0] if faults else problem).split())[:100]
        print(f"{name:<36} {seeds or '-':>5}  {caught:<20} {state:<10} {text}", flush=True)
    print(
        f"mutants: {len(chosen)}, of which {len(chosen) - away} caught within {options.limit} seeds; "
        f"the unmutated code over the same {seeds_run} seeds: {dirty} not clean; {time.monotonic() - started:.0f} s"
    )
    return 1 if away or dirty else 0


if __name__ == "__main__":
    sys.exit(main())
