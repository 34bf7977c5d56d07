"""docs/reference is what the docstrings say. It is the list of what is public, too: a change of it is one for the users."""

import ast
import os

import pytest

from jobcommon.testutil.reference import WRITE, mentioned, pages
from tests.architecture.source import ROOT, modules, tree

REFERENCE = ROOT / "docs" / "reference"
PAGES = pages()
# A Cluster is an Endpoint to callers; an Env and a Timing give tests their clock; the others are parts of what is not for
# callers either.
NOT_PUBLIC = {"Cluster", "Env", "Identity", "JobState", "Templates", "Timing"}


@pytest.mark.parametrize("name", PAGES)
def test_the_public_names_are_those_of_the_reference(name: str) -> None:
    path = REFERENCE / name
    if os.environ.get("GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(PAGES[name], encoding="utf-8")
    changed = path.read_text(encoding="utf-8") != PAGES[name]
    assert not changed, f"the public names, or what is said of them, have changed: run {WRITE}, and tell users in CHANGELOG.md"


def test_there_is_no_other_page() -> None:
    assert {path.name for path in REFERENCE.iterdir()} == set(PAGES)


def test_types_in_public_signatures_are_public() -> None:
    library = [module for module in modules() if module.parts[0] == "jobcommon"]
    classes = {node.name for module in library for node in tree(module).body if isinstance(node, ast.ClassDef)}
    public = mentioned().keys()
    hidden = {name: found - public - NOT_PUBLIC for name, words in mentioned().items() if (found := words & classes)}
    assert {name: words for name, words in hidden.items() if words} == {}
