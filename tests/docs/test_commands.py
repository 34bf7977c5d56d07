"""Every command of the documents is one that its program understands: no command, option or file of ours that is gone."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.architecture.source import documents
from tests.docs.blocks import Block, blocks, inline_code, simple_commands
from tests.docs.programs import CHECKS, fault, jobcommon

BLOCKS = blocks()
SHELL = [block for block in BLOCKS if block.language == "sh"]
# Outputs begin with the command that printed them.
PRINTED_BY = re.compile(r"^(make|python -m|jobcommon|kubectl) .*", re.MULTILINE)
INLINE = re.compile(r"(\.venv[\w-]*/bin/)?(jobcommon|localcluster|kubectl train|make|python -m|pip install) ")
# For the directory of a package that `jobcommon new` made.
OF_A_PACKAGE = {"make test JOBCOMMON=DIRECTORY", "make generate"}


def faults(script: str) -> list[str]:
    return [f"{shlex.join(words)}: {found}" for words in simple_commands(script) if (found := fault(words))]


def test_blocks_of_commands_are_shell() -> None:
    script = "\n".join(f"function f{i} {{\n{block.text}\n}}" for i, block in enumerate(SHELL))
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("block", SHELL, ids=str)
def test_commands_are_understood(block: Block) -> None:
    assert faults(block.text) == []


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "text"], ids=str)
def test_commands_above_their_output_are_understood(block: Block) -> None:
    assert faults("\n".join(found[0] for found in PRINTED_BY.finditer(block.text))) == []


@pytest.mark.parametrize("document", documents(), ids=str)
def test_commands_in_running_text_are_understood(document: Path) -> None:
    found = []
    for code in inline_code(document):
        if INLINE.match(code) and code not in OF_A_PACKAGE:
            words = next(simple_commands(re.sub(r"\[[A-Z.]+\]", "", code)))
            found += [f"{code}: {wrong}" for wrong in [in_text(words)] if wrong]
    assert found == []


def in_text(words: list[str]) -> str:
    program, *rest = words
    program = program.rpartition("/")[2]
    if program in ("jobcommon", "kubectl"):
        return jobcommon(rest if program == "jobcommon" else rest[1:], placeholders=True)
    return CHECKS[program]([*rest[:2], "--help"] if "…" in rest else rest)
