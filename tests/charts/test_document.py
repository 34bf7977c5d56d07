"""docs/install.md says what is so."""

import re
from pathlib import Path

from jobcommon.runtime.metrics import Metrics

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "install.md").read_text(encoding="utf-8")


def test_every_metric_is_named_and_no_other() -> None:
    table = TEXT.partition("| metric |")[2].partition("\n\n")[0]
    named = {name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1] if "|" in row else "")}
    there = set()
    for family in Metrics(process=False).registry.collect():
        there.add(f"{family.name}_total" if family.type == "counter" else family.name)
    assert named == there
