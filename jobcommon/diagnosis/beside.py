"""Which container of a pod runs the program, and the error that the log of one before it names."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from jobcommon.api.template import mapping_of, mappings_in
from jobcommon.causes.cause import Cause
from jobcommon.causes.cause_reasons import Reason
from jobcommon.causes.printed import messages
from jobcommon.causes.programs import NAMED, anywhere, printed, unreachable
from jobcommon.framework import Framework

_LOST = (Reason.PEERS_UNREACHABLE, Reason.HOST_UNREACHABLE)
# What a program that runs has overcome is no error; it stands before so many lines of its log.
_LAST_LINES = 15


def main_container(framework: Framework, pod: Mapping[str, Any]) -> str:
    """The name of the container of a pod that runs the program."""
    specs = mappings_in(mapping_of(pod.get("spec")).get("containers"))
    return framework.container or next((str(one.get("name", "")) for one in specs), "")


def error_of(lines: Sequence[str], *, local: bool) -> Cause | None:
    """The error that the last lines of a container's log name, of one before the program, which no replica has caused."""
    last = lines[-_LAST_LINES:]
    cause = printed(last, local=local)
    if cause is None or cause.advice == NAMED:
        cause = anywhere(messages(last), local=local) or cause
    if cause is not None and cause.reason in _LOST:
        return unreachable(cause.text, local=local)
    return replace(cause, symptom=False) if cause is not None else None
