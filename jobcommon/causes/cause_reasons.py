"""The reasons that a diagnosis can give, each once. docs/kubectl-train.md explains them."""

from enum import StrEnum


class Reason(StrEnum):
    """Why a job is as it is, in one word. A program that a signal killed has the signal's name instead, as in SIGSEGV."""

    # nothing is wrong
    SUCCEEDED = "Succeeded"
    RUNNING = "Running"
    STARTING = "Starting"
    PULLING_IMAGE = "PullingImage"
    INIT_CONTAINER_RUNNING = "InitContainerRunning"
    SUSPENDED = "Suspended"
    DELETING = "Deleting"
    RESIZING = "Resizing"
    FEWER_REPLICAS = "FewerReplicas"

    # the operator
    NO_OPERATOR = "NoOperator"
    MANAGED_ELSEWHERE = "ManagedElsewhere"
    INVALID_SPEC = "InvalidSpec"
    OPERATOR_BLOCKED = "OperatorBlocked"
    REFERENCE_NOT_FOUND = "ReferenceNotFound"
    FINALIZER_STUCK = "FinalizerStuck"
    FRAMEWORK_ERROR = "FrameworkError"
    RESTARTING = "Restarting"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    STALLED = "Stalled"
    NO_PROGRESS = "NoProgress"
    PENDING_TOO_LONG = "PendingTooLong"

    # what the API server refuses
    QUOTA_EXCEEDED = "QuotaExceeded"
    LIMIT_RANGE = "LimitRange"
    DENIED_BY_WEBHOOK = "DeniedByWebhook"
    WEBHOOK_UNREACHABLE = "WebhookUnreachable"
    DENIED_BY_POLICY = "DeniedByPolicy"
    POD_SECURITY = "PodSecurity"
    SERVICE_ACCOUNT_NOT_FOUND = "ServiceAccountNotFound"
    PRIORITY_CLASS_NOT_FOUND = "PriorityClassNotFound"
    RUNTIME_CLASS_NOT_FOUND = "RuntimeClassNotFound"
    OPERATOR_FORBIDDEN = "OperatorForbidden"
    NAMESPACE_TERMINATING = "NamespaceTerminating"
    NAME_CONFLICT = "NameConflict"
    REFUSED = "Refused"

    # queues and gangs
    QUEUED_BY_KUEUE = "QueuedByKueue"
    GANG_PENDING = "GangPending"

    # the scheduler
    INSUFFICIENT_RESOURCES = "InsufficientResources"
    NODE_TOO_SMALL = "NodeTooSmall"
    UNTOLERATED_TAINT = "UntoleratedTaint"
    NODE_SELECTOR = "NodeSelector"
    POD_AFFINITY = "PodAffinity"
    TOPOLOGY_SPREAD = "TopologySpread"
    HOST_PORT_IN_USE = "HostPortInUse"
    NODES_CORDONED = "NodesCordoned"
    NO_NODES = "NoNodes"
    SCHEDULING_GATED = "SchedulingGated"
    NO_SCHEDULER = "NoScheduler"
    UNSCHEDULABLE = "Unschedulable"

    # images, volumes, configuration
    IMAGE_NOT_FOUND = "ImageNotFound"
    IMAGE_PULL_DENIED = "ImagePullDenied"
    IMAGE_PULL_RATE_LIMITED = "ImagePullRateLimited"
    REGISTRY_UNREACHABLE = "RegistryUnreachable"
    INVALID_IMAGE_NAME = "InvalidImageName"
    IMAGE_NEVER_PULLED = "ImageNeverPulled"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    WRONG_ARCHITECTURE = "WrongArchitecture"
    SECRET_NOT_FOUND = "SecretNotFound"  # noqa: S105  no secret
    CONFIG_MAP_NOT_FOUND = "ConfigMapNotFound"
    KEY_NOT_FOUND = "KeyNotFound"
    VOLUME_CLAIM_NOT_FOUND = "PersistentVolumeClaimNotFound"
    VOLUME_CLAIM_UNBOUND = "PersistentVolumeClaimUnbound"
    VOLUME_NODE_AFFINITY = "VolumeNodeAffinity"
    VOLUME_ATTACHED_ELSEWHERE = "VolumeAttachedElsewhere"
    VOLUMES_NOT_READY = "VolumesNotReady"
    SANDBOX_FAILED = "SandboxFailed"
    RUN_AS_ROOT_REFUSED = "RunAsRootRefused"
    CONTAINER_NOT_CREATED = "ContainerNotCreated"

    # probes and further containers
    READINESS_PROBE_FAILED = "ReadinessProbeFailed"
    STARTUP_PROBE_FAILED = "StartupProbeFailed"
    LIVENESS_PROBE_FAILED = "LivenessProbeFailed"
    POST_START_HOOK_FAILED = "PostStartHookFailed"
    INIT_CONTAINER_FAILED = "InitContainerFailed"
    SIDECAR_RUNNING = "SidecarRunning"

    # the program
    COMMAND_NOT_FOUND = "CommandNotFound"
    COMMAND_NOT_EXECUTABLE = "CommandNotExecutable"
    WORKING_DIRECTORY_NOT_FOUND = "WorkingDirectoryNotFound"
    SHELL_ERROR = "ShellError"
    MODULE_NOT_FOUND = "ModuleNotFound"
    LIBRARY_NOT_FOUND = "LibraryNotFound"
    ENVIRONMENT_MISSING = "EnvironmentMissing"
    FILE_NOT_FOUND = "FileNotFound"
    FILE_EXISTS = "FileExists"
    PERMISSION_DENIED = "PermissionDenied"
    DISK_FULL = "DiskFull"
    STORAGE_FAILED = "StorageFailed"
    LIMIT_REACHED = "LimitReached"
    CHECKPOINT_MISMATCH = "CheckpointMismatch"
    PYTHON_EXCEPTION = "PythonException"
    PROGRAM_FAILED = "ProgramFailed"
    ENDED_EARLY = "EndedEarly"
    POD_DEADLINE_EXCEEDED = "PodDeadlineExceeded"

    # its memory and GPUs
    OOM_KILLED = "OOMKilled"
    MEMORY_EXHAUSTED = "MemoryExhausted"
    SHARED_MEMORY_FULL = "SharedMemoryFull"
    WORKER_PROCESS_KILLED = "WorkerProcessKilled"
    GPU_OUT_OF_MEMORY = "GpuOutOfMemory"
    GPU_UNUSABLE = "GpuUnusable"
    GPU_ERROR = "GpuError"

    # its connections
    BACKEND_UNAVAILABLE = "BackendUnavailable"
    COLLECTIVE_TIMEOUT = "CollectiveTimeout"
    COLLECTIVE_MISMATCH = "CollectiveMismatch"
    PEERS_UNREACHABLE = "PeersUnreachable"
    PORT_IN_USE = "PortInUse"
    HOST_UNREACHABLE = "HostUnreachable"
    ACCESS_DENIED = "AccessDenied"
    SSH_REFUSED = "SshRefused"
    TOO_FEW_SLOTS = "TooFewSlots"
    MPI_NOT_STARTED = "MpiNotStarted"

    # the platform
    EVICTED = "Evicted"
    PREEMPTED = "Preempted"
    NODE_LOST = "NodeLost"
    NODE_SHUTDOWN = "NodeShutdown"
    NODE_DOES_NOT_ANSWER = "NodeDoesNotAnswer"
    NODE_REFUSED = "NodeRefused"
    DELETED = "Deleted"
