"""The command of a task: Polyaxon's ``cmd``, and the mpirun that its Horovod tasks were started by."""

import re
import shlex
from collections.abc import Sequence

from jobcommon.cli.convert.section import Section, scalar_text

SHELL = ["/bin/bash", "-c"]
_CONTINUATION = re.compile(r"\s*\\?\s*\n\s*")
_SHELL_CHARACTERS = frozenset(";&|<>()")


def read_command(section: Section) -> str | None:
    """``cmd`` as one line of shell: line breaks count as spaces, the entries of a list are joined with &&."""
    path, value = section.at("cmd"), section.take("cmd")
    if value is None:
        return None
    lines = [scalar_text(entry) for entry in (value if isinstance(value, list) else [value])]
    found = [_one_line(line) for line in lines if line is not None]
    if None in lines or not all(found):
        section.notes.error(path, "must be a shell line, or a list of shell lines")
        return None
    return " && ".join(found) or None


def mpirun(command: str, workers: Sequence[str], slots: int, *, gpu: bool) -> str:
    """The line that starts `slots` ranks of `command` here, from rank 0 on, and on each of `workers`.

    The hosts are listed as Polyaxon listed them, and the job's hostfile is not asked: "localhost" needs no ssh to oneself, for
    which the master runs no sshd, wherever mpirun does not know its own address for its own.

    mpirun starts one program: what only a shell understands is given to one on every rank. (Polyaxon appended it as it was, so
    that what followed a && ran once, outside of MPI.)
    """
    exported = " -x LD_LIBRARY_PATH" if gpu else ""
    program = f"{' '.join(SHELL)} {shlex.quote(command)}" if _needs_shell(command) else command
    hosts = ",".join(f"{host}:{slots}" for host in ("localhost", *workers))
    processes = (len(workers) + 1) * slots
    start = f"mpirun --allow-run-as-root -np {processes}{exported} --tag-output --default-hostfile none -H {hosts}"
    return f"{start} {program}"


def _one_line(text: str) -> str:
    return _CONTINUATION.sub(" ", text.strip()).rstrip("\\ ")


def _needs_shell(command: str) -> bool:
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    try:
        words = list(lexer)
    except ValueError:
        return True
    return "=" in words[0] or any(word and set(word) <= _SHELL_CHARACTERS for word in words)
