"""Another container of the pod, such as a sidecar, whose end explains why the program failed, and what its log names."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from jobcommon.api.pod import Terminated
from jobcommon.api.template import mapping_of, mappings_in
from jobcommon.causes.cause import Cause
from jobcommon.causes.cause_reasons import Reason
from jobcommon.causes.printed import messages
from jobcommon.causes.programs import NAMED, anywhere, end_of_program, printed, unreachable
from jobcommon.diagnosis.context import collective
from jobcommon.diagnosis.found import Found, Member
from jobcommon.framework import Framework
from jobcommon.reconcile.ending import PATIENCE_SECONDS, containers_beside, decode

_SIDECAR = "Always"
# What a program that lost a server fails of; of a container that has been started again, only soon after its end.
_LOST, JUST_BEFORE = (Reason.PEERS_UNREACHABLE, Reason.HOST_UNREACHABLE), 60.0
_MEMORY = "the cause of SIGKILL is usually a lack of memory: raise resources.limits.memory of this container"
_ADDRESS = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b")
# What a program that runs has overcome is no error; it stands before so many lines of its log.
_LAST_LINES = 15


def main_container(framework: Framework, pod: Mapping[str, Any]) -> str:
    """The name of the container of a pod that runs the program."""
    specs = mappings_in(mapping_of(pod.get("spec")).get("containers"))
    return framework.container or next((str(one.get("name", "")) for one in specs), "")


def explained_beside(member: Member, cause: Cause, name: str, at: float | None, found: Found) -> Cause | None:
    """The cause with the end of another container of the pod that explains why container `name` failed at that time."""
    if at is None:
        return None
    address = _ADDRESS.search(cause.text)
    elsewhere = cause.reason not in _LOST or collective(cause.text) or (address and not address[0].startswith("127."))
    pod = member.pod
    for other in containers_beside(pod, name):
        for run, within in ((other.state, PATIENCE_SECONDS), (other.last, JUST_BEFORE)):
            if not isinstance(run, Terminated) or run.finished_at is None or not -1 <= at - run.finished_at <= within:
                continue
            # The kubelet stops a native sidecar when the program has ended.
            stopped = other.restart_policy == _SIDECAR and run is other.state and at - run.finished_at < 1
            # Only a failure well before may explain another error.
            if stopped or (elsewhere and (not run.exit_code or at - run.finished_at < 1 or run is other.last)):
                continue
            its = end_of_program(decode(run), run.exit_code, run.message, local=found.local)
            if not run.exit_code:
                its = Cause(cause.reason, "exit code 0", "it must run for as long as the program")
            advice = _MEMORY if its.reason in ("SIGKILL", Reason.OOM_KILLED) else its.advice
            text = f"its container {other.name} ended first: {its.text}; then {cause.text}"
            see = f"see container {other.name}: kubectl logs {pod.name} -c {other.name}"
            return replace(its, text=text, advice=f"{see}; {advice}")
    return None


def error_of(lines: Sequence[str], *, local: bool) -> Cause | None:
    """The error that the last lines of a container's log name, of one before the program, which no replica has caused."""
    last = lines[-_LAST_LINES:]
    cause = printed(last, local=local)
    if cause is None or cause.advice == NAMED:
        cause = anywhere(messages(last), local=local) or cause
    if cause is not None and cause.reason in _LOST:
        return unreachable(cause.text, local=local)
    return replace(cause, symptom=False) if cause is not None else None
