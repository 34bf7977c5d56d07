"""Replicas as real processes: who takes over when, and what a leader that slept does when it wakes up.

How long a take-over lasts is asserted by a virtual clock (`tests/runtime/test_leader.py`) and measured by `make chaos`.
"""

import signal
import time
import uuid
from pathlib import Path

import pytest

from jobcommon.testutil.chaos.election import arena

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

PAUSE = 20.0


@pytest.mark.timeout(600)
async def test_another_takes_over_after_a_crash_and_at_once_after_a_graceful_end(tmp_path: Path) -> None:
    async with arena(tmp_path, uuid.uuid4().hex, ("a", "b", "c")) as ground:
        await ground.start("a", "b", "c")
        crashed = (await ground.until_work()).replica
        assert {write.replica for write in ground.work()} == {crashed}
        await ground.replicas[crashed].kill()
        killed_at = time.monotonic()
        led_at = await ground.until_led(not_by=crashed, since=killed_at)
        first = await ground.until_work(not_by=crashed, since=led_at)
        assert ground.work(by=crashed, since=led_at) == []
        assert "" not in {write.holder for write in ground.server.writes}, "no replica could release the lease"
        asked_at = time.monotonic()
        process = ground.replicas[first.replica]
        process.send(signal.SIGTERM)
        led_at = await ground.until_led(not_by=first.replica, since=asked_at)
        given_back = [write for write in ground.server.writes if write.holder == ""]
        assert [write.replica for write in given_back] == [first.replica]
        assert asked_at <= given_back[0].at <= led_at, "no replica had to wait for the lease to expire"
        second = await ground.until_work(not_by=first.replica, since=led_at)
        assert await process.wait() == 0
        assert max(write.at for write in ground.work(by=first.replica)) < second.at


@pytest.mark.timeout(600)
async def test_a_leader_that_was_stopped_writes_nothing_under_its_old_lease(tmp_path: Path) -> None:
    async with arena(tmp_path, uuid.uuid4().hex, ("a", "b")) as ground:
        await ground.start("a", "b")
        slept = (await ground.until_work()).replica
        assert await ground.sleeps(slept, PAUSE) == []
        assert {write.replica for write in ground.work(since=ground.woken_at)} == {ground.leader}
