"""When a framework's function never returns, the process says where it is stuck."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jobcommon.runtime import logging as stalls

STUCK = """
import asyncio, sys
from jobcommon.runtime.logging import event_loop_watchdog

def a_hook_that_spins():
    # Until the stack is told, down to its end.
    while "in main" not in open(sys.argv[1]).read():
        pass

async def main():
    async with event_loop_watchdog(0.5):
        await asyncio.sleep(0)
        a_hook_that_spins()

asyncio.run(main())
"""


def test_a_stall_is_told_with_its_stack(tmp_path: Path) -> None:
    told = tmp_path / "stderr"
    with told.open("w") as stderr:
        subprocess.run([sys.executable, "-W", "ignore", "-c", STUCK, str(told)], stderr=stderr, timeout=180, check=True)
    assert "Timeout (0:00:00.5" in told.read_text()
    assert "in a_hook_that_spins" in told.read_text()


async def test_a_loop_that_goes_on_puts_the_complaint_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each turn of the loop sets the timer anew, and the end takes it away."""
    put_off, again = 0, asyncio.Event()

    def later(seconds: float, **_: Any) -> None:
        nonlocal put_off
        put_off += 1
        if put_off == 3:
            again.set()

    cancelled: list[int] = []
    monkeypatch.setattr(stalls.faulthandler, "dump_traceback_later", later)
    monkeypatch.setattr(stalls.faulthandler, "cancel_dump_traceback_later", lambda: cancelled.append(put_off))
    async with stalls.event_loop_watchdog(0.05):
        await again.wait()
        assert cancelled == []
    assert cancelled == [put_off]
