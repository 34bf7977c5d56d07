"""How many inputs: a few thousand in CI, over a million with PROFILE=full (`make fuzz`). Seeds are fixed."""

import os

from hypothesis import HealthCheck, Phase, settings

FULL = os.environ.get("PROFILE") == "full"
SHARE = int(os.environ.get("EXAMPLES", "4000"))


def examples(in_ci: int, shares: float) -> settings:
    """Settings for a test that is cheap enough for so many examples in CI, and for so many shares of a full run."""
    return settings(
        max_examples=int(shares * SHARE) if FULL else in_ci,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
