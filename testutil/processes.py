"""A command that is started again and again, and may be killed at any time."""

import asyncio
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

COMMAND = (sys.executable, "-m", "jobcommon.cli")
ROOT = Path(__file__).resolve().parents[1]
END_SECONDS = 180.0


@dataclass
class Process:
    """One run after another of `jobcommon`; what it says goes to `log`."""

    name: str
    arguments: tuple[str, ...]
    log: Path
    running: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Begin a life."""
        with self.log.open("ab") as out:
            self.running = await asyncio.create_subprocess_exec(
                *COMMAND, *self.arguments, stdout=out, stderr=out, cwd=ROOT, start_new_session=True
            )

    async def kill(self) -> None:
        """kill -9, and wait until the kernel has taken it away."""
        if self.running is not None:
            if not self.died:
                self.running.kill()
            await self.wait()

    async def wait(self) -> int:
        """Its exit code, once it has ended. Raises TimeoutError when it does not end."""
        assert self.running is not None
        async with asyncio.timeout(END_SECONDS):
            code = await self.running.wait()
        self.running = None
        return code

    def send(self, number: signal.Signals) -> None:
        """Send a signal and do not wait."""
        assert self.running is not None
        self.running.send_signal(number)

    @property
    def died(self) -> bool:
        """Whether it ended without being stopped."""
        return self.running is not None and self.running.returncode is not None
