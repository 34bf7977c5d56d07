"""``make bench BENCH='--ablate NAME'``: the operator without one of its performance mechanisms.

A mechanism shows here what it is worth, once a release, or goes. ``python -m benchmarks.ablation NAME operator …`` runs the
command `jobcommon` without it.
"""

import sys
from collections.abc import Callable
from functools import partial

from jobcommon.cli.main import main as command
from jobcommon.controller import job_state
from jobcommon.controller.job_state import JobState
from jobcommon.reconcile.plan import Plan
from jobcommon.runtime import executor, flow_control


def _one_queue_level() -> None:
    JobState.level = property(lambda _: job_state.QueueLevel.RUNNING)  # type: ignore[assignment, method-assign]


def _not_in_the_background() -> None:
    Plan.background = property(lambda _: ())  # type: ignore[assignment, method-assign]


MECHANISMS: dict[str, tuple[str, Callable[[], None]]] = {
    "shares": ("bulk and background requests may hold all seats", partial(setattr, flow_control, "SHARE", 1)),
    "levels": ("no request is bulk", partial(setattr, executor, "BULK_ACTIONS", sys.maxsize)),
    "queue-levels": ("all jobs wait at one level of the work queue", _one_queue_level),
    "batching": ("new counts of pods are written at once", partial(setattr, job_state, "COUNTS_DELAY", 0.0)),
    "cooldown": ("a job is planned at once, whatever its last plan cost", partial(setattr, job_state, "MAX_COOLDOWN", 0.0)),
    "background": ("finalizers are removed before the status is written", _not_in_the_background),
}
"""By name: what is different without the mechanism, and how it is taken out."""


def main() -> None:
    """Take the mechanism out and run the command. Raises KeyError for a name that is not in `MECHANISMS`."""
    _, take_out = MECHANISMS[sys.argv.pop(1)]
    take_out()
    command()


if __name__ == "__main__":
    main()
