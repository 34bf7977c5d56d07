"""Says at the end how many inputs were tried, and how fast."""

import time
from typing import Any

import pytest

from tests.fuzz.trial import TALLY

STARTED = time.monotonic()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if TALLY.inputs:
        seconds = time.monotonic() - STARTED
        terminalreporter.write_line(
            f"fuzz: {TALLY.inputs} inputs to {len(TALLY.names)} parsers in {seconds:.0f} s ({TALLY.inputs / seconds:.0f}/s), "
            f"{TALLY.refused} refused with a documented error, slowest {TALLY.slowest * 1000:.1f} ms ({TALLY.slowest_name})"
        )
        for name, count in sorted(TALLY.names.items()):
            terminalreporter.write_line(f"  {name}: {count}")


@pytest.fixture(autouse=True, scope="session")
def _started() -> None:
    global STARTED
    STARTED = time.monotonic()
