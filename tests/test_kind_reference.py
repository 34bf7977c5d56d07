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
