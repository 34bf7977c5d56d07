"""Why a container is not started, or was stopped: the kubelet's reasons in the pod's status and its events."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from jobcommon.api.pod import Waiting
from jobcommon.causes.cause import Cause, in_short
from jobcommon.causes.cause_reasons import Reason
from jobcommon.causes.clues import revealed
from jobcommon.causes.programs import OF_COMMAND
from jobcommon.diagnosis.found import EventView

PULL_RETRY = "the kubelet retries, at most 5 minutes apart"
_MOUNTS = ("FailedMount", "FailedAttachVolume", "FailedMapVolume")
# After the event the program has its grace period; one that is stopped says so by its exit code, if it does not handle SIGTERM.
_WITHIN_SECONDS = 120.0
_STOPPED = (137, 143)
_ANNOUNCED = ("Killing", "FailedPostStartHook")
_PREPARED = ("Pulled", "Created", "Started")
KUBELET_RETRY = "the kubelet retries"

_PULL_REASONS = ("ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ErrImageInspect", "SignatureValidationFailed")
_QUOTED = re.compile(r'image "([^"]*)"')
_BARE_BACK_OFF = re.compile(r'^Back-off pulling image "[^"]*"$')
#: Events that say no more than a pod's status does.
BARE = re.compile(r"Error: \w+$|Back-off ")
# What containerd puts before the end of its message, which has the cause.
_STEPS = re.compile(
    r'(?:Back-off pulling image "[^"]*": |ErrImagePull: |rpc error: code = \w+ desc = |'
    r'[Ff]ailed to (?:pull(?: and unpack)? image|resolve reference) "[^"]*": |failed to (?:authorize|do request|copy): )*'
)
# What runc and containerd put before theirs.
_BY_RUNTIME = re.compile(
    r"(?:failed to (?:create|start) \w+ (?:task|container): |(?:OCI runtime|runc) \w+ failed: |unable to start \w+ process: |"
    r"error during container init: |error running prestart hook #\d+: |exit status \d+, stdout: , stderr: )*"
)
_SECRETS = re.compile(r"image pull secrets \(([^)]+)\)")
_FIRST, _LAST = 80, 220
# A driver's message has the steps before the error.
_LONGEST = 600


def not_started(state: Waiting, events: Sequence[EventView]) -> Cause | None:
    """Why the container waits, by the kubelet's reason; `events` are the pod's. None when it is merely being created."""
    message = in_short(state.message, 2000)
    reason = state.reason
    if reason == "InvalidImageName":
        return Cause(
            Reason.INVALID_IMAGE_NAME, message, "correct image in the pod template", then="nothing, until the image is changed"
        )
    if reason == "ErrImageNeverPull":
        # The embedded cluster says so in its message.
        local = "embedded cluster" in message
        advice = "give the container a command" if local else "use another imagePullPolicy, or load the image onto the node"
        return Cause(Reason.IMAGE_NEVER_PULLED, message, advice, then=KUBELET_RETRY)
    if reason in _PULL_REASONS:
        return _pull(message, events)
    if reason in ("", "ContainerCreating", "PodInitializing"):
        return None
    tables = ("probe",) if reason == "PostStartHookError" else ("missing", "command")
    cause = revealed(_BY_RUNTIME.sub("", message, count=1), *tables)
    if cause is not None and (cause.reason != Reason.COMMAND_NOT_FOUND or OF_COMMAND.search(message)):
        return replace(cause, then=KUBELET_RETRY)
    return Cause(
        Reason.CONTAINER_NOT_CREATED, f"{reason}: {message}" if message else reason, "kubectl describe pod", then=KUBELET_RETRY
    )


def _pull(message: str, events: Sequence[EventView]) -> Cause:
    """Why an image cannot be pulled. Older kubelets give the cause in an event only, and so does any for a missing Secret."""
    if not message or _BARE_BACK_OFF.match(message):
        failed = [event.message for event in events if event.reason == "Failed" and "pull" in event.message.lower()]
        message = in_short(next((text for text in failed if not BARE.match(text)), message), 2000)
    cause = revealed(message, "pull", "command") or Cause(Reason.IMAGE_PULL_FAILED, "", "kubectl describe pod")
    image = _QUOTED.search(message)
    why = _STEPS.sub("", message, count=1) or message
    why = re.sub(rf"^\S*{re.escape(image[1])}: ", "", why) if image is not None else why
    why = why if len(why) <= _FIRST + _LAST else f"{why[:_FIRST]}…{why[-_LAST:]}"
    text = f"the image {image[1]} cannot be pulled: {why}" if image is not None else f"the image cannot be pulled: {why}"
    secrets = (_SECRETS.search(event.message) for event in events if event.reason == "FailedToRetrieveImagePullSecret")
    if cause.reason in (Reason.IMAGE_PULL_DENIED, Reason.IMAGE_PULL_FAILED) and (missing := next(filter(None, secrets), None)):
        text = f"the Secret {missing[1]} of imagePullSecrets was not found, and {text}"
        advice = f"create it in the job's namespace: kubectl create secret docker-registry {missing[1]}; or correct its name"
        return Cause(Reason.SECRET_NOT_FOUND, text, advice, then=PULL_RETRY)
    return Cause(cause.reason, text, cause.advice, then=PULL_RETRY)


def not_prepared(events: Sequence[EventView]) -> Cause | None:
    """Why volumes, network or image are not ready yet, by the latest of the pod's events; None if they do not say."""
    for at, event in enumerate(events):
        if event.reason in _MOUNTS:
            return _not_mounted(events[at:])
        if event.reason in ("FailedCreatePodSandBox", "NetworkNotReady"):
            advice = "the node's network or container runtime is at fault: check it, or delete the pod to try another node"
            return Cause(Reason.SANDBOX_FAILED, in_short(event.message), advice, then=KUBELET_RETRY)
        if event.reason == "Pulling":
            return Cause(
                Reason.PULLING_IMAGE, in_short(event.message), then="the container starts when the image has been pulled"
            )
        if event.reason in _PREPARED:
            return None
    return None


def _not_mounted(events: Sequence[EventView]) -> Cause:
    """Why volumes are not ready. The kubelet also says again and again that they are not, without the reason."""
    since = takewhile(lambda event: event.reason not in _PREPARED, events)
    failed = [event for event in since if event.reason in _MOUNTS]
    causes = ((event, cause) for event in failed if (cause := revealed(event.message, "missing")) is not None)
    event, cause = next(causes, (failed[0], None))
    if cause is None:
        # Of those without a known reason the last that is more than a time-out.
        event = next((one for one in failed if "timed out waiting for the condition" not in one.message), event)
        known = revealed(event.message, "mount")
        advice = known.advice if known is not None else "check the volumes of the pod template"
        return Cause(Reason.VOLUMES_NOT_READY, in_short(event.message, _LONGEST), advice, then=KUBELET_RETRY)
    return Cause(cause.reason, cause.text, cause.advice, then=KUBELET_RETRY)


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
