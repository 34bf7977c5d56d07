"""What becomes of each pod of a job: one table, course of the job by standing of the pod, for every phase.

A pod is touched only when what that destroys is on record: how it ended, or that it was stopped by us. So each course stands
for a stored status, and a pass that records something first (a suspension, a resume, a new attempt, the end of the job) touches
no pod at all.
"""

from collections.abc import Mapping
from enum import StrEnum


class Course(StrEnum):
    """What is on record of the job as a whole."""

    GO_ON = "goes on"
    SUSPENDED = "is suspended"
    FINISHED_ALL = "has finished, cleanPodPolicy All"
    FINISHED_RUNNING = "has finished, cleanPodPolicy Running"
    FINISHED_NONE = "has finished, cleanPodPolicy None"


class Standing(StrEnum):
    """What is on record of a pod, and what the job wants with it."""

    LIVING = "wanted, no end on record"
    UNRECORDED = "its end is still to be recorded"
    REPLACED = "on record, to be replaced"
    DELAYED = "to be replaced, when its back-off is over"
    SUCCEEDED = "on record as succeeded"
    GIVEN_UP = "on record as failed for good; the job goes on without it"
    SURPLUS = "not wanted any more, on record as stopped"
    SURPLUS_NEW = "not wanted any more"
    EARLIER = "of an earlier attempt"
    UNKNOWN = "errors of the spec hide whether it is wanted"
    UNOWNED = "names the job as its owner, but is none of its replicas"
    MAY_END = "the job has succeeded; it may end by itself"
    LOST = "failed since the success of the job, for want of the servers that are gone"


class Intent(StrEnum):
    """What becomes of a pod. *Released*: our finalizer is removed, once no process of it can run any more."""

    LEAVE = "leave"
    KEEP = "keep"
    """Leave it; release it if it is deleted by others."""
    RELEASE = "release"
    END = "end"
    """Delete it if it runs and has not changed since it was seen; release it if it has ended."""
    STOP = "stop"
    """Delete and release it."""
    DISCARD = "discard"
    """Delete it, and release it only then: without the finalizer it would not be known when it ended."""
    START_AGAIN = "start again"
    """Restart it in place."""
    FORCE = "force"
    """Release it, and delete it by force: its node does not remove it."""
    FORCE_ONLY = "force only"
    """Delete it by force. What is not on record keeps the finalizer."""


_GO_ON = {
    Standing.LIVING: Intent.LEAVE,
    Standing.UNRECORDED: Intent.LEAVE,
    Standing.REPLACED: Intent.STOP,
    Standing.DELAYED: Intent.LEAVE,
    Standing.SUCCEEDED: Intent.KEEP,
    Standing.GIVEN_UP: Intent.KEEP,
    Standing.SURPLUS: Intent.STOP,
    Standing.SURPLUS_NEW: Intent.LEAVE,
    Standing.EARLIER: Intent.STOP,
    Standing.UNKNOWN: Intent.LEAVE,
    Standing.UNOWNED: Intent.RELEASE,
}
_SPARED = {Standing.UNRECORDED: Intent.LEAVE, Standing.UNOWNED: Intent.RELEASE}
_AFTER_END = {**_SPARED, Standing.MAY_END: Intent.RELEASE, Standing.LOST: Intent.DISCARD}
INTENTS: Mapping[Course, Mapping[Standing, Intent]] = {
    Course.GO_ON: _GO_ON,
    Course.SUSPENDED: dict.fromkeys(_GO_ON, Intent.STOP) | _SPARED,
    Course.FINISHED_ALL: dict.fromkeys(_GO_ON, Intent.STOP) | _AFTER_END,
    Course.FINISHED_RUNNING: dict.fromkeys(_GO_ON, Intent.END) | _AFTER_END,
    Course.FINISHED_NONE: dict.fromkeys(_GO_ON, Intent.RELEASE) | _AFTER_END,
}
"""The table. `make golden` prints it into docs/pod-endings.md."""
