"""How the command begins: it prints its version without the modules of the commands, whose import takes most of their time."""

import sys


def main(name: str | None = None) -> None:
    """The entry point, under the program's name or another one."""
    if sys.argv[1:] == ["--version"]:
        import jobcommon

        sys.stdout.write(f"jobcommon {jobcommon.__version__}\n")
        return
    from jobcommon.cli.main import main as command

    command(name)
