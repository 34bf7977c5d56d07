"""``kubectl train``: the command as a plugin of kubectl, and its completion.

kubectl starts ``kubectl-train`` for ``kubectl train``, and ``kubectl_complete-train`` to complete its arguments.
"""

import os
import shlex
import sys

from jobcommon.cli import PLUGIN
from jobcommon.cli.start import main


def train() -> None:
    """The entry point of ``kubectl-train``."""
    main(PLUGIN)


def complete() -> None:
    """The entry point of ``kubectl_complete-train``: one completion a line, then kubectl's directive.

    The completions are those for bash. 0 lets the shell take the names of files where there are none.
    """
    name, *words, incomplete = "kubectl_train", *(sys.argv[1:] or [""])
    given = f"{shlex.join([name, *words])} {incomplete}"
    os.environ |= {f"_{name.upper()}_COMPLETE": "complete_bash", "COMP_WORDS": given, "COMP_CWORD": str(len(words) + 1)}
    try:
        main(name)
    finally:
        sys.stdout.write(":0\n")
