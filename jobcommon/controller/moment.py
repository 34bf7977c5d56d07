"""A moment on two clocks."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Moment:
    """Now, on both clocks: `monotonic` seconds for delays, `wall` seconds since the epoch for recorded times."""

    monotonic: float
    wall: float
