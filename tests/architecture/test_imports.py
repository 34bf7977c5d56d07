"""What the contracts of import-linter do not see."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import grimp

from jobcommon.reconcile.features import FEATURES
from tests.architecture.source import PACKAGES, ROOT, modules, tree


def test_every_package_is_under_contract() -> None:
    found = (*ROOT.glob("*/__init__.py"), *ROOT.glob("localcluster/*/__init__.py"))
    ours = {str(path.parent.relative_to(ROOT)) for path in found} - {"tests"}
    assert ours == set(PACKAGES)
    for package in ours - {"jobcommon", "localcluster/localcluster"}:
        assert (ROOT / "jobcommon" / package).readlink() == Path("..", package), (
            f"{package} is installed as jobcommon.{package}"
        )


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
