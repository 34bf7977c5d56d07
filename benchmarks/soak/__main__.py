"""``make soak``: jobs of all kinds and fates come and go for an hour beside 50,000 finished ones; everything is restarted.

::

    python -m benchmarks.soak                                   # an hour, on a real API server if one is given
    python -m benchmarks.soak --minutes 10 --kept 10000
    python -m benchmarks.soak --server embedded --minutes 1 --rate 5 --kept 200
"""

import argparse
import asyncio
import sys

from benchmarks import record, report
from benchmarks.apiserver import EMBEDDED, REAL
from benchmarks.soak.figures import goals, lines
from benchmarks.soak.run import Plan, run
from localcluster.conformance import envtest


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__.splitlines()[0])
    parser.add_argument("--server", choices=(EMBEDDED, REAL), help="without it: a real one when the environment gives one")
    parser.add_argument("--minutes", type=float, default=60.0, help="how long jobs are submitted (default: %(default)g)")
    parser.add_argument("--rate", type=float, default=20.0, help="jobs submitted a second (default: %(default)g)")
    parser.add_argument("--kept", type=int, default=50_000, help="finished jobs that are there (default: %(default)d)")
    found = parser.parse_args()
    for name in ("minutes", "rate", "kept"):
        if getattr(found, name) <= 0:
            parser.error(f"--{name} must be more than 0")
    return found


def main() -> int:
    """Exit code 0 if every goal is met."""
    given = _arguments()
    try:
        kind = given.server or (REAL if envtest.assets() else EMBEDDED)
        found = asyncio.run(run(kind, Plan(given.minutes, given.rate, given.kept), _say))
    except envtest.StartError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"Server: {found.server}. Commit: {record.commit()}. Machine: {record.machine()}.\n")
    print(report.table(("what", "measured"), lines(found)), end="\n\n")
    print(report.table(report.GOAL_HEAD, map(report.goal_line, goals(found))))
    for fault in found.faults[:20]:
        print(f"FAULT {fault}")
    return 0 if all(goal.met for goal in goals(found)) else 1


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
