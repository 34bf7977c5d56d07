"""The reasons on events and conditions, each once. Those of a kind are the kind's name and a suffix, as in the reference."""

CREATED = "Created"
RUNNING = "Running"
RESTARTING = "Restarting"
SUCCEEDED = "Succeeded"
FAILED = "Failed"
SUSPENDED = "Suspended"
RESUMED = "Resumed"

INVALID_SPEC = "InvalidSpec"
BACKOFF_LIMIT_EXCEEDED = "BackoffLimitExceeded"
DEADLINE_EXCEEDED = "DeadlineExceeded"

EXITED_WITH_CODE = "ExitedWithCode"
NAME_CONFLICT = "NameConflict"
LOST = "Lost"
UNKNOWN_POD = "UnknownPod"
WAITING = "Waiting"
MAIN_CONTAINER_FAILED = "MainContainerFailed"
GANG_OFF = "GangSchedulingOff"
OTHER_SCHEDULER = "SetPodTemplateSchedulerName"
INTERNAL_ERROR = "InternalError"
STATUS_TOO_LARGE = "StatusTooLarge"


def of_kind(kind: str, suffix: str) -> str:
    """The reason of a kind: ``PyTorchJob`` and ``Running`` give ``PyTorchJobRunning``."""
    return f"{kind}{suffix}"
