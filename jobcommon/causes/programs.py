"""What programs print when they fail, and what it means: tables of clues, the most specific first.

A clue's advice may name fields of a manifest; `local` is the advice where pods are processes of this machine.
"""

import re

from jobcommon.causes.cause import Cause, Clue
from jobcommon.causes.cause_reasons import Reason
from jobcommon.causes.clues.advice import HUB, LOCAL_HUB, LOCAL_PATHS, OWNER, PATHS
from jobcommon.causes.clues.devices import DEVICES, SHARED_MEMORY
from jobcommon.causes.clues.environment import ARGUMENTS, ENVIRONMENT, MODULES, SHELL
from jobcommon.causes.clues.exhausted import LIMITS
from jobcommon.causes.clues.files import DATA, FILES
from jobcommon.causes.clues.hosts import HOSTS, PEERS
from jobcommon.causes.clues.ranks import COLLECTIVES, MPI

_NCCL = "run once with NCCL_DEBUG=INFO, which shows what NCCL tried"

#: Of the last exception, its message and innermost frame; of other lines, each by itself.
LINES = (
    # Shared memory before disks and NCCL, other machines before the peers of the job.
    *SHARED_MEMORY, *DEVICES, *COLLECTIVES, *MPI, *ENVIRONMENT, *MODULES, *FILES, *LIMITS, *DATA, *HOSTS, *PEERS,
    *ARGUMENTS, *SHELL,
    # what is left of NCCL's
    Clue(r"^Last error: \S", Reason.GPU_ERROR, "", _NCCL),
)  # fmt: skip

#: Of exceptions only: elsewhere such words are part of ordinary output. After all of LINES.
EXCEPTIONS = (
    Clue(
        r"(?:Input|Labels?|Data|Features?|Columns?|target|vector|y|X)\b.{,20}contains? .{,12}(?:NaN|infinity|inf\b|missing)|"
        r"must not contain (?:NaN|inf)|IntCastingNaNError|cannot convert float NaN|"
        r"NaN values (?:found )?in (?:the )?(?:data|input)", Reason.DATA_INVALID, "",
        "check the data: replace missing and infinite values, or drop their rows",
    ),
    Clue(
        r"(?<!ignore )\b(?:nan|inf|infinity|infinite|non-?finite|not finite)\b.{,80}"
        r"(?:loss|grad|summary|tensor|weight|logits|activation|latents|values|input|predictions|detected)|"
        r"(?:loss|grad\w*|tensor|weights?|outputs?|input|logits|activations?)\b.{,80}"
        r"\b(?:nan|inf|infinity|infinite|non-?finite|not finite)\b|FloatingPointError|NaNLoss|NanLoss|\bdiverged",
        Reason.NOT_A_NUMBER, "",
        "find where a value is first infinite or NaN (set_detect_anomaly(True) names the operation): lower the learning "
        "rate, clip gradients, use bf16 or fp32 instead of fp16, or check the data for NaN",
    ),
    Clue(
        r"'ascii' codec can't|'latin-1' codec can't encode|'charmap' codec can't encode", Reason.ENVIRONMENT_MISSING, "",
        "set PYTHONUTF8=1 in the container's env, because its locale is not UTF-8, or pass encoding='utf-8'",
    ),
    Clue(
        r"before the\s+current process has finished its bootstrapping phase|Please use the 'if __name__ == '__main__'",
        Reason.PYTHON_EXCEPTION,
        "the script starts processes when it is imported, without if __name__ == \"__main__\": (RuntimeError of spawn)",
        'move the script\'s code into a function, and call it under if __name__ == "__main__": spawned processes import it',
    ),
    Clue(
        r"multiprocessing\.\w+\.TimeoutError|\b_?queue\.Empty|concurrent\.futures\.\w+\.TimeoutError",
        Reason.PYTHON_EXCEPTION, "",
        "a process or thread that it started did not answer in time: see what it printed before", symptom=True,
    ),
    Clue(
        r"context has already been set", Reason.PYTHON_EXCEPTION, "",
        "the start method is set twice, the second time perhaps by a spawned process, which imports the script: set it under "
        'if __name__ == "__main__"',
    ),
    Clue(
        r"Can't get attribute '\w+' on <module '__main__'", Reason.PYTHON_EXCEPTION, "",
        "the pickle names a class of the script that wrote it: define or import that class in this script, or write the "
        "file from a module",
    ),
    Clue(
        r"Can't pickle (?:local object|<function)|Can't get (?:local )?(?:attribute|object) '|cannot pickle '",
        Reason.PYTHON_EXCEPTION, "",
        "arguments of a spawned process or a data loader worker must be picklable: define functions and classes at the top "
        "level of a module, pass no lambda and no open file; or start processes with fork (multiprocessing_context='fork')",
    ),
    Clue(
        r"contains pickled \(object\) data|reading magic string|Failed to interpret file|containing pickled data|"
        r"EmptyDataError|ArrowInvalid.*(?:magic|footer|thrift|truncated|Arrow file|too small|size)|"
        r"Format not recognised|UnidentifiedImageError|Unrecognized image format|nvJPEG error|UnicodeDecodeError|"
        r"(?:checksum|CRC|hash) (?:mismatch|check failed)|"
        r"\bcorrupt(?:ed)?\b|(?:file|data|image|record|archive|stream|jpe?g|png|is|was|pickle)\b.{,20} truncated|"
        r"truncated (?:file|data|image|record|archive|stream|jpe?g|png)|zlib\.error|ParserError|DataLossError",
        Reason.DATA_INVALID, "", "check the file: it is damaged, incomplete or not in the format that the program reads",
    ),
    Clue(
        r"ArrowInvalid|ArrowTypeError|ArrowKeyError|\bCastError\b", Reason.DATA_INVALID, "",
        "the data is damaged, or has other columns or types than the program expects: see what the message names",
    ),
    Clue(
        r"resize storage that is not resizable|expects each tensor to be equal size", Reason.DATA_INVALID, "",
        "the samples of a batch have different shapes: give them the same shape in the data set, or pass the DataLoader a "
        "collate_fn",
    ),
    Clue(r"IsADirectory", Reason.FILE_NOT_FOUND, "",
         "give the path of a file; a mount whose subPath does not exist in the volume is an empty directory"),
    Clue(
        r"DataLoader timed out", Reason.PYTHON_EXCEPTION, "",
        "a data loader worker hangs: check its storage, try num_workers=0, or use multiprocessing_context='spawn'",
    ),
    Clue(r"NCCL error", Reason.GPU_ERROR, "", _NCCL),
    Clue(r"FileNotFoundError|No such file or directory|unable to open database file|"
         r"NoSuchFileError|\b(?:file|directory|folder|path|checkpoint)\b.{,120}does(?: not|n't) exist|"
         r"(?:/[\w./-]+|(?<![\w.])[\w-]+\.\w{1,5})[\'\"]? does(?: not|n't) exist|NotADirectory",
         Reason.FILE_NOT_FOUND, "", PATHS, local=LOCAL_PATHS),
    Clue(
        r"PermissionError|Permission denied|\[Errno 13\]|EACCES|Operation not permitted", Reason.PERMISSION_DENIED, "",
        OWNER,
    ),
)  # fmt: skip

#: A line of these levels is not the error. NCCL has no other word for its errors.
MERELY_A_WARNING = re.compile(r"(?<!NCCL )(?:\b|_)warn(?:ing)?\b|Warning:|^\[?W\d{4}|\bINFO\b|^I\d{4}|\bDEBUG\b", re.IGNORECASE)


def unreachable(text: str, *, local: bool = False) -> Cause:
    """The cause of a connection to a host that is none of the job's."""
    return Cause(Reason.HOST_UNREACHABLE, text, LOCAL_HUB if local else HUB)
