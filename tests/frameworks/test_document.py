"""docs/new-framework.md is true: its snippets run, one after the other, and its framework is the operator of JAXJob."""

import re
from typing import Any

from jobcommon.framework import Framework
from tests.architecture.source import ROOT

TEXT = (ROOT / "docs/new-framework.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def test_the_snippets_run() -> None:
    names: dict[str, Any] = {}
    for snippet in SNIPPETS:
        exec(compile(snippet, "docs/new-framework.md", "exec"), names)
    assert len(SNIPPETS) == 7
    assert isinstance(names["JAX"], Framework)


def test_the_framework_is_the_operator() -> None:
    assert SNIPPETS[0] in (ROOT / "operators/jax/framework.py").read_text(encoding="utf-8")
