"""Makes a failing list of faults short: delta debugging (Zeller and Hildebrandt, 2002), then each fault made milder."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from jobcommon.testutil.sim.faults import Fault

Fails = Callable[[tuple[Fault, ...]], bool]


def shrink(faults: Sequence[Fault], fails: Fails, runs: int = 200) -> tuple[Fault, ...]:
    """A short sublist of `faults` that still fails, after at most `runs` tries; `faults` itself is known to fail."""
    left = runs

    def still(candidate: tuple[Fault, ...]) -> bool:
        nonlocal left
        left -= 1
        return left >= 0 and fails(candidate)

    found = tuple(faults)
    if found and still(()):
        return ()
    parts = 2
    while len(found) > 1 and left > 0:
        size = -(-len(found) // parts)
        chunks = [found[i : i + size] for i in range(0, len(found), size)]
        for number in range(len(chunks)):
            rest = tuple(fault for i, chunk in enumerate(chunks) if i != number for fault in chunk)
            if still(rest):
                found, parts = rest, max(parts - 1, 2)
                break
        else:
            if size == 1:
                break
            parts = min(parts * 2, len(found))
    return _milder(found, still)


def _milder(faults: tuple[Fault, ...], still: Fails) -> tuple[Fault, ...]:
    """Each fault that lasts as short as will do, by halves."""
    for index, fault in enumerate(faults):
        seconds = fault.seconds
        while seconds > 1.0:
            seconds = round(seconds / 2, 1)
            candidate = (*faults[:index], replace(fault, seconds=seconds), *faults[index + 1 :])
            if not still(candidate):
                break
            faults = candidate
    return faults
