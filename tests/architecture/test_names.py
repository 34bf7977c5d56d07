"""A module is named by the concept it holds. A module named after nothing collects everything."""

from tests.architecture.source import ROOT, modules

NAMELESS = {"util", "utils", "common", "helper", "helpers", "base", "misc", "shared", "tools", "manager_utils", "types"}


def test_modules_are_named_by_their_concepts() -> None:
    assert [module for module in modules() if NAMELESS & {part.removesuffix(".py") for part in module.parts}] == []


def test_modules_say_what_they_are() -> None:
    texts = {module: (ROOT / module).read_text(encoding="utf-8").lstrip() for module in modules()}
    silent = [str(module) for module, text in texts.items() if text and not text.startswith(('"""', 'r"""', "#!"))]
    assert silent == [], "begin with a docstring: what this module is"
