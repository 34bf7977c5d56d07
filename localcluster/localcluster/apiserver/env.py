"""The server's sources of time, identity and randomness.

The core reads no clock and draws no random number by itself, so a simulator with a virtual clock can drive it.
"""

import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from localcluster.timestamps import format_time


@dataclass(frozen=True, slots=True)
class Env:
    """The environment of one server: `now` in Unix seconds, `uuid` a fresh uid, `random` for name suffixes and keys."""

    now: Callable[[], float]
    uuid: Callable[[], str]
    random: random.Random

    @classmethod
    def system(cls) -> Self:
        """The real clock and the operating system's randomness."""
        return cls(time.time, lambda: str(uuid.uuid4()), random.SystemRandom())

    @classmethod
    def seeded(cls, seed: int, now: Callable[[], float]) -> Self:
        """A reproducible environment: uids and name suffixes follow from `seed`, time from `now`."""
        source = random.Random(seed)  # noqa: S311 - reproducibility is the point
        return cls(now, lambda: str(uuid.UUID(int=source.getrandbits(128), version=4)), source)

    def timestamp(self) -> str:
        """Now as metav1.Time: RFC 3339 in UTC, whole seconds."""
        return format_time(self.now())
