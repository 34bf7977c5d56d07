"""A wait that fails shows what it saw last."""

import pytest

from jobcommon.testutil.polling import polled, polled_blocking


async def test_the_last_answer_is_shown() -> None:
    async def refused() -> str:
        raise ConnectionError("refused")

    async def pending() -> str:
        return "Pending"

    for ask, last in ((pending, "'Pending'"), (refused, "refused")):
        with pytest.raises(TimeoutError, match=f"the last answer: .*{last}"):
            await polled(ask, lambda answer: answer == "Running", seconds=0, retry_on=ConnectionError)
    with pytest.raises(TimeoutError, match="the last answer: 'Pending'"):
        polled_blocking(lambda: "Pending", lambda answer: answer == "Running", seconds=0)


async def test_other_errors_are_raised() -> None:
    async def broken() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await polled(broken, retry_on=ConnectionError)
