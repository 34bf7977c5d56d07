"""``make bench``: the operator measured against a plain client that issues the same writes.

::

    python -m benchmarks                        # everything, on the embedded server or on a real one that is given
    python -m benchmarks --quick                # less than a minute
    python -m benchmarks --only 1x1000,50x8
    python -m benchmarks --only sizing
"""

import argparse
import asyncio
import os
import platform
import subprocess
import sys
import time

from benchmarks import scenarios
from benchmarks.processes import EMBEDDED, REAL, ROOT, cluster
from benchmarks.workloads import ALL, Workload
from localcluster.conformance import envtest

#: On demand alone.
SIZING = "sizing"
SIZES = (0, 1000, 5000, 10_000, 20_000)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--server", choices=(EMBEDDED, REAL), help="without it: a real one when the environment gives one")
    parser.add_argument("--only", type=_wanted, help=f"a list such as 1x100,50x8, or {SIZING}")
    parser.add_argument("--quick", action="store_true", help="small sizes, one round: less than a minute")
    return parser.parse_args()


def _wanted(text: str) -> list[Workload | None]:
    """What `--only` names; None is the sizing."""
    try:
        return [None if name == SIZING else Workload.parse(name) for name in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def commit() -> str:
    """The commit that is measured, marked if the tree has uncommitted changes."""
    command = ["git", "describe", "--always", "--dirty=-changed", "--exclude=*"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    return done.stdout.strip() or "unknown"


def machine() -> str:
    """The machine it was measured on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    return f"{os.cpu_count()} cores, {memory:.0f} GB, {system}"


async def _measure(arguments: argparse.Namespace) -> None:
    """Measure and print."""
    quick = arguments.quick
    workloads = (Workload(1, 10), Workload(1, 100), Workload(20, 5)) if quick else ALL
    kind = arguments.server or (REAL if envtest.assets() else EMBEDDED)
    lives, texts = [], []
    async with cluster(kind) as server:
        name = await server.name()
    for size in arguments.only or workloads:
        print(f"measuring {size or SIZING} …", file=sys.stderr, flush=True)
        if size is None:
            texts.append(await scenarios.sizing(kind, SIZES[:2] if quick else SIZES))
        else:
            rounds = 1 if quick or size.pods > 1000 else 3 if size.pods >= 500 else 5
            lives.append(await scenarios.lives(kind, size, rounds))
    head = f"Server: {name}. Commit: {commit()}. Date: {time.strftime('%Y-%m-%d')}. Machine: {machine()}."
    print(head, *([scenarios.lives_table(lives)] if lives else []), *texts, sep="\n\n")


def main() -> int:
    """Exit code 2 without a server."""
    try:
        asyncio.run(_measure(_arguments()))
    except envtest.StartError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
