"""Clues in what is left: plain lines, and what shells and launchers report of processes that have ended."""

from jobcommon.causes.cause import Clue
from jobcommon.causes.cause_reasons import Reason
from jobcommon.causes.clues.advice import LOCAL_PATHS, LOCAL_SHM, MEMORY, OWNER, PATHS, SHM

#: Of plain lines, if nothing above was found. `{0}` as a reason is a signal's name.
REMAINS = (
    Clue(
        r"PML \w+ cannot be selected|network device '\S+' is not available", Reason.MPI_NOT_STARTED, "",
        "Open MPI finds no network for this layer: request the device of the network (rdma/...) in resources.limits, correct "
        "UCX_NET_DEVICES, or leave out --mca pml ucx",
        local="Open MPI finds no network for this layer: correct UCX_NET_DEVICES, or leave out --mca pml ucx",
    ),
    Clue(
        r"^(?:Killed|Segmentation fault)(?: \(core dumped\))?$",
        Reason.WORKER_PROCESS_KILLED, "", "a program in the script was killed; the cause of SIGKILL is usually a lack of "
        f"memory: {MEMORY}",
    ),
    Clue(
        # What bash quotes of the command goes on in the next lines.
        r"^(.*: line \d+): +(\d+ Killed) +([^\"']+?)(?: -c)? [\"'].*", Reason.WORKER_PROCESS_KILLED, "{0}: {1} {2} …",
        f"the cause of SIGKILL is usually a lack of memory: {MEMORY}",
    ),
    Clue(
        r": line \d+: +\d+ Illegal instruction|^Illegal instruction|exited on signal 4\b", Reason.WORKER_PROCESS_KILLED, "",
        "it uses instructions that this node's CPU lacks, as AVX: use other nodes, or a build for this CPU",
        local="it uses instructions that this CPU lacks, as AVX: use a build for this CPU",
    ),
    Clue(
        r"exited on signal 7\b|terminated with signal SIGBUS|\bBus error\b", Reason.WORKER_PROCESS_KILLED, "",
        f"often /dev/shm is full: {SHM}", local=f"often /dev/shm of this machine is full: {LOCAL_SHM}",
    ),
    Clue(
        r"exited on signal (?:4|6|8|11)\b|Signal \d+ \(SIG(?:SEGV|ILL|FPE)\) received|terminated with signal SIG(?:SEGV|"
        r"ABRT|ILL|FPE)|BY SIGNAL: (?:4|6|8|11)\b|EXIT STRING: \S.* \(signal (?:4|6|8|11)\)|"
        r": line \d+: +\d+ (?:Segmentation fault|Illegal instruction)",
        Reason.WORKER_PROCESS_KILLED, "",
        "native code crashed in this process: if it is Python, run it with python -X faulthandler, which prints where",
    ),
    Clue(
        r"Signal \d+ \(((?!SIGTERM|SIGABRT)SIG\w+)\) received by PID|"
        r"exited on signal \d+ \((Killed|Segmentation fault|Aborted|Bus error|Terminated)\)|"
        r"terminated with signal (SIG\w+)|KILLED BY SIGNAL: 9|EXIT STRING: Killed \(signal 9\)|"
        r": line \d+: +\d+ (?:Killed|Segmentation fault|Bus error)",
        Reason.WORKER_PROCESS_KILLED, "", f"the cause of SIGKILL is usually a lack of memory: {MEMORY}",
    ),
    Clue(
        r"(?:return ?code|exit ?code|exit ?status|status)\s*[:=]?\s*-7\b|(?:exited|exit|"
        r"terminated) with (?:exit )?(?:status|code) 135\b",
        Reason.WORKER_PROCESS_KILLED, "", f"-7 is SIGBUS, often a full /dev/shm: {SHM}",
        local=f"-7 is SIGBUS, often a full /dev/shm of this machine: {LOCAL_SHM}",
    ),
    Clue(
        r"(?:return ?code|exit ?code|exit ?status|status)\s*[:=]?\s*-(?:11|4)\b|"
        r"(?:exited|exit|terminated) with (?:exit )?(?:status|code) (?:139|132)\b",
        Reason.WORKER_PROCESS_KILLED, "",
        "-11 is a segmentation fault of native code, -4 an instruction that this CPU lacks: run it with python -X faulthandler",
    ),
    Clue(
        r"(?:return ?code|exit ?code|exit ?status|status)\s*[:=]?\s*-9\b|"
        r"(?:exited|exit|terminated) with (?:exit )?(?:status|code) 137\b",
        Reason.WORKER_PROCESS_KILLED, "",
        f"a launcher prints the signal as a negative number; the cause of -9 (SIGKILL) is usually a lack of memory: {MEMORY}",
    ),
    Clue(
        r'\(most recent call first\): File "(?:[^"]*/)?([^"]+)", line (\d+) in (.+)', Reason.PROGRAM_FAILED,
        "Python's faulthandler shows it in {2} ({0}, line {1})", "see why it did not continue there; a timeout may have ended "
        "it",
    ),
    Clue(
        r"Container failed !!!", Reason.PROGRAM_FAILED, "",
        "paddle.distributed.launch writes the processes' output to log/workerlog.N: put --log_dir on a volume",
    ),
    Clue(
        # Of Go and Rust, whose stack follows.
        r"^(?:panic|fatal error): |^thread '.*' (?:\(\d+\) )?panicked at ",
        Reason.PROGRAM_FAILED, "", "correct what the message names: the program, its data or its settings",
    ),
    Clue(
        # Of Java, and of what is built on it.
        r"Exception in thread \"|^(?:Caused by: )?(?:java|javax|org|com|scala|kotlin|io)\.[\w.$]+(?:Exception|Error)\b",
        Reason.PROGRAM_FAILED, "", "correct what the exception names: the program, its data or its settings",
    ),
    Clue(
        r"(?<!raise )(?:PermissionError: |\[Errno 13\])", Reason.PERMISSION_DENIED, "", OWNER,
    ),
    Clue(
        r"(?<!raise )(?:FileNotFoundError: |\[Errno 2\])", Reason.FILE_NOT_FOUND, "", PATHS, local=LOCAL_PATHS,
    ),
    Clue(
        # An exception that the program has caught and printed.
        r"(?<!raise )(?-i:\b[A-Z]\w*(?:Error|Exception))(?:\(|: | in rule )(?!\s*=)", Reason.PYTHON_EXCEPTION, "",
        "correct what the message names: the program, its data or its settings",
    ),
    # Here and below, in the languages that shells and commands speak most.
    Clue(r"Permission denied|Operation not permitted|EACCES|"
         r"Keine Berechtigung|Permission non accordée|权限不够", Reason.PERMISSION_DENIED, "",
         OWNER),
    Clue(r"(?:can't cd to|cd: .*No such file|(?:cannot|can't) (?:open|access|stat|find|read|load)\b.*|"
         r"No such file or directory|Datei oder Verzeichnis nicht gefunden|Aucun fichier ou dossier de ce (?:type|nom)|"
         r"没有那个文件或目录)",
         Reason.FILE_NOT_FOUND, "", PATHS, local=LOCAL_PATHS),
)  # fmt: skip

#: What launchers report of a process that has ended, the first first. The lines before say more, if they have an error.
REPORTS = (
    Clue(
        r"first process to do so was: Process name: \[(?:\[\d+,\d+\]|[\w.-]+@\d+),(\d+)\] Exit code: +(\d+)",
        Reason.PROGRAM_FAILED,
        "rank {0} ended first, with exit code {1}", "see the lines that this rank printed before", symptom=True,
    ),
    Clue(
        r"MPI_ABORT was invoked on rank (\d+)(?:.*?errorcode (-?\d+))?", Reason.PROGRAM_FAILED,
        "rank {0} called MPI_Abort ({1})", "see what this rank printed before", symptom=True,
    ),
    Clue(
        r": line \d+: +\d+ Aborted|Signal 6 \(SIGABRT\) received by PID|(?:return ?code|exit ?code|status)\s*[:=]?\s*-6\b|"
        r"(?:status|code) 134\b|MPI_Abort|BY SIGNAL: \d+|EXIT CODE: \d+|the first process to do so was|"
        r"Exit code: +(\d+)|non-zero (?:exit )?(?:status|code)(?!.{,3}Per user)|Process (\d+) exit with status code [1-9]",
        Reason.PROGRAM_FAILED, "", "see the lines that the rank printed before", symptom=True,
    ),
)  # fmt: skip
