"""`import jobcommon` is the way in: for the operators, the documents and the examples, as for third parties."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobcommon.cli.new import Package
from tests.architecture.source import ROOT, documents, modules, tree

# The second is for authors of controllers of other objects; the kits are for tests.
SURFACES = ("jobcommon", "jobcommon.controller")
KITS = ("jobcommon.testutil", "jobcommon.operators")
# What a framework is made of has no clock, no chance and no I/O; import-linter does not see through the lazy front door.
PURE = ("jobcommon.api", "jobcommon.framework", "jobcommon.manifests", "jobcommon.spec")
HOMES = {
    alias.name: f"jobcommon.{node.module}"
    for node in ast.parse((ROOT / "jobcommon/__init__.pyi").read_text("utf-8")).body
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
}
OPERATORS = [module for module in modules() if module.parts[0] == "operators"]
FENCE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def imports(syntax: ast.AST) -> Iterator[tuple[str, str]]:
    """Every import of ours as module and name; an ``import module`` with the name ""."""
    for node in ast.walk(syntax):
        if isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)


def deep(syntax: ast.AST) -> list[str]:
    """The imports that go around the front door."""
    found = {module for module, _ in imports(syntax) if module.partition(".")[0] == "jobcommon"}
    return sorted(module for module in found if module not in SURFACES and not module.startswith(KITS))


def snippets() -> list[tuple[str, str]]:
    """Python that people read and copy: in documents, the examples, and the packages that `jobcommon new` makes."""
    shown = [(str(document), text) for document in documents() for text in FENCE.findall((ROOT / document).read_text("utf-8"))]
    examples = [(str(path.relative_to(ROOT)), path.read_text("utf-8")) for path in (ROOT / "examples").rglob("*.py")]
    package = Package.named("front-door", None, "example.com")
    made = [(name, text) for name, text in package.files().items() if name.startswith(package.module) and name.endswith(".py")]
    return [*shown, *examples, *made]


@pytest.mark.parametrize(("where", "text"), snippets(), ids=lambda value: value if "\n" not in value else "")
def test_examples_and_templates_import_from_jobcommon(where: str, text: str) -> None:
    assert deep(ast.parse(text)) == [], f"{where}: import from jobcommon (names and homes: jobcommon/__init__.pyi)"


@pytest.mark.parametrize("module", OPERATORS, ids=str)
def test_an_operator_uses_the_pure_names_only(module: Path) -> None:
    used = {name for home, name in imports(tree(module)) if home == "jobcommon"}
    assert {name: HOMES[name] for name in used if not HOMES[name].startswith(PURE)} == {}


def test_inside_the_library_imports_are_direct() -> None:
    """import-linter does not see what comes through the front door, so no module below it may use it."""
    library = [module for module in modules() if module.parts[0] != "operators"]
    found = {(m, name) for m in library for home, name in imports(tree(m)) if home == "jobcommon" and name in HOMES}
    assert found == set()
