"""How many examples: a few hundred steps' worth in CI, 10,000 each with PROFILE=full (`make properties`). Seeds are fixed."""

import os

from hypothesis import HealthCheck, Phase, settings

FULL = os.environ.get("PROFILE") == "full"
EXAMPLES = int(os.environ.get("EXAMPLES", "10000")) if FULL else 0
STEPS = 100 if FULL else 50
# A fixed seed makes what was found before come again by itself, so nothing is stored.
PHASES = (Phase.explicit, Phase.generate, Phase.shrink)


def examples(in_ci: int) -> settings:
    """Settings for a test or a machine whose examples are cheap enough for so many in CI."""
    return settings(
        max_examples=EXAMPLES or in_ci,
        stateful_step_count=STEPS,
        derandomize=True,
        database=None,
        deadline=None,
        phases=PHASES,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
