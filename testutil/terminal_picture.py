"""A picture of a terminal: what a command prints, as SVG.

::

    python -m jobcommon.testutil.terminal_picture docs/demo.svg "make demo" jobcommon run -f examples/pytorch/digits.yaml
"""

import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

WIDTH = 120
MOST_LINES = 30


def printed(command: list[str]) -> list[str]:
    """The lines that `command` prints without a terminal, which has no display that changes. Raises CalledProcessError."""
    environ = {**os.environ, "COLUMNS": str(WIDTH)}
    done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True)  # noqa: S603
    return done.stdout.rstrip().split("\n")


def picture(lines: list[str], title: str) -> str:
    """The picture, of the first and last lines if there are too many."""
    half = MOST_LINES // 2
    shown = lines if len(lines) <= MOST_LINES else [*lines[:half], "…", *lines[-half:]]
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=WIDTH, file=nowhere)
        for line in shown:
            console.print(Text(line), overflow="ellipsis", no_wrap=True)
    # No font from another site: a picture in a page must not load anything.
    return re.sub(r"@font-face \{.*?\}\s*", "", console.export_svg(title=title, unique_id="terminal"), flags=re.DOTALL)


def main() -> None:
    """Run the command and write its picture."""
    path, title, *command = sys.argv[1:]
    Path(path).write_text(picture(printed(command), title), encoding="utf-8")


if __name__ == "__main__":
    main()
