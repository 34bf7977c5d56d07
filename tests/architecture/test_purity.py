"""No text is state: what a pass has to know of the last one is a field of the status.

That what decides has no clock, no chance and no output is held by the import contracts and by ruff.
"""

import sys
from pathlib import Path
from typing import Any

import pytest

from jobcommon.api.status import JobCondition
from jobcommon.testutil.pairs.histories import judge

RENDERER = "jobcommon/reconcile/rendering.py"


def test_no_message_of_a_condition_is_read_by_what_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """By whatever name: a whole history, watched."""
    readers: set[str] = set()

    def watched(condition: JobCondition, name: str) -> Any:
        if name in ("message", "last_update_time"):
            readers.add(sys._getframe(1).f_code.co_filename)  # noqa: SLF001 - it names who reads
        return object.__getattribute__(condition, name)

    monkeypatch.setattr(JobCondition, "__getattribute__", watched, raising=False)
    for pair in (("pending", "refusals"), ("kueue", "kept-logs"), ("stall-restart", "attempts")):
        assert judge(*pair, 1) == []
    found = {name for name in readers if "jobcommon/reconcile/" in name}
    assert {Path(name).name for name in found} == {Path(RENDERER).name}
