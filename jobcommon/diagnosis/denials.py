"""What an API server refuses to create: its words, and what they mean."""

import re

from jobcommon.causes.cause import Cause, in_short
from jobcommon.causes.cause_reasons import Reason
from jobcommon.causes.clues import revealed

CREATE_RETRY = "the operator retries, first after 10 s, then at most 10 minutes apart"
_REFUSED = re.compile(r"(?:\b(get|update|set image of) )?(\w+)/(\S+) is refused: (.*)", re.DOTALL)
_DONE = {"get": "read", "update": "updated", "set image of": "changed"}
_CONFLICT = re.compile(r"(\w+/\S+) already exists(?: and belongs to another owner|, but has lost its labels)")
_QUOTA = re.compile(r"exceeded quota: ([^,\s]+), .*", re.DOTALL)


def refusal_in(message: str) -> Cause | None:
    """The cause in a job's condition, if it reports that something could not be created."""
    if (conflict := _CONFLICT.search(message)) is not None:
        advice = "delete it or add them again" if "labels" in conflict[0] else "delete or rename it"
        return Cause(Reason.NAME_CONFLICT, conflict[0], advice, then=CREATE_RETRY)
    if (refused := _REFUSED.search(message)) is None:
        return None
    return refusal(f"{refused[2]}/{refused[3]}", refused[4], _DONE.get(refused[1], "created"))


def refusal(what: str, message: str, done: str = "created") -> Cause:
    """Why the API server refuses what was to be `done` with `what`."""
    message = " ".join(message.split())
    if (quota := _QUOTA.search(message)) is not None:
        advice = f"delete what is not needed, request less, or have the quota raised: kubectl describe quota {quota[1]}"
        cause = Cause(Reason.QUOTA_EXCEEDED, in_short(quota[0]), advice)
    else:
        cause = revealed(message, "refused") or Cause(Reason.REFUSED, in_short(message), "change what the message names")
    return Cause(cause.reason, in_short(f"{what} cannot be {done}: {cause.text}"), cause.advice, then=CREATE_RETRY)
