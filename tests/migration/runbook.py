"""The commands of docs/migration.md, as an administrator of one old operator and one way of installing runs them."""

import re
from dataclasses import dataclass

from tests.cli.commands import ROOT

DOCUMENT = ROOT / "docs" / "migration.md"
OPERATORS = ("training-operator", "mpi-operator")
INSTALLERS = ("helm", "kubectl")
_BLOCK = re.compile(r"^## (?P<heading>[^\n]+)$|^```sh ?(?P<words>[^\n]*)\n(?P<commands>.*?)^```$", re.MULTILINE | re.DOTALL)
_EXITS = re.compile(r"^# exits with (\d)")


@dataclass(frozen=True)
class Block:
    """Some commands below a heading, and the exit code that the text announces."""

    heading: str
    commands: str
    code: int = 0


def blocks(operator: str, installer: str) -> list[Block]:
    """Those for the old `operator` and the `installer`; a block without words about either is for all."""
    found, heading = [], ""
    for match in _BLOCK.finditer(DOCUMENT.read_text(encoding="utf-8")):
        heading = match["heading"] or heading
        words = set((match["words"] or "").split())
        others = {*OPERATORS, *INSTALLERS} - {operator, installer}
        if match["commands"] and not words & others:
            announced = _EXITS.match(match["commands"])
            found.append(Block(heading, match["commands"], int(announced[1]) if announced else 0))
    return found
