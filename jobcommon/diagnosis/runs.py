"""Why a program ended: the kubelet's reason, the exit code, and the last lines that the program printed."""

import re
from collections.abc import Sequence

from jobcommon.diagnosis.cause import Cause, clue, in_short, revealed
from jobcommon.diagnosis.reason import Reason
from jobcommon.diagnosis.starting import COMMANDS

# Lines of these exceptions only report that another process has failed.
_WRAPPERS = ("ChildFailedError", "CalledProcessError", "SystemExit", "SignalException")
_EXCEPTION = re.compile(
    r"^(?:\[[^\]]*\]:\s*)?((?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit|Expired|Failed|NotFound|Warning))(?::.*)?$"
)
_TRACEBACK = "Traceback (most recent call last)"
_NOT_STARTED = ("StartError", "ContainerCannotRun", "RunContainerError")

_SIGNALS = {
    "SIGKILL": (
        "killed by SIGKILL",
        "often the node had no memory left, or it did not end within its grace period",
    ),
    "SIGSEGV": ("crashed with a segmentation fault", "a native library is at fault: run with python -X faulthandler"),
    "SIGTERM": ("stopped by SIGTERM", "something asked it to end: a deletion, a clean-up, or a launcher whose peer has failed"),
    "SIGABRT": ("aborted", "a native library or an assertion gave up: its last lines say which"),
    "SIGBUS": ("crashed with a bus error", "often /dev/shm is full: mount an emptyDir with medium: Memory at /dev/shm"),
    "SIGILL": ("ran an illegal instruction", "the image is built for another kind of CPU than the node has"),
    "SIGFPE": ("crashed with an arithmetic error", "a native library is at fault: run with python -X faulthandler"),
    "SIGINT": ("interrupted by SIGINT", "something asked it to end"),
}

_LINES = (
    clue(
        r"CUDA out of memory|OutOfMemoryError: CUDA|CUBLAS_STATUS_ALLOC_FAILED|RESOURCE_EXHAUSTED: .*(?:memory|allocat)",
        Reason.GPU_OUT_OF_MEMORY,
        "",
        "use a smaller batch, gradient checkpointing or a GPU with more memory",
    ),
    clue(
        r"insufficient shared memory|DataLoader worker .* killed by signal: Bus error|/dev/shm.*No space left",
        Reason.SHARED_MEMORY_FULL,
        "",
        "mount an emptyDir with medium: Memory at /dev/shm; its default size is 64 MiB",
    ),
    clue(
        r"environment variable (\w+) expected, but not set|KeyError: '(?:RANK|WORLD_SIZE|MASTER_ADDR|LOCAL_RANK)'",
        Reason.ENVIRONMENT_MISSING,
        "",
        "give the PyTorchJob a Master, or start the script with torchrun (docs/troubleshooting.md)",
    ),
    clue(
        r"Found no NVIDIA driver|no CUDA-capable device|CUDA driver version is insufficient|no kernel image is available",
        Reason.GPU_UNUSABLE,
        "",
        "request nvidia.com/gpu in resources.limits, and use an image whose CUDA the node's driver supports",
    ),
    clue(
        r"ModuleNotFoundError: No module named '?([\w.]+)|ImportError: No module named '?([\w.]+)",
        Reason.MODULE_NOT_FOUND,
        "",
        "install the module in the image, or correct PYTHONPATH and workingDir",
    ),
    clue(r"No space left on device|Disk quota exceeded", Reason.DISK_FULL, "", "write to a larger volume"),
    clue(r"Address already in use|EADDRINUSE", Reason.PORT_IN_USE, "", "choose another port, or end what still uses it"),
    clue(
        r"Could not resolve hostname|ssh: connect to host|ORTE was unable to reliably start|"
        r"unable to reliably start one or more daemons|failed to connect to all addresses|"
        r"(?:c10d|TCPStore|rendezvous|DistNetworkError|DistStoreError|RendezvousConnectionError|NCCL|nccl|Gloo|gloo).*"
        r"(?:timed out|timeout|refused|reset|closed|Broken pipe|unreachable|remote process|could not connect)|"
        r"ncclRemoteError|Connection closed by peer \[|"
        r"(?:getaddrinfo|gaierror|resolve).*(?:Name or service not known|Temporary failure in name resolution)",
        Reason.PEERS_UNREACHABLE,
        "",
        "see whether another replica failed or never started, and whether a NetworkPolicy blocks the job's Service",
        symptom=True,
    ),
    clue(
        r"error: (?:unrecognized arguments|the following arguments are required|argument )|no such option",
        Reason.WRONG_ARGUMENTS,
        "",
        "correct args in the pod template",
    ),
)  # fmt: skip

_CODES = {
    2: "; by convention: wrong arguments",
    126: "; the command cannot be executed",
    127: "; the command was not found",
    255: "; often of ssh or mpirun",
}


def end_of_program(reason: str, exit_code: int | None, message: str, lines: Sequence[str] = ()) -> Cause:
    """Why a run of a container failed.

    `reason` is the kubelet's or, as in `status.failures`, a signal's name; `lines` are the last ones that it printed.
    """
    code = f"exit code {exit_code}" if exit_code is not None else "no exit code"
    if reason == "OOMKilled":
        advice = "raise resources.limits.memory, or use a smaller batch or fewer data loader workers"
        return Cause(Reason.OOM_KILLED, f"used more memory than its limit (OOMKilled, {code})", advice)
    if reason in _NOT_STARTED or exit_code in (126, 127):
        return _no_command(exit_code, message, lines)
    told = [*message.splitlines(), *lines]
    for line in reversed(told):
        if (cause := revealed(line, _LINES)) is not None:
            return Cause(cause.reason, f"{code}: {in_short(line.strip())}", cause.advice, cause.symptom)
    if reason in _SIGNALS:
        text, advice = _SIGNALS[reason]
        return Cause(reason, f"{text} ({reason}, {code})", advice, symptom=reason == "SIGTERM")
    if reason.startswith("SIG"):
        return Cause(reason, f"killed by {reason} ({code})", "its last lines may say why")
    if (exception := last_exception(told)) is not None:
        return Cause(
            Reason.PYTHON_EXCEPTION, f"{code}: {in_short(exception)}", "correct the program; its last lines show where"
        )
    tail = f": {in_short(message)}" if message.strip() else ""
    meaning = _CODES.get(exit_code or 0, "")
    return Cause(Reason.PROGRAM_FAILED, f"failed with {code}{meaning}{tail}", "its last lines may say why")


def last_exception(lines: Sequence[str]) -> str | None:
    """The last line of the last Python traceback that does not merely report another process's failure."""
    if not any(_TRACEBACK in line for line in lines):
        return None
    found = [line.strip() for line in lines if (match := _EXCEPTION.match(line.strip())) and not match[1].endswith(_WRAPPERS)]
    return found[-1] if found else None


def _no_command(exit_code: int | None, message: str, lines: Sequence[str]) -> Cause:
    text = in_short(message) or next((in_short(line) for line in reversed(lines) if line.strip()), "")
    cause = revealed(text, COMMANDS)
    executable = exit_code != 126
    reason = cause.reason if cause else (Reason.COMMAND_NOT_FOUND if executable else Reason.COMMAND_NOT_EXECUTABLE)
    advice = cause.advice if cause else next(one.advice for one in COMMANDS if one.reason == reason)
    code = f"exit code {exit_code}" if exit_code is not None else "no exit code"
    what = "the command was not found" if reason == Reason.COMMAND_NOT_FOUND else "the command cannot be executed"
    return Cause(reason, f"{what} ({code})" + (f": {text}" if text else ""), advice)
