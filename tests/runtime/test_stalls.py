"""When a framework's function never returns, the process says where it is stuck."""

import subprocess
import sys
from pathlib import Path

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
