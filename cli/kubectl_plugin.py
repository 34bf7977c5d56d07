"""``kubectl train``: the command as a plugin of kubectl, and its completion.

kubectl starts ``kubectl-train`` for ``kubectl train``, and ``kubectl_complete-train`` to complete its arguments.
"""

import sys
from collections.abc import Mapping

from jobcommon.cli import PLUGIN
from jobcommon.cli.start import main

# kubectl's directive after the completions: do not add the names of files.
NO_FILES = 4
_FILES = 0
_TAKE_FILES = ("-f", "--filename", "--kubeconfig", "--include", "-o", "--output")


def train() -> None:
    """The entry point of ``kubectl-train``."""
    main(PLUGIN)


def complete() -> None:
    """The entry point of ``kubectl_complete-train``: one completion a line, then kubectl's directive."""
    *words, incomplete = sys.argv[1:] or [""]
    for line in completions(words, incomplete):
        sys.stdout.write(f"{line}\n")
    files = bool(words) and words[-1] in _TAKE_FILES
    sys.stdout.write(f":{_FILES if files else NO_FILES}\n")


def completions(words: list[str], incomplete: str) -> list[str]:
    """What may follow `words`, with its help after a tab."""
    from typer.main import get_command

    from jobcommon.cli.jobs.completion import job_names
    from jobcommon.cli.main import app

    commands = get_command(app).commands  # type: ignore[attr-defined]
    name = next((word for word in words if word in commands), None)
    if name is None:
        return _starting(incomplete, {each: command.short_help or "" for each, command in commands.items()})
    options = {
        option: parameter for parameter in commands[name].params for option in (*parameter.opts, *parameter.secondary_opts)
    }
    taken = options.get(words[-1])
    if taken is not None and taken.param_type_name == "option" and not taken.is_flag:
        return []
    if incomplete.startswith("-"):
        return _starting(incomplete, {o: p.help or "" for o, p in options.items() if o.startswith("--")})
    takes_job = any(parameter.name == "job" for parameter in commands[name].params)
    return job_names(incomplete) if takes_job and words[-1] == name else []


def _starting(incomplete: str, helps: Mapping[str, str]) -> list[str]:
    return [f"{word}\t{text}" if text else word for word, text in helps.items() if word.startswith(incomplete)]
