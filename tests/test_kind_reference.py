"""docs/kinds is what the models say."""

import os

import pytest

from jobcommon.cli.frameworks import installed
from jobcommon.testutil.kind_reference import WRITE, pages
from tests.architecture.source import ROOT

KINDS = ROOT / "docs" / "kinds"
PAGES = pages(installed().values())


@pytest.mark.parametrize("name", PAGES)
def test_the_page_of_a_kind_is_written_from_its_model(name: str) -> None:
    path = KINDS / name
    if os.environ.get("GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(PAGES[name], encoding="utf-8")
    assert path.read_text(encoding="utf-8") == PAGES[name], f"the model has changed: run {WRITE}"


def test_there_is_no_other_page() -> None:
    assert {path.name for path in KINDS.iterdir()} == set(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_every_field_is_described(name: str) -> None:
    rows = [line for line in PAGES[name].splitlines() if line.startswith("| `")]
    assert len(rows) > 30
    assert [row for row in rows if row.endswith("|  |") and row.split("`")[1] not in ("spec", "status")] == []
