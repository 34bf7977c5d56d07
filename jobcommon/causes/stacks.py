"""The lines that a program or a person has worded: without the stacks of native code, and without hints of libraries."""

import re
from collections.abc import Sequence

from jobcommon.causes.tracebacks import plain

# The stack of a crash in native code: frames of c10, glibc, glog, dmlc and Open MPI, their titles, and a list of modules.
_STACK = re.compile(
    r"\s*(?:frame #\d+: |#\d+ +0x|@ +0x|\d+ +0x[0-9a-f]+ |\[bt\] |<omitting python frames>|Extension modules: |Stack trace:|"
    r"\[[^]]*:\d+\] (?:\[ ?\d+\] |\*\*\* )|\*\*\* Process received|"
    r"(?:Exception raised from|C\+\+ Traceback).*\(most recent call (?:first|last)\):)|.*[\[(]0x[0-9a-f]+(?: in \S+)?[\])]$"
)
# Hints that read like errors: of hydra, and of torch, which adds them to each error of CUDA.
_HINT = re.compile(
    r"HYDRA_FULL_ERROR|use -\[v\]S to pass options|CUDA kernel errors might be asynchronously|"
    r"(?:debugging consider passing|can also set) CUDA_LAUNCH_BLOCKING|Compile with `TORCH_USE_CUDA_DSA`"
)


def telling(lines: Sequence[str]) -> list[str]:
    """Those that a person or a program has worded: without the stack of a crash and hints, if there are any."""
    worded = [line for line in lines if line.strip()]
    return [line for line in worded if not (is_stack(line) or is_hint(line))] or worded


def is_stack(line: str) -> bool:
    """Whether it is a line of the stack of a crash."""
    return _STACK.match(plain(line)) is not None


def is_hint(line: str) -> bool:
    """Whether a library adds it to each error of a kind, whatever the cause is."""
    return _HINT.search(line) is not None
