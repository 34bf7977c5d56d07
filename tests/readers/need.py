"""What a reader of our objects needs, as a value: who asks, for what, of which kinds, and whether a life gives it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.readers.lives import Life

KINDS = ("TFJob", "PyTorchJob", "MPIJob v1", "MPIJob v2beta1", "MXJob", "JAXJob", "XGBoostJob", "PaddleJob")
WITHOUT_MXNET = tuple(kind for kind in KINDS if kind != "MXJob")


@dataclass(frozen=True)
class Need:
    """`complaints(life)` replays what the reader's code reads and says what it does not find. `courses`: of which lives."""

    reader: str
    text: str
    complaints: Callable[[Life], Iterator[str]]
    kinds: tuple[str, ...] = KINDS
    courses: tuple[str, ...] = ("run", "failed", "queued")


def text_of(obj: Mapping[str, Any], *path: str) -> str:
    """The text at that path; "" when there is none."""
    found: Any = obj
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return str(found) if found is not None else ""
