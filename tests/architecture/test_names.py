"""A module is named by the concept it holds. A module named after nothing collects everything."""

from pathlib import Path

import pytest

from tests.architecture.source import ROOT, modules

NAMELESS = {"util", "utils", "common", "helper", "helpers", "base", "misc", "shared", "tools", "manager_utils", "types"}


@pytest.mark.parametrize("module", modules(), ids=str)
def test_module_is_named_by_its_concept(module: Path) -> None:
    assert not NAMELESS & {part.removesuffix(".py") for part in module.parts}


@pytest.mark.parametrize("module", [m for m in modules() if (ROOT / m).read_text(encoding="utf-8").strip()], ids=str)
def test_module_says_what_it_is(module: Path) -> None:
    first = (ROOT / module).read_text(encoding="utf-8").lstrip()
    assert first.startswith(('"""', 'r"""', "#!")), "begin with a docstring: what this module is"
