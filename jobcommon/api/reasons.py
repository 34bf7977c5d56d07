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

SUCCESSFUL_CREATE_POD = "SuccessfulCreatePod"
FAILED_CREATE_POD = "FailedCreatePod"
SUCCESSFUL_DELETE_POD = "SuccessfulDeletePod"
FAILED_DELETE_POD = "FailedDeletePod"
SUCCESSFUL_CREATE_SERVICE = "SuccessfulCreateService"
FAILED_CREATE_SERVICE = "FailedCreateService"
SUCCESSFUL_DELETE_SERVICE = "SuccessfulDeleteService"
FAILED_DELETE_SERVICE = "FailedDeleteService"
SUCCESSFUL_DELETE_JOB = "SuccessfulDeleteJob"
FAILED_DELETE_JOB = "FailedDeleteJob"
EXITED_WITH_CODE = "ExitedWithCode"
NAME_CONFLICT = "NameConflict"
UNKNOWN_POD = "UnknownPod"
WAITING = "Waiting"
INTERNAL_ERROR = "InternalError"


def of_kind(kind: str, suffix: str) -> str:
    """The reason of a kind: ``PyTorchJob`` and ``Running`` give ``PyTorchJobRunning``."""
    return f"{kind}{suffix}"
