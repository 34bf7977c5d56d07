"""The measured part of docs/performance.md."""

import re
from collections.abc import Sequence

from benchmarks import report
from benchmarks.processes import ROOT
from benchmarks.record import Results

DOCUMENT = ROOT / "docs" / "performance.md"
_BEGIN, _END = "<!-- measured: begin -->", "<!-- measured: end -->"


def write(runs: Sequence[Results]) -> None:
    """Put the runs' tables between the marks of the document. Raises ValueError without the marks."""
    text = DOCUMENT.read_text(encoding="utf-8")
    if _BEGIN not in text or _END not in text:
        raise ValueError(f"{DOCUMENT} has no lines {_BEGIN} and {_END}")
    parts = (
        part
        for run in runs
        for part in (
            f"### {run.server}{', beside another operator' if run.peers else ''}",
            report.tables(run),
            report.goal_table(run),
        )
    )
    body = "\n\n".join((_BEGIN, *filter(None, parts), _END))
    DOCUMENT.write_text(re.sub(f"{_BEGIN}.*{_END}", lambda _: body, text, flags=re.DOTALL), encoding="utf-8")
