"""Standard output of the commands."""

import sys

from rich.console import Console

# A pipe has no width; tables must not be wrapped there.
PIPE_WIDTH = 240


def console() -> Console:
    """Standard output; a pipe gets plain lines."""
    return Console(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)
