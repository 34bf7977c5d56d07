"""What a bound on a rate promises, from the times at which things went through."""

from collections.abc import Sequence


def exceeds(times: Sequence[float], rate: float, burst: float) -> bool:
    """Whether any interval saw more than `burst` and what `rate` gives in its length."""
    return any(
        end - start + 1 > burst + (times[end] - times[start]) * rate + 1e-6
        for start in range(len(times))
        for end in range(start, len(times))
    )


def schedule(asked: Sequence[float], rate: float, burst: float) -> list[float]:
    """When each of those who ask at `asked` (ascending) goes through: as early as the bound lets the one after the other."""
    tokens, at, found = burst, asked[0] if asked else 0.0, []
    for when in asked:
        start = max(when, at)
        tokens = min(tokens + (start - at) * rate, burst)
        wait = max((1 - tokens) / rate, 0.0)
        tokens, at = tokens + wait * rate - 1, start + wait
        found.append(at)
    return found
