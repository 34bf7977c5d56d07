"""``python -m jobcommon.testutil.real``: the table on a real control plane; without one it says so and ends well."""

import argparse
import asyncio
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path

from jobcommon.testutil.real.cluster import WHY_NOT, embedded_cluster, given, real_cluster
from jobcommon.testutil.real.rows import ROWS, Row
from jobcommon.testutil.real.runner import AT_ONCE, run_rows
from localcluster.conformance import envtest


def main() -> int:
    """Exit code 0 when no row failed."""
    parser = argparse.ArgumentParser(prog="python -m jobcommon.testutil.real", description=__doc__)
    parser.add_argument("--only", metavar="TEXT", action="append", help="only rows whose name has this text; repeatable")
    parser.add_argument("--times", type=int, default=1, metavar="N", help="run each row so often")
    parser.add_argument("--embedded", action="store_true", help="on the embedded cluster")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help="how many rows run at the same time")
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY", help="where logs are kept")
    options = parser.parse_args()
    if options.keep and options.keep.exists() and any(options.keep.iterdir()):
        parser.error(f"{options.keep} is not empty; name a directory that is, or none so far")
    chosen = [row for row in ROWS if not options.only or any(text in row.name for text in options.only)]
    # It ends as by Ctrl-C: a kubelet left behind would remove the containers of the next run.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if not options.embedded and not given():
            print(f"make real: {len(chosen)} rows skipped; {WHY_NOT}")
            return 0
        return asyncio.run(_run(options.times * chosen, options))
    except envtest.StartError as error:
        print(error, file=sys.stderr)
        return 1


async def _run(rows: list[Row], options: argparse.Namespace) -> int:
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="jobcommon-real-") as scratch:
        directory = options.keep or Path(scratch)
        directory.mkdir(parents=True, exist_ok=True)
        async with embedded_cluster(directory) if options.embedded else real_cluster(directory) as cluster:
            print(f"{cluster.name}: {len(rows)} rows", flush=True)
            async for outcome in run_rows(cluster, rows, options.at_once):
                counts[outcome.verdict] += 1
                print(outcome, flush=True)
    print(f"{cluster.name}: {counts['passed']} rows passed, {counts['FAILED']} failed, {counts['skipped']} skipped")
    return 1 if counts["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main())
