"""Containers that the kubelet stopped because of a probe or a hook: only its events say so."""

from collections.abc import Sequence

from jobcommon.causes.cause import Cause, in_short
from jobcommon.causes.cause_reasons import Reason
from jobcommon.causes.clues import revealed
from jobcommon.diagnosis.found import EventView

# After the event the program has its grace period; one that is stopped says so by its exit code, if it does not handle SIGTERM.
_WITHIN_SECONDS = 120.0
_STOPPED = (137, 143)
_ANNOUNCED = ("Killing", "FailedPostStartHook")


def stopped(events: Sequence[EventView], container: str, code: int | None, finished_at: float | None) -> Cause | None:
    """Why the kubelet stopped a run of a container, if it did; `events` are the pod's, the latest first.

    `container` is "" if it is not known. A kubelet that ends the whole pod does not say that it is because of a probe, and
    events may be lost: so a failed probe counts, too, if the program was stopped, by an event or by its exit code.
    """
    near = [
        event
        for event in events
        if container in ("", event.container or container)
        and (finished_at is None or -_WITHIN_SECONDS <= event.at - finished_at <= 5.0)
    ]
    killed = code in _STOPPED or any(event.reason == "Killing" for event in near)
    said = [
        (event.reason, cause)
        for event in near
        if (event.reason in _ANNOUNCED or (event.reason == "Unhealthy" and killed))
        and (cause := revealed(event.message, "probe")) is not None
        and cause.reason != Reason.READINESS_PROBE_FAILED
        # The hook of a program that ends at once fails, too.
        and (cause.reason != Reason.POST_START_HOOK_FAILED or code in _STOPPED)
    ]
    # The event of a hook may say more than the one of the stop.
    said.sort(key=lambda entry: entry[0] != "FailedPostStartHook")
    why = next((cause for reason, cause in said if reason in _ANNOUNCED), next((cause for _, cause in said), None))
    if why is None:
        return None
    detail = unhealthy(events, container, why.reason) or why
    return Cause(why.reason, f"stopped by the kubelet (exit code {code}): {detail.text}", why.advice)


def unhealthy(events: Sequence[EventView], container: str, *reasons: str) -> Cause | None:
    """What the latest failed probe of a container said, of those with one of `reasons`."""
    failed = [e for e in events if e.reason == "Unhealthy" and container in ("", e.container or container)]
    causes = (revealed(in_short(e.message.removesuffix(": ")), "probe") for e in failed)
    return next((cause for cause in causes if cause is not None and cause.reason in reasons), None)
