"""How the command begins: it prints its version without the modules of the commands, whose import takes most of their time."""

import os
import signal
import sys

INTERRUPTED = 128 + signal.SIGINT


def main(name: str | None = None) -> None:
    """The entry point, under the program's name or another one."""
    if sys.argv[1:] == ["--version"]:
        import jobcommon

        sys.stdout.write(f"jobcommon {jobcommon.__version__}\n")
        return
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # An exception could surface in the middle of an import. What runs something handles signals itself.
        signal.signal(signal.SIGINT, _leave)
    from jobcommon.cli.main import main as command

    command(name)


def _leave(_number: int, _frame: object) -> None:
    sys.stderr.write("interrupted; nothing is left running\n")
    sys.stderr.flush()
    os._exit(INTERRUPTED)
