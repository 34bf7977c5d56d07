"""import-linter's contracts cover what exists: a package or operator that is added later cannot stay outside them."""

import ast
import configparser
import re
import sys
import tomllib
from importlib import import_module
from importlib.metadata import packages_distributions
from pathlib import Path

import grimp
import pytest

import localcluster
from jobcommon.reconcile.features import FEATURES
from tests.architecture.source import PACKAGES, ROOT, modules, tree


def contracts() -> configparser.ConfigParser:
    """.importlinter."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / ".importlinter")
    return parser


def test_every_package_is_under_contract() -> None:
    found = (*ROOT.glob("*/__init__.py"), *ROOT.glob("localcluster/*/__init__.py"))
    ours = {str(path.parent.relative_to(ROOT)) for path in found} - {"tests"}
    assert ours == set(PACKAGES)
    for package in ours - {"jobcommon", "localcluster/localcluster"}:
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


@pytest.mark.parametrize("package", ["jobcommon", "localcluster"])
def test_there_are_no_circles(package: str) -> None:
    # Imports for types only count: a circle of them means as well that neither module is understood without the other.
    graph = grimp.build_graph(package, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert in_circles(imports) == set()


def test_the_decision_knows_no_optional_feature() -> None:
    """Nor does anything that it imports, so that each can be left out."""
    graph = grimp.build_graph("jobcommon", cache_dir=None)
    features = {feature.__module__ for feature in FEATURES}
    assert len(features) >= 7
    assert not graph.find_upstream_modules("jobcommon.reconcile.decision") & features


def test_the_library_imports_only_what_it_declares() -> None:
    """What a dependency happens to bring along may be gone with its next release."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    # pydantic is released with pydantic_core; the sdk is for notebooks and for the package kubernetes, which users install; re2
    # is of an extra, and without it there is re.
    given = {re.split(r"[^\w-]", line)[0].lower().replace("_", "-") for line in project["dependencies"]}
    declared = {"pydantic-core", "google-re2"} | given
    providers = packages_distributions()
    undeclared = set()
    for module in (module for module in modules() if module.parts[0] == "jobcommon" and module.parts[1] != "sdk"):
        for node in ast.walk(tree(module)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            tops = {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"jobcommon"}
            undeclared |= {top for top in tops if not declared & {p.lower().replace("_", "-") for p in providers.get(top, ())}}
    assert undeclared == set()


def test_the_embedded_cluster_is_reached_by_its_front_door() -> None:
    """Twelve names of `localcluster`, of which four are modules with names of their own."""
    names, wrong = set(localcluster.__all__), []
    doors = {f"localcluster.{name}" for name in ("client", "conformance", "model", "rules")}
    assert len(names) == 12
    for folder in ("jobcommon", "operators", "cli", "testutil", "tests", "benchmarks"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(text)) if "localcluster" in text else ():
                if isinstance(node, ast.Import):
                    wrong += [f"{path}: {one.name}" for one in node.names if one.name.startswith("localcluster.")]
                elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "localcluster":
                    given = {one.name for one in node.names}
                    offered = set(import_module(node.module).__all__) if node.module in {*doors, "localcluster"} else set()
                    if given - offered:
                        wrong.append(f"{path}: {node.module} {given - offered}")
    assert not wrong
