"""Where the CPU time of an operator goes, by layer.

::

    python -m benchmarks.layers            # 500 jobs of 2 pods
    python -m benchmarks.layers 50x8

py-spy samples the operator's process while the workload runs. A sample belongs to the first layer below that matches its stack.
"""

import argparse
import asyncio
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from benchmarks.apiserver import EMBEDDED, REAL, real_is_given
from benchmarks.kubelet import kubelet
from benchmarks.lifecycle_timings import operator_lifecycle
from benchmarks.operator_process import operator
from benchmarks.scenarios import cluster
from benchmarks.workloads import Workload

RATE = 250
START, OTHER = "start and imports", "other"
# A layer, and what a stack of it contains. For those with LEAF only the innermost frame counts.
LEAF = "leaf:"
LAYERS: Sequence[tuple[str, tuple[str, ...]]] = (
    ("TLS", (LEAF + "sslproto.py", LEAF + "/ssl.py", LEAF + "(ssl.py")),
    ("events", ("runtime/recorder.py",)),
    ("requests: HTTP", ("client/http1.py", "client/transport.py", "client/request.py", "client/config.py")),
    ("requests: flow control, fence, metrics", ("runtime/flow_control.py", "runtime/fence.py", "runtime/metered.py")),
    ("status model (pydantic)", ("pydantic/main.py", "api/status.py")),
    ("plan", ("reconcile/",)),
    ("watch: decode, store, enqueue", ("cache/", "JobController.take")),
    ("bodies and results of requests", ("runtime/executor.py",)),
    ("queue, expectations, reading of the job", ("JobController.begin",)),
    ("report and requeue", ("JobController.finish", "controller/report.py")),
    ("driver, log, metrics", ("runtime/driver.py", "runtime/metrics.py")),
    ("asyncio and sockets", (LEAF + "asyncio/", LEAF + "selectors.py")),
)


def layer(stack: str) -> str:
    """The layer of a stack: frames from the outermost to the innermost, separated by semicolons."""
    innermost = stack.rpartition(";")[2]
    if "_run_once" not in stack:
        return START
    for name, marks in LAYERS:
        if any(mark.removeprefix(LEAF) in (innermost if mark.startswith(LEAF) else stack) for mark in marks):
            return name
    return OTHER


def samples(recorded: str) -> Iterator[tuple[str, int]]:
    """The stacks of py-spy's raw format with the number of samples of each, without those that wait for I/O."""
    for line in recorded.splitlines():
        stack, _, count = line.rpartition(" ")
        if stack and "select (selectors" not in stack.rpartition(";")[2]:
            yield stack, int(count)


async def _measure(kind: str, workload: Workload, rounds: int) -> tuple[Counter[str], float]:
    """Samples by layer, and the operator's CPU seconds for one round."""
    found: Counter[str] = Counter()
    seconds = []
    async with cluster(kind) as server, kubelet(str(server.kubeconfig)) as agent, operator(str(server.kubeconfig)) as running:
        await operator_lifecycle(server, agent, running, Workload(10, 2), "warm-up")
        for number in range(rounds):
            with tempfile.TemporaryDirectory() as place:
                raw = Path(place, "stacks")
                options = ("--pid", str(running.pid), "--rate", str(RATE), "--format", "raw", "--output", str(raw))
                spy = await asyncio.create_subprocess_exec(
                    _py_spy(), "record", *options, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                )
                timings = await operator_lifecycle(server, agent, running, workload, f"layers-{number}")
                spy.send_signal(2)
                await spy.wait()
                for stack, count in samples(raw.read_text()):  # noqa: ASYNC240
                    found[layer(stack)] += count
                seconds.append(timings.cpu)
    return found, median(seconds)


def _py_spy() -> str:
    found = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or shutil.which("py-spy")
    if found is None:
        raise SystemExit("py-spy is not installed: pip install 'jobcommon[bench]'")
    return found


def table(found: Counter[str], seconds: float, workload: Workload) -> str:
    """The table, in milliseconds per job."""
    total = sum(found.values())
    rows = [
        f"| {name} | {count / total:.0%} | {count / total * seconds / workload.jobs * 1000:.2f} |"
        for name, count in found.most_common()
    ]
    whole = f"| all | | {seconds / workload.jobs * 1000:.2f} |"
    return "\n".join([f"| {workload}: layer | share | CPU, ms per job |", "| --- | --- | --- |", *rows, whole])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.layers", description=__doc__.splitlines()[0])
    parser.add_argument(
        "workload", nargs="?", type=Workload.parse, default=Workload(500, 2), help="jobs x replicas, as in 50x8"
    )
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--server", choices=(EMBEDDED, REAL), default=REAL if real_is_given() else EMBEDDED)
    given = parser.parse_args()
    found, seconds = asyncio.run(_measure(given.server, given.workload, given.rounds))
    print(table(found, seconds, given.workload))


if __name__ == "__main__":
    main()
