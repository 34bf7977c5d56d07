"""The lines that a program or a person has worded: without the stacks of native code."""

import re
from collections.abc import Sequence

from jobcommon.causes.tracebacks import plain

# The stack of a crash in native code: frames of c10, glibc, glog, dmlc and Open MPI, their titles, and a list of modules.
_STACK = re.compile(
    r"\s*(?:frame #\d+: |#\d+ +0x|@ +0x|\d+ +0x[0-9a-f]+ |\[bt\] |<omitting python frames>|Extension modules: |Stack trace:|"
    r"\[[^]]*:\d+\] (?:\[ ?\d+\] |\*\*\* )|\*\*\* Process received|"
    r"(?:Exception raised from|C\+\+ Traceback).*\(most recent call (?:first|last)\):)|.*[\[(]0x[0-9a-f]+(?: in \S+)?[\])]$"
)


def telling(lines: Sequence[str]) -> list[str]:
    """Those that a person or a program has worded: without the stack of a crash, if there are any."""
    worded = [line for line in lines if line.strip()]
    return [line for line in worded if not is_stack(line)] or worded


def is_stack(line: str) -> bool:
    """Whether it is a line of the stack of a crash."""
    return _STACK.match(plain(line)) is not None
