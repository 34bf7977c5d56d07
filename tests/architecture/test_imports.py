"""import-linter's contracts cover what exists: a package or operator that is added later cannot stay outside them."""

import configparser
from pathlib import Path

import grimp

from tests.architecture.source import PACKAGES, ROOT


def contracts() -> configparser.ConfigParser:
    """.importlinter."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / ".importlinter")
    return parser


def test_every_package_is_under_contract() -> None:
    ours = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"}
    assert ours == set(PACKAGES)
    for package in ours - {"jobcommon"}:
        assert (ROOT / "jobcommon" / package).readlink() == Path("..", package), (
            f"{package} is installed as jobcommon.{package}"
        )


def test_every_part_of_the_library_has_a_place() -> None:
    parser = contracts()
    named = {
        word
        for section in parser.sections()
        for key in ("layers", "source_modules", "forbidden_modules")
        for word in parser[section].get(key, "").split()
    }
    parts = {path.stem for path in (ROOT / "jobcommon").glob("*.py")} | {
        p.parent.name for p in ROOT.glob("jobcommon/*/__init__.py")
    }
    free = {"__init__"}
    assert not {f"jobcommon.{part}" for part in parts - free} - {word.strip("()") for word in named}


def in_circles(imports: dict[str, set[str]]) -> set[str]:
    """The modules that import themselves through others, and those between two circles."""
    left = dict(imports)
    while True:
        imported = set[str]().union(*left.values())
        kept = {module: found & left.keys() for module, found in left.items() if module in imported and found & left.keys()}
        if kept == left:
            return set(kept)
        left = kept


def test_there_are_no_circles() -> None:
    # Imports for types only count: a circle of them means as well that neither module is understood without the other.
    graph = grimp.build_graph("jobcommon", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert in_circles(imports) == set()


def test_a_circle_is_found() -> None:
    assert in_circles({"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": set()}) == {"a", "b", "c"}
