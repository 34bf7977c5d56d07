"""The state of a pod in a word, and in words why it does not run."""

from collections.abc import Mapping
from typing import Any

from jobcommon.api.labels import SPARE
from jobcommon.api.pod import STOPPING_TAG, PodView, Terminated
from jobcommon.api.reasons import CRASH_LOOP_BACK_OFF
from jobcommon.causes.error_lines import in_one_line
from jobcommon.reconcile.ending import decode, last_failure_in_place
from jobcommon.reconcile.rendering import described_run
from jobcommon.reconcile.waiting import reported_cause

SPARE_STATE = "Spare"
"""The state of a pod that only asks for a node, for the next attempt of an elastic job."""


def why(pod: PodView) -> str:
    """Why the pod does not run, in words; "" when nothing is wrong with it, and for the time until it is started."""
    if pod.phase == "Succeeded" or pod.deletion_time is not None:
        return ""
    if pod.phase == "Failed":
        ended = [c.state for c in (*pod.containers, *pod.init_containers) if isinstance(c.state, Terminated)]
        failed = next((run for run in ended if run.exit_code != 0), None)
        return pod.message or (_exit(failed) if failed is not None else pod.reason)
    cause = reported_cause(pod)
    if cause is not None:
        failed = last_failure_in_place(pod) if cause.reason == CRASH_LOOP_BACK_OFF else None
        return described_run(failed) if failed is not None else cause.message
    if any(isinstance(container.state, Terminated) for container in pod.containers):
        failed = last_failure_in_place(pod)
        return _exit(failed) if failed is not None else ""
    return ""


def _exit(run: Terminated) -> str:
    """``exit code 3``, and what the run's message says; its reason is in the pod's state."""
    words = in_one_line(decode(run), run.exit_code, run.message)
    return f"exit code {run.exit_code}" + (f": {words}" if words else "")


def describe(pod: Mapping[str, Any]) -> str:
    """The state of a pod in a word or two, as kubectl's STATUS column has it."""
    status = pod.get("status") or {}
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating"
    if (pod["metadata"].get("annotations") or {}).get(SPARE) == "true":
        return SPARE_STATE
    for container in status.get("containerStatuses") or ():
        for state in (container.get("state") or {}).values():
            if state and state.get("reason"):
                return "Restarting" if STOPPING_TAG in state.get("message", "") else str(state["reason"])
    return str(status.get("reason") or status.get("phase") or "Pending")
