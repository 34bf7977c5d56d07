"""import-linter's contracts cover what exists: a package or operator that is added later cannot stay outside them."""

import configparser
from pathlib import Path

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
