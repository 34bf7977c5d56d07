"""The commands and manifests of the documents are checked; Python by tests of the pages."""

import importlib
import importlib.util
import pkgutil
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from typer.main import get_command

from jobcommon.cli.frameworks import of_manifest
from jobcommon.cli.main import app
from tests.architecture.source import ROOT, anchors, documents
from tests.cli.commands import answered, kubectl_path
from tests.docs.blocks import Block, blocks, inline_code, simple_commands

BLOCKS = blocks()
#: Values of a chart, a rule of an alert and a policy, which tests/charts applies.
OF_CHARTS = (Path("docs/production.md"),)
YAML = [block for block in BLOCKS if block.language == "yaml" and block.document not in OF_CHARTS]


@pytest.mark.parametrize("block", YAML, ids=str)
def test_manifests_can_be_applied_as_they_stand(block: Block, tmp_path: Path) -> None:
    assert not block.words, "readers do not see what stands after yaml: write the whole object"
    for body in yaml.safe_load_all(block.text):
        assert body["metadata"]["name"] if body["kind"] != "Kustomization" else body["resources"]
        if body["kind"] == "Kustomization":
            kustomized = built(block.text, tmp_path)
            assert {found["metadata"]["namespace"] for found in kustomized} == {body["namespace"]}
            assert body["images"][0]["newName"] in str(kustomized)
        elif of_manifest(body) is None:
            kubernetes_validate.validate(body, "1.36", strict=True)
        else:
            (tmp_path / "manifest.yaml").write_text(block.text)
            done = answered("plan", "-f", str(tmp_path / "manifest.yaml"))
            assert done.returncode == 0, done.stderr
            assert "InvalidSpec" not in done.stdout


def built(kustomization: str, directory: Path) -> list[dict[str, Any]]:
    """What kubectl makes of a kustomization beside a checkout of this repository."""
    (directory / "jobcommon").symlink_to(ROOT)
    (directory / "overlay").mkdir()
    (directory / "overlay" / "kustomization.yaml").write_text(kustomization)
    argv = [kubectl_path(), "kustomize", directory / "overlay"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


PATH = re.compile(r"((jobcommon|operators|localcluster|testutil|cli|tests|charts|examples|benchmarks|docs)/[\w./-]*)(:.*)?")
NAME = re.compile(r"(jobcommon(?:\.[A-Za-z_]\w*)+)(\(.*\))?")
NO_MODULE = {"jobcommon.frameworks"}
"""A group of entry points."""


@pytest.mark.parametrize("document", documents(), ids=str)
def test_files_and_names_in_running_text_exist(document: Path) -> None:
    code = list(inline_code(document))
    paths = {found[1] for text in code if (found := PATH.fullmatch(text))}
    names = {found[1] for text in code if (found := NAME.fullmatch(text))} - NO_MODULE
    assert {path for path in paths if not (ROOT / path).exists()} == set()
    assert {name for name in names if not exists(name)} == set()


def exists(name: str) -> bool:
    """Whether there is such a module, or such a name in one."""
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


# -- Every command of the documents is one that its program understands: no command, option or file of ours that is gone

SHELL = [block for block in BLOCKS if block.language == "sh"]


def faults(script: str) -> list[str]:
    return [f"{shlex.join(words)}: {found}" for words in simple_commands(script) if (found := fault(words))]


def test_blocks_of_commands_are_shell() -> None:
    script = "\n".join(f"function f{i} {{\n{block.text}\n}}" for i, block in enumerate(SHELL))
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("block", SHELL, ids=str)
def test_commands_are_understood(block: Block) -> None:
    assert faults(block.text) == []


# -- Documents point at what is there

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


@pytest.mark.parametrize("document", documents(), ids=str)
def test_links_lead_somewhere(document: Path) -> None:
    broken = []
    for target in LINK.findall((ROOT / document).read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (ROOT / document.parent / path).resolve() if path else ROOT / document
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file.relative_to(ROOT))):
            broken.append(target)
    assert not broken


# -- What is wrong with a command of a document: the program that would run it parses it, and does not carry it out

COMMANDS: Mapping[str, Any] = get_command(app).commands  # type: ignore[attr-defined]


def ours(words: Sequence[str]) -> str:
    name, *rest = words
    if name.startswith("-"):
        return "" if name in {"--version", "--help", "--install-completion"} else f"no option {name}"
    if name not in COMMANDS:
        return f"no command {name}"
    try:
        COMMANDS[name].make_context(name, list(rest))
    except Exception as error:  # Typer's, which are not public, and those of the types of options
        return f"{type(error).__name__}: {error}"
    return ""


def kubectl(words: Sequence[str]) -> str:
    """The plugin is ours."""
    return ours(words[1:]) if words[0] == "train" else ""


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


CHECKS = {
    "jobcommon": ours,
    "make": make,
    "python": module,
    "helm": helm,
    "kubectl": kubectl,
}


def fault(words: Sequence[str]) -> str:
    """What is wrong with a command."""
    program, rest = words[0].rpartition("/")[2], words[1:]
    if program in CHECKS:
        return CHECKS[program](rest)
    return (
        ""
        if program in ("export", "source", "true", "grep", "mkdir", "podman", "pip", "cosign")
        else f"no test knows the program {program}"
    )
