"""The project's own source as these tests see it."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("jobcommon", "operators", "localcluster/localcluster", "testutil", "cli")


def modules() -> list[Path]:
    """Every module of the packages, relative to the root."""
    return sorted(path.relative_to(ROOT) for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


@cache
def tree(module: Path) -> ast.Module:
    """The syntax tree of a module named relative to the root."""
    return ast.parse((ROOT / module).read_text(encoding="utf-8"), str(module))


def functions(module: Path) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function and method with its dotted name inside the module."""

    def visit(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{prefix}{child.name}", child
                yield from visit(child, f"{prefix}{child.name}.")
            elif isinstance(child, ast.ClassDef):
                yield from visit(child, f"{prefix}{child.name}.")
            else:
                yield from visit(child, prefix)

    return visit(tree(module), "")


def documents() -> list[Path]:
    """Every Markdown document of the project, relative to the root."""
    folders = ("docs", "examples", "charts", "benchmarks", "localcluster/docs", "localcluster/examples")
    found = [
        *ROOT.glob("*.md"),
        *ROOT.glob("localcluster/*.md"),
        *(path for folder in folders for path in (ROOT / folder).rglob("*.md")),
    ]
    return sorted(path.relative_to(ROOT) for path in found)


def anchors(document: Path) -> set[str]:
    """The anchors that a document's headings make, as GitHub derives them."""
    text = (ROOT / document).read_text(encoding="utf-8")
    headings = re.findall(r"^#+\s+(.*)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
