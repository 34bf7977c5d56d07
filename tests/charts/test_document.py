"""docs/install.md says what is so."""

import re
from pathlib import Path

from jobcommon.cli.main import app
from jobcommon.runtime.metrics import Metrics

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "install.md").read_text(encoding="utf-8")


def test_every_metric_is_named_and_no_other() -> None:
    table = TEXT.partition("| metric |")[2].partition("\n\n")[0]
    named = {name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1] if "|" in row else "")}
    there = set()
    for family in Metrics(process=False).registry.collect():
        there.add(f"{family.name}_total" if family.type == "counter" else family.name)
    assert named == there


def test_commands_of_ours_exist() -> None:
    known = {command.name for command in app.registered_commands}
    assert set(re.findall(r"^jobcommon ([\w-]+)", TEXT, flags=re.MULTILINE)) <= known
    assert "release-finalizers" in known
