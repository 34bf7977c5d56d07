"""The steps that an informer asks its driver to take."""

from dataclasses import dataclass

from jobcommon.client.request import Request


@dataclass(frozen=True, slots=True)
class Sleep:
    """Nothing to do before `until`."""

    until: float


@dataclass(frozen=True, slots=True)
class Fetch:
    """Send `request` and read the whole response."""

    request: Request


@dataclass(frozen=True, slots=True)
class Stream:
    """Open `request` and read it line by line."""

    request: Request


Step = Sleep | Fetch | Stream
