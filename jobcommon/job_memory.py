"""What the controller remembers of one job. None of it is needed to be right; it is gone with the process."""

from dataclasses import dataclass, field

from jobcommon.framework import Rejection
from jobcommon.refusals import Refusals
from jobcommon.sights import Sights


@dataclass
class JobMemory:
    """What was refused, said and seen of a job; `finished` once it is known to have come to its end."""

    generation: int = 0
    rejections: dict[tuple[str, str], Rejection] = field(default_factory=dict)
    refusals: Refusals = field(default_factory=Refusals)
    said: set[tuple[str, str]] = field(default_factory=set)
    asked_until: float = 0.0
    sights: Sights = field(default_factory=Sights)
    finished: bool = False
