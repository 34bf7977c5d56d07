"""What is wrong with a command of a document: the program that would run it parses it, and does not carry it out.

Each check returns what is wrong, or nothing. Only make runs: dry.
"""

import argparse
import importlib
import importlib.util
import io
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

from typer.main import get_command

from jobcommon.cli.main import app
from tests.architecture.source import ROOT
from tests.docs.blocks import simple_commands

COMMANDS: Mapping[str, Any] = get_command(app).commands  # type: ignore[attr-defined]
# What is said to a command that was understood: the name of the example is in capitals.
UNDERSTOOD = re.compile(r"names no program that can be run|invalid choice: '[A-Z]+'")


class Parsed(Exception):  # noqa: N818  it is no error
    """A program has parsed its arguments."""


def jobcommon(words: Sequence[str], *, placeholders: bool = False) -> str:
    """Ours. In running text values are names such as FILE, and some may be missing: there the options must exist."""
    name, *rest = words
    if name.startswith("-"):
        return "" if name in {"--version", "--help", "--install-completion"} else f"no option {name}"
    if name not in COMMANDS:
        return "" if placeholders and name.isupper() else f"no command {name}"
    if placeholders:
        given = [word.partition("=")[0] for word in rest[: rest.index("--") if "--" in rest else None] if word[0] == "-"]
        there = {"--help", "-"}.union(*([*found.opts, *found.secondary_opts] for found in COMMANDS[name].params))
        return ", ".join(f"no option {option}" for option in given if option not in there)
    try:
        COMMANDS[name].make_context(name, list(rest))
    except Exception as error:  # Typer's, which are not public, and those of the types of options
        return f"{type(error).__name__}: {error}"
    return ""


def kubectl(words: Sequence[str]) -> str:
    """The plugin is ours."""
    return jobcommon(words[1:]) if words[0] == "train" else ""


def make(words: Sequence[str]) -> str:
    """Its targets and variables exist; what it would run is correct, too."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    if unused := [name for word in words if "=" in word and f"$({(name := word.partition('=')[0])})" not in makefile]:
        return f"no variable {unused}"
    done = subprocess.run(["make", "--dry-run", *words], cwd=ROOT, capture_output=True, text=True, timeout=120)
    if done.returncode:
        return done.stderr
    ours = [line for line in done.stdout.splitlines() if re.search(r"python -m (jobcommon|benchmarks)", line)]
    return "".join(module(found[1:]) for line in ours for found in simple_commands(line) if found[1:2] == ["-m"])


def module(words: Sequence[str]) -> str:
    """``-m MODULE``: a module of ours parses its arguments; those of pytest are files."""
    _, name, *rest = words
    if name in ("pytest", "pip"):
        return ", ".join(f"{word} does not exist" for word in rest if word.startswith("tests") and not (ROOT / word).exists())
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations:
        spec = importlib.util.find_spec(f"{name}.__main__")
    if spec is None or spec.origin is None:
        return f"no module {name}"
    source = Path(spec.origin).read_text(encoding="utf-8")
    if "parse_args(" not in source:
        return f"{name} takes no arguments" if rest and "sys.argv" not in source else ""
    return _parsed(importlib.import_module(spec.name).main, [name, *rest])


def _parsed(main: Callable[[], object], argv: list[str]) -> str:
    parse = argparse.ArgumentParser.parse_args

    def and_no_more(*arguments: Any, **more: Any) -> None:
        parse(*arguments, **more)
        raise Parsed

    said = io.StringIO()
    with patch.object(argparse.ArgumentParser, "parse_args", and_no_more), patch.object(sys, "argv", argv):
        try:
            with redirect_stderr(said), redirect_stdout(said):
                main()
        except Parsed:
            return ""
        except SystemExit as ended:
            return said.getvalue() if ended.code and not UNDERSTOOD.search(said.getvalue()) else ""
    return f"{argv[0]} did not parse its arguments"


def pip(words: Sequence[str]) -> str:
    """Our extras exist."""
    found = []
    for named, folder in ((r"(?:jobcommon|\.)\[([\w,]+)\]", "."), (r"\./localcluster\[([\w,]+)\]", "localcluster")):
        project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        extras = {extra for word in words for given in re.findall(f"^{named}$", word) for extra in given.split(",")}
        found += [f"no extra {extra}" for extra in extras - project["optional-dependencies"].keys()]
    return ", ".join(found)


def helm(words: Sequence[str]) -> str:
    """The charts render with what is set."""
    from tests.charts.charts import helm as library
    from tests.charts.charts import render
    from tests.migration.helm_command import parsed, values

    try:
        given = parsed(words)
        if given.command == "install":
            render(Path(given.chart).relative_to("charts").name, given.name, given.namespace, **values(given.set))
    except (SystemExit, library.HelmError, ValueError) as error:
        return str(error)
    return ""


CHECKS = {"jobcommon": jobcommon, "make": make, "python": module, "pip": pip, "helm": helm, "kubectl": kubectl}


def fault(words: Sequence[str]) -> str:
    """What is wrong with a command."""
    program, rest = words[0].rpartition("/")[2], words[1:]
    if program in CHECKS:
        return CHECKS[program](rest)
    return "" if program in ("export", "source", "true", "grep", "podman") else f"no test knows the program {program}"
