"""Processes of this benchmark, and what the system says of them."""

import asyncio
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

STOP_SECONDS = 20.0
_TICKS = os.sysconf("SC_CLK_TCK")
ROOT = Path(__file__).resolve().parents[1]


async def child(
    module: str, *arguments: str, stdout: int | None = None, env: Mapping[str, str] | None = None
) -> asyncio.subprocess.Process:
    """A Python process running `module`. It ends when its standard input does, if it reads it."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *arguments, stdin=asyncio.subprocess.PIPE, stdout=stdout, cwd=ROOT, env=env, limit=1 << 26
    )  # fmt: skip


async def stop(process: asyncio.subprocess.Process) -> None:
    """End it and wait for that."""
    if process.returncode is None:
        process.terminate()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


def cpu_seconds(pid: int) -> float:
    """What the process and its descendants have used so far, in user and system mode together."""
    return sum(_ticks(each) for each in _tree(pid)) / _TICKS


def resident_bytes(pid: int) -> int:
    """The resident memory of the process and its descendants; pages they share count for each."""
    return sum(_resident(each) for each in _tree(pid))


def _tree(pid: int) -> Iterator[int]:
    yield pid
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # the thread has ended
            for child_pid in path.read_text().split():
                yield from _tree(int(child_pid))


def _ticks(pid: int) -> int:
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        # Its own, and those of the children that it waited for.
        return sum(map(int, fields[11:15]))
    return 0


def _resident(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    return 0
