"""Documents point at what is there."""

import re
from pathlib import Path

import pytest

from tests.architecture.source import ROOT, anchors, documents, modules

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


def test_every_document_can_be_found_from_the_readme() -> None:
    reached, todo = set[Path](), [Path("README.md")]
    while todo:
        document = todo.pop()
        reached.add(document)
        for target in LINK.findall((ROOT / document).read_text(encoding="utf-8")):
            path = target.partition("#")[0]
            if path.endswith(".md") and ":" not in path:
                linked = (ROOT / document.parent / path).resolve().relative_to(ROOT)
                if linked not in reached and (ROOT / linked).exists():
                    todo.append(linked)
    assert set(documents()) <= reached


def test_every_rule_that_is_cited_is_defined() -> None:
    defined = set(re.findall(r"^\| (R\d+) \|", (ROOT / "docs/rules.md").read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert len(defined) == 20
    cited = {
        rule: module
        for module in modules()
        for rule in re.findall(r"\brules? (R\d+)\b", (ROOT / module).read_text(encoding="utf-8"))
    }
    assert {rule: str(module) for rule, module in cited.items() if rule not in defined} == {}
