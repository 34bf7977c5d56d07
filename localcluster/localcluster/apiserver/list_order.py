"""The order of a merged list: what the request says, with the other items where they were."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any


def interleave(kept: Sequence[Any], wanted: Sequence[Any], place: Callable[[Any], int | None]) -> Iterator[Any]:
    """Both lists in one, each in its own order; a kept item comes first where its old `place` is before the wanted
    one's.

    This is the order rule of strategic merge patch and of structured merge: items only the server has stay in place.
    """
    left, right = list(kept), list(wanted)
    while left and right:
        at_left, at_right = place(left[0]), place(right[0])
        before = at_left is not None and at_right is not None and at_left < at_right
        yield (left if before else right).pop(0)
    yield from left
    yield from right
