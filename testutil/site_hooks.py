"""Hooks of mkdocs: pages that stand outside docs/, and links to files of the repository that are no pages."""

import ast
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "examples/README.md": "examples.md",
    "localcluster/README.md": "localcluster/README.md",
    **{f"localcluster/docs/{name}.md": f"localcluster/{name}.md" for name in ("conformance", "decision", "embedded-cluster")},
}
"""By its path in the repository, the page of the site."""
_LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, *, config: Any) -> Files:
    """Add the pages that stand outside docs/."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Let links to those pages lead there; name other files of the repository without a link. Raises ValueError for neither."""
    at = page.file.src_uri
    source = next((Path(name) for name, shown in PAGES.items() if shown == at), Path("docs", at))

    def resolved(found: re.Match[str]) -> str:
        target = (ROOT / source.parent / found[1]).resolve()
        if not target.exists():
            raise ValueError(f"{source}: {found[1]} does not exist")
        inside = target.relative_to(ROOT)
        shown = PAGES.get(inside.as_posix())
        if shown is None and inside.parts[0] == "docs" and target.is_file():
            shown = Path(*inside.parts[1:]).as_posix()
        if shown is None:
            return "]"
        up = "../" * at.count("/")
        return f"]({up}{shown}{found[2] or ''})"

    def unlinked(text: str) -> str:
        # A link without a target keeps its text and tells where the file is.
        return re.sub(r"(?<!!)\[([^\]\[]+)\](?!\(|\[|:)", r"\1", text)

    # Words after the language tell tests what a block is; Python-Markdown would take such a line for text.
    markdown = re.sub(r"^(```\w+) [^\n]*$", r"\1", markdown, flags=re.MULTILINE)
    parts = re.split(r"(```.*?```)", markdown, flags=re.DOTALL)
    linked = "".join(part if part.startswith("```") else unlinked(_LINK.sub(resolved, part)) for part in parts)
    return linked.replace("::: jobcommon\n", _public_names())


def _public_names() -> str:
    """An entry for each name of the stub, which mkdocstrings takes for imported ones."""
    imports = [
        item for item in ast.parse((ROOT / "jobcommon/__init__.pyi").read_text()).body if isinstance(item, ast.ImportFrom)
    ]
    names = sorted((alias.name, item.module) for item in imports for alias in item.names)
    return "".join(f"::: jobcommon.{module}.{name}\n\n" for name, module in names)
