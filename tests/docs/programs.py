"""What is wrong with a command of a document: the program that would run it parses it, and does not carry it out.

Each check returns what is wrong, or nothing.
"""

import importlib
import importlib.util
import re
import tomllib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import yaml
from typer.main import get_command

from jobcommon.cli.main import app
from tests.architecture.source import ROOT

COMMANDS: Mapping[str, Any] = get_command(app).commands  # type: ignore[attr-defined]


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
    """Its targets and variables exist."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
    wrong = [f"no target {word}" for word in words if "=" not in word and word not in targets]
    names = [word.partition("=")[0] for word in words if "=" in word]
    return ", ".join([*wrong, *(f"no variable {name}" for name in names if f"$({name})" not in makefile)])


def module(words: Sequence[str]) -> str:
    """``-m MODULE``: there is such a module; those of pytest's arguments that are files exist. ``-c`` is parsed."""
    option, name, *rest = words
    if option == "-c":
        compile(name, "-c", "exec")
        return ""
    if importlib.util.find_spec(name) is None:
        return f"no module {name}"
    return ", ".join(f"{word} does not exist" for word in rest if word.startswith("tests") and not (ROOT / word).exists())


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

    values: dict[str, Any] = {}
    for setting in (after for word, after in pairwise(words) if word == "--set"):
        path, _, value = setting.partition("=")
        *parents, last = path.split(".")
        node = values
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = value[1:-1].split(",") if value.startswith("{") else yaml.safe_load(value)
    try:
        for word in words:
            if word.startswith("charts/"):
                render(word.removeprefix("charts/"), **values)
    except library.HelmError as error:
        return str(error)
    return ""


def cosign(words: Sequence[str]) -> str:
    """Of this program only what the release is verified with: the workflow's own name is checked."""
    return "" if words[0] == "verify" and (ROOT / ".github/workflows/release.yml").exists() else "not known"


CHECKS = {
    "jobcommon": jobcommon,
    "make": make,
    "python": module,
    "pip": pip,
    "helm": helm,
    "kubectl": kubectl,
    "cosign": cosign,
}


def fault(words: Sequence[str]) -> str:
    """What is wrong with a command."""
    program, rest = words[0].rpartition("/")[2], words[1:]
    if program in CHECKS:
        return CHECKS[program](rest)
    return "" if program in ("export", "source", "true", "grep", "mkdir", "podman") else f"no test knows the program {program}"
