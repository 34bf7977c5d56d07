"""The command of a task: Polyaxon's ``cmd``, and the mpirun that its Horovod tasks were started by."""

import re
import shlex

from jobcommon.convert.section import Section, scalar_text

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
        section.notes.error(path, "must be a line of shell, or a list of them")
        return None
    return " && ".join(found) or None


def mpirun(command: str, processes: int, *, gpu: bool) -> str:
    """The line that starts `processes` ranks of `command`. The hosts come from the job's hostfile.

    mpirun starts one program: what only a shell understands is given to one on every rank. (Polyaxon appended it as it was, so
    that what followed a && ran once, outside of MPI.)
    """
    exported = " -x LD_LIBRARY_PATH" if gpu else ""
    program = f"{' '.join(SHELL)} {shlex.quote(command)}" if _needs_shell(command) else command
    return f"mpirun --allow-run-as-root -np {processes}{exported} --tag-output {program}"


def _one_line(text: str) -> str:
    return _CONTINUATION.sub(" ", text.strip()).rstrip("\\ ")


def _needs_shell(command: str) -> bool:
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    try:
        words = list(lexer)
    except ValueError:
        return True
    return "=" in words[0] or any(word and set(word) <= _SHELL_CHARACTERS for word in words)
