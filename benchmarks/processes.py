"""Processes of this benchmark, and what the system says of them."""

import asyncio
import os
import sys
from pathlib import Path

STOP_SECONDS = 20.0
_TICKS = os.sysconf("SC_CLK_TCK")
ROOT = Path(__file__).resolve().parents[1]


async def child(module: str, *arguments: str, stdout: int | None = None) -> asyncio.subprocess.Process:
    """A Python process running `module`. It ends when its standard input does, if it reads it."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *arguments, stdin=asyncio.subprocess.PIPE, stdout=stdout, cwd=ROOT, limit=1 << 26
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
    """What the process has used so far, in user and system mode together."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def resident_bytes(pid: int) -> int:
    """Its resident memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0
