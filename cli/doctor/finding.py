"""What `jobcommon doctor` has found: one thing about a cluster, why it matters, and the command that fixes it."""

from dataclasses import dataclass
from enum import IntEnum


class Severity(IntEnum):
    """How bad a finding is, the worst first."""

    ERROR = 0
    WARNING = 1
    UNREAD = 2
    NOTE = 3


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """`subject` is the object or setting, `fix` a command or instruction, "" where there is nothing to do."""

    severity: Severity
    subject: str
    what: str
    why: str
    fix: str = ""
