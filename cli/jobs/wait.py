"""``wait``: follow a job until it is what is awaited; and its exit code."""

import asyncio
from contextlib import aclosing
from http import HTTPStatus

from jobcommon.api.status import ConditionType, JobStatus, read_status
from jobcommon.cli.errors import JOB_FAILED, UserError
from jobcommon.cli.jobs.access import Api
from jobcommon.cli.jobs.lookup import FoundJob
from jobcommon.client.errors import ClientError, StatusError
from jobcommon.diagnosis import Diagnosis
from jobcommon.sdk.following import states

MAX_EXIT_CODE = 255


def exit_code(status: JobStatus, made: Diagnosis | None) -> int:
    """The exit code of a job: 0, that of the program that failed it, or 1."""
    if status.has(ConditionType.SUCCEEDED):
        return 0
    code = made.exit_code if made is not None and status.has(ConditionType.FAILED) else None
    return code if code is not None and 0 < code <= MAX_EXIT_CODE else JOB_FAILED


async def wait_for(api: Api, job: FoundJob, aim: str, seconds: float | None) -> tuple[JobStatus | None, bool]:
    """The job's status once it is what `aim` says, or can no longer be (None if it is deleted), and whether it is.

    Raises `UserError` after `seconds`.
    """
    try:
        async with asyncio.timeout(seconds), aclosing(states(api.transport, job.target)) as seen:
            async for state in seen:
                if isinstance(state, ClientError):
                    continue
                if state["metadata"].get("uid") != job.uid:
                    break
                status = read_status(state.get("status"))
                if _is_so(status, aim):
                    return status, True
                if status.finished and aim != "deleted":
                    return status, False
    except TimeoutError:
        raise UserError(
            f"{job.title} is not {aim} after {seconds:g} s (--timeout); why: kubectl train why {job.name}", JOB_FAILED
        ) from None
    except StatusError as error:
        if error.code != HTTPStatus.NOT_FOUND:
            raise
    return None, aim == "deleted"


def _is_so(status: JobStatus, aim: str) -> bool:
    if aim == "finished":
        return status.finished
    kinds = {
        "succeeded": ConditionType.SUCCEEDED, "failed": ConditionType.FAILED,
        "running": ConditionType.RUNNING, "suspended": ConditionType.SUSPENDED,
    }  # fmt: skip
    return aim in kinds and status.has(kinds[aim])
