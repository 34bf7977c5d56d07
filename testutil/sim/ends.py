"""How the pods of a job have ended, as the watchdog counts it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Ends:
    """What is known of the ended pods of one job so far; see `testutil.sim.oracles`. `disrupted` are UIDs."""

    failed_runs: int = 0
    ended_early: int = 0
    disrupted: frozenset[str] = frozenset()
