"""``make bench BENCH='--ablate NAME'``: the operator without one of its performance mechanisms.

A mechanism shows here what it is worth, once a release, or goes. ``python -m benchmarks.ablation NAME operator …`` runs the
command `jobcommon` without it.
"""

import sys
from functools import partial

from jobcommon.cli.main import main as command
from jobcommon.runtime import executor, flow_control

MECHANISMS: dict[str, tuple[str, partial[None]]] = {
    "shares": ("bulk and background requests may hold all seats", partial(setattr, flow_control, "SHARE", 1)),
    "levels": ("no request is bulk", partial(setattr, executor, "BULK_ACTIONS", sys.maxsize)),
}
"""By name: what is different without the mechanism, and how it is taken out."""


def main() -> None:
    """Take the mechanism out and run the command. Raises KeyError for a name that is not in `MECHANISMS`."""
    _, take_out = MECHANISMS[sys.argv.pop(1)]
    take_out()
    command()


if __name__ == "__main__":
    main()
