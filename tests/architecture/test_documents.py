"""Documents point at what is there."""

import re
from pathlib import Path

import pytest

from tests.architecture.source import ROOT, anchors, documents

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
