"""Texts that reveal why a command did not start: of the container runtime, and of the shells that should have run it."""

from jobcommon.causes.cause import Clue
from jobcommon.causes.cause_reasons import Reason

#: Of any line that a program printed: each command of such a script fails in its own way.
LINE_ENDS = (
    Clue(
        r"(.*(?:\$'[^']*\\r'|can't open file '[^']*\\r'|['‘][^'’]*\\r['’]: No such file|\^M: bad interpreter|'#!"
        r".*\\r|\S\\r: |set: Illegal option -$).*)",
        Reason.SHELL_ERROR,
        "the script has Windows line endings (CRLF): {0}",
        "convert the script: dos2unix FILE",
    ),
)

_INTERPRETER = (
    "correct the #! line of the script and convert Windows line endings (dos2unix FILE), or start the script with its "
    "interpreter: command: [python, FILE]"
)
#: The script is there, but not what is to run it.
INTERPRETERS = (
    Clue(
        r"^exec (\S+): no such file or directory",
        Reason.COMMAND_NOT_FOUND,
        "the command {0} exists, but the interpreter in its #! line does not",
        _INTERPRETER,
    ),
    Clue(
        r"exec user process caused.*no such file",
        Reason.COMMAND_NOT_FOUND,
        "the interpreter in the #! line of the command does not exist",
        _INTERPRETER,
    ),
    Clue(
        r"(\S+): cannot execute: required file not found",
        Reason.COMMAND_NOT_FOUND,
        "the interpreter in the #! line of {0} does not exist",
        _INTERPRETER,
    ),
    Clue(
        r"(\S+): (\S+): bad interpreter",
        Reason.COMMAND_NOT_FOUND,
        "the interpreter {1} in the #! line of {0} does not exist",
        _INTERPRETER,
    ),
)

#: What a container runtime says that could not start a container, whatever its command is.
RUNTIME = (
    Clue(
        r"(nvidia-container-cli: .*|nvml error: .*|unresolvable CDI devices.*|failed to inject CDI devices.*)",
        Reason.GPU_UNUSABLE,
        "{0}",
        "the node's driver fails, not the program: reboot the node after an update of its driver (kubectl drain NODE), and let "
        "the job run on another until then",
    ),
    Clue(
        r"(no space left on device.*)",
        Reason.DISK_FULL,
        "the node's disk is full: {0}",
        "free space on the node, or use another",
    ),
    Clue(
        r"container init was OOM-killed|memory limit too low",
        Reason.OOM_KILLED,
        "its memory limit is too low for any program to start",
        "raise resources.limits.memory; a LimitRange of the namespace may have set it",
    ),
    Clue(
        r"(error mounting .*|failed to (?:create|prepare) sub[pP]ath.*)",
        Reason.VOLUMES_NOT_READY,
        "{0}",
        "correct mountPath and subPath: a file cannot be mounted over a directory, nor a directory over a file",
    ),
)

COMMANDS = (
    Clue(
        r"chdir|set in config\.json failed|^\[Errno (?:2|13|20)\] [^:]+: '/",
        Reason.WORKING_DIRECTORY_NOT_FOUND,
        "",
        "correct workingDir in the pod template: it must be a directory in the image or in a volume",
        local="correct workingDir in the pod template: it must be a directory on this machine",
    ),
    Clue(
        r"error while loading shared libraries: ([^:\s]+)",
        Reason.LIBRARY_NOT_FOUND,
        "",
        "install the library in the image",
        local="install the library on this machine{debian}",
    ),
    Clue(
        r"symbol lookup error",
        Reason.LIBRARY_NOT_FOUND,
        "",
        "the library was built against another version of the library with this symbol: install compatible versions",
    ),
    Clue(
        r"exec format error",
        Reason.WRONG_ARCHITECTURE,
        "",
        "build the image for the architecture of the nodes; a script must begin with a line such as #!/bin/sh",
        local="use a program built for this machine; a script must begin with a line such as #!/bin/sh",
    ),
    Clue(
        r"argument list too long",
        Reason.LIMIT_REACHED,
        "",
        "shorten command, args or env of the container: Linux allows 128 KiB for one argument and 2 MiB in total",
    ),
    Clue(
        r"permission denied",
        Reason.COMMAND_NOT_EXECUTABLE,
        "",
        "make the file executable (chmod +x) for the user that the pod runs as, and its directories accessible; or start it "
        "with its interpreter: command: [python, FILE]",
    ),
    Clue(
        # dash says the same of a script whose interpreter is missing.
        r"(?:^|: )(\.{0,2}/\S+): not found$",
        Reason.COMMAND_NOT_FOUND,
        "",
        "correct the path; if the file exists, its #! line names a missing interpreter or has a Windows line ending (dos2unix "
        "FILE)",
    ),
    Clue(
        r"executable file not found|no such file or directory|not found in \$PATH",
        Reason.COMMAND_NOT_FOUND,
        "",
        "correct command in the pod template, or install the program in the image",
        local="correct command in the pod template, or install the program on this machine",
    ),
)
