"""Row 112: when a framework's function never returns, the process says where it is stuck."""

import subprocess
import sys

STUCK = """
import asyncio, time
from jobcommon.runtime.stalls import stalls_are_told

def a_hook_that_spins():
    end = time.monotonic() + 3
    while time.monotonic() < end:
        pass

async def main(spins):
    async with stalls_are_told(0.5):
        if spins:
            await asyncio.sleep(0)
            a_hook_that_spins()
        else:
            await asyncio.sleep(1.5)

asyncio.run(main({spins}))
"""


def stderr_of(*, spins: bool) -> str:
    done = subprocess.run(
        [sys.executable, "-c", STUCK.replace("{spins}", str(spins))], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stderr


def test_a_stall_is_told_with_its_stack() -> None:
    told = stderr_of(spins=True)
    assert "Timeout (0:00:00.5" in told
    assert "in a_hook_that_spins" in told


def test_a_loop_that_goes_on_is_not_complained_of() -> None:
    assert stderr_of(spins=False) == ""
