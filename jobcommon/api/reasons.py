"""The reasons of events and conditions, each once; docs/events.md says when each is used.

The first group are suffixes of the job's kind, as in the reference: see `of_kind`. Others are used as they are. Only the
kubelet's reasons for a waiting container are passed on unchanged.
"""

CREATED = "Created"
RUNNING = "Running"
RESTARTING = "Restarting"
SUCCEEDED = "Succeeded"
FAILED = "Failed"
SUSPENDED = "Suspended"
RESUMED = "Resumed"

# The causes of a failure.
INVALID_SPEC = "InvalidSpec"
BACKOFF_LIMIT_EXCEEDED = "BackoffLimitExceeded"
DEADLINE_EXCEEDED = "DeadlineExceeded"
NO_PROGRESS = "NoProgress"
PENDING_TOO_LONG = "PendingTooLong"

# What was written.
SUCCESSFUL_CREATE_POD = "SuccessfulCreatePod"
SUCCESSFUL_CREATE_SERVICE = "SuccessfulCreateService"
SUCCESSFUL_DELETE_POD = "SuccessfulDeletePod"
SUCCESSFUL_DELETE_SERVICE = "SuccessfulDeleteService"
FAILED_CREATE_POD = "FailedCreatePod"
FAILED_CREATE_SERVICE = "FailedCreateService"
FAILED_CREATE_POD_GROUP = "FailedCreatePodGroup"
FAILED_CREATE_OBJECT = "FailedCreateObject"
FAILED_GET_OBJECT = "FailedGetObject"
FAILED_DELETE_POD = "FailedDeletePod"
FAILED_DELETE_SERVICE = "FailedDeleteService"
FAILED_DELETE_POD_GROUP = "FailedDeletePodGroup"
FAILED_DELETE_OBJECT = "FailedDeleteObject"
FAILED_DELETE_JOB = "FailedDeleteJob"
FAILED_UPDATE_POD = "FailedUpdatePod"
FAILED_UPDATE_POD_GROUP = "FailedUpdatePodGroup"
FAILED_UPDATE_OBJECT = "FailedUpdateObject"
FAILED_UPDATE_STATUS = "FailedUpdateStatus"
FAILED_REMOVE_FINALIZER = "FailedRemoveFinalizer"
NAME_CONFLICT = "NameConflict"
LOST = "Lost"
STATUS_TOO_LARGE = "StatusTooLarge"
FAILED_KEEP_LOGS = "FailedKeepLogs"

# Pods.
EXITED_WITH_CODE = "ExitedWithCode"
MAIN_CONTAINER_FAILED = "MainContainerFailed"
UNKNOWN_POD = "UnknownPod"
SPEC_WARNING = "SpecWarning"
POLICY_OVERRULED = "SetPodTemplateRestartPolicy"

# What the job waits for.
WAITING = "Waiting"
UNSCHEDULABLE = "Unschedulable"
CRASH_LOOP_BACK_OFF = "CrashLoopBackOff"
NO_SCHEDULER = "NoScheduler"
VOLUMES_NOT_READY = "VolumesNotReady"
CONTAINERS_NOT_CREATED = "ContainersNotCreated"
NODE_DOES_NOT_ANSWER = "NodeDoesNotAnswer"

# Reports of progress. Of a failed job, too: STALLED.
STALLED = "Stalled"
PROGRESSING = "Progressing"
NO_PROGRESS_SERVER = "NoProgressServer"

# Queues.
NOT_QUEUED = "NotQueued"

# Gang scheduling.
GANG_OFF = "GangSchedulingOff"
TOPOLOGY_IGNORED = "TopologyIgnored"
OTHER_SCHEDULER = "SetPodTemplateSchedulerName"

INTERNAL_ERROR = "InternalError"


def of_a_replica(kind: str) -> tuple[str, ...]:
    """The reasons of a job that has failed because a replica has; the second is that of older operators for every kind."""
    return of_kind(kind, FAILED), "JobFailed"


def of_kind(kind: str, suffix: str) -> str:
    """The reason of a kind: ``PyTorchJob`` and ``Running`` give ``PyTorchJobRunning``."""
    return f"{kind}{suffix}"
