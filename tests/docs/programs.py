"""What is wrong with a command of a document: it is parsed by the program that would run it, and not carried out.

Each check returns what is wrong, or nothing. Only kubectl runs, on a kubeconfig that leads nowhere.
"""

import argparse
import importlib.util
import io
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

from typer.main import get_command

from jobcommon.cli.main import app
from tests.architecture.source import ROOT
from tests.cli.commands import kubectl_path
from tests.docs.blocks import simple_commands

COMMANDS: Mapping[str, Any] = get_command(app).commands  # type: ignore[attr-defined]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
# Nothing listens there.
NOWHERE = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
"""
# What is said to a command that was understood: there is no server, or not the file of the example; the name is in capitals.
UNDERSTOOD = re.compile(
    r"was refused|EOF$|the path \"[\w.-]+\" does not exist|no objects passed to apply"
    r"|names no program that can be run|invalid choice: '[A-Z]+'",
    re.MULTILINE,
)


class Parsed(Exception):  # noqa: N818  it is no error
    """A program has parsed its arguments."""


def jobcommon(words: Sequence[str], *, placeholders: bool = False) -> str:
    """Ours. In running text values are names such as FILE, and some may be missing: there the options must exist."""
    if not words or words[0].startswith("-"):
        known = {"--version", "--help", "-h", "--install-completion", "--show-completion"}
        return "" if set(words) <= known else f"no option {words}"
    name, *rest = words
    if placeholders and name.isupper():
        return ""
    if name not in COMMANDS:
        return f"no command {name}"
    command = COMMANDS[name]
    if placeholders:
        given = [word.partition("=")[0] for word in rest[: rest.index("--") if "--" in rest else None] if word[0] == "-"]
        there = {"--help", "-"}.union(*([*found.opts, *found.secondary_opts] for found in command.params))
        return ", ".join(f"no option {option}" for option in given if option not in there)
    try:
        command.make_context(name, list(rest))
    except Exception as error:  # Typer's, which are not public, and those of the types of options
        return f"{type(error).__name__}: {error}"
    return ""


def kubectl(words: Sequence[str], kubeconfig: Path) -> str:
    """The plugin is ours."""
    if words[0] == "train":
        return jobcommon(words[1:])
    kubeconfig.write_text(NOWHERE)
    env = {"PATH": os.environ["PATH"], "HOME": str(kubeconfig.parent), "KUBECONFIG": str(kubeconfig)}
    argv = [kubectl_path(), *words]
    done = subprocess.run(argv, cwd=ROOT, env=env, input="", capture_output=True, text=True, timeout=120)
    return "" if done.returncode == 0 or UNDERSTOOD.search(done.stderr) else done.stderr


def make(words: Sequence[str]) -> str:
    """Its targets and variables exist; what it would run is correct, too."""
    variables = [word.partition("=")[0] for word in words if "=" in word]
    if unused := [name for name in variables if f"$({name})" not in MAKEFILE and f"$(if $({name})" not in MAKEFILE]:
        return f"no variable {unused}"
    done = subprocess.run(["make", "--dry-run", *words], cwd=ROOT, capture_output=True, text=True, timeout=120)
    if done.returncode:
        return done.stderr
    ours = [line for line in done.stdout.splitlines() if re.search(r"python -m (jobcommon|benchmarks)", line)]
    return "".join(module(found[2:]) for line in ours for found in simple_commands(line) if found[1:2] == ["-m"])


def python(words: Sequence[str], **_: object) -> str:
    """``python -m MODULE``."""
    if words[0] != "-m":
        return "" if words[0] == "-u" else f"no check for python {words[0]}"
    return module(words[1:])


def module(words: Sequence[str]) -> str:
    """A module of ours parses its arguments; pytest's are files."""
    name, *rest = words
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
    said = io.StringIO()
    with _only_parsing(), patch.object(sys, "argv", [name, *rest]), redirect_stderr(said), redirect_stdout(said):
        try:
            importlib.import_module(spec.name).main()
        except Parsed:
            return ""
        except SystemExit as ended:
            return said.getvalue() if ended.code and not UNDERSTOOD.search(said.getvalue()) else ""
    return f"{name} did not parse its arguments"


@contextmanager
def _only_parsing() -> Iterator[None]:
    parse = argparse.ArgumentParser.parse_args

    def parsed(*arguments: Any, **more: Any) -> None:
        parse(*arguments, **more)
        raise Parsed

    with patch.object(argparse.ArgumentParser, "parse_args", parsed):
        yield


def pip(words: Sequence[str]) -> str:
    """Our extras exist."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = re.findall(r"jobcommon\[(\w+)\]", " ".join(words))
    return ", ".join(f"no extra {extra}" for extra in extras if extra not in project["optional-dependencies"])


def helm(words: Sequence[str]) -> str:
    """The charts render with what is set."""
    from tests.charts.charts import helm as library
    from tests.charts.charts import render
    from tests.migration.helm_command import parsed, values

    if words == ["template"]:
        return ""
    try:
        given = parsed(words)
        if given.command == "install":
            render(Path(given.chart).name, given.name, given.namespace, **values(given.set))
    except (SystemExit, library.HelmError) as error:
        return str(error)
    return "" if given.command == "uninstall" or given.chart.startswith("charts/") else f"no chart {given.chart}"


def podman(words: Sequence[str]) -> str:
    """The Containerfile takes these arguments."""
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    given = [after.partition("=")[0] for word, after in pairwise(words) if word == "--build-arg"]
    return ", ".join(f"no ARG {name}" for name in given if f"ARG {name}\n" not in text)


@cache
def _checks() -> Mapping[str, Callable[[Sequence[str]], str]]:
    return {"jobcommon": jobcommon, "make": make, "python": python, "pip": pip, "helm": helm, "podman": podman}


def fault(words: Sequence[str], kubeconfig: Path) -> str:
    """What is wrong with a command."""
    program, *rest = words
    if program in ("export", "true", "grep"):
        return ""
    if program == "kubectl":
        return kubectl(rest, kubeconfig)
    check = _checks().get(program.rpartition("/")[2])
    return check(rest) if check else f"no test knows the program {program}"
