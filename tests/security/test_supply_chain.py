"""S24 and S25: what the code may not call, and what comes with it."""

import ast
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SHIPPED = ("jobcommon", "operators", "testutil", "cli")
SOURCES = (*SHIPPED, "localcluster/localcluster")
# Called, or imported: each turns data into code or objects. ast.literal_eval and re.compile do not.
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_MODULES = {"pickle", "cPickle", "shelve", "marshal", "dill", "cloudpickle", "joblib", "jsonpickle"}
EXCUSED = (
    # A kubelet's probe over HTTPS verifies no certificate: Kubernetes' "Configure Liveness, Readiness and Startup Probes".
    "localcluster/localcluster/kubelet/checks.py: ssl=False",
    # Known defects are changes of our own source, from a table in the repository.
    "testutil/mutants/patch.py: compile()",
    "testutil/mutants/patch.py: exec()",
)
YAML_LOADERS = {"load", "load_all", "full_load", "full_load_all", "unsafe_load", "unsafe_load_all", "Loader", "UnsafeLoader"}


def sources() -> Iterator[tuple[Path, ast.Module]]:
    for package in SOURCES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.relative_to(ROOT), ast.parse(path.read_text(encoding="utf-8"))


def offences(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in FORBIDDEN_CALLS:
                yield f"{name}(), line {node.lineno}"
            case ast.Import(names=names):
                yield from (f"{a.name}, line {node.lineno}" for a in names if a.name.split(".")[0] in FORBIDDEN_MODULES)
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in FORBIDDEN_MODULES:
                yield f"{module}, line {node.lineno}"
            case ast.Attribute(value=ast.Name(id="yaml"), attr=name) if name in YAML_LOADERS:
                yield f"yaml.{name}, line {node.lineno}"
            case ast.keyword(arg="shell", value=ast.Constant(value=True)):
                yield f"shell=True, line {node.value.lineno}"
            case ast.keyword(arg="verify" | "ssl" | "verify_ssl", value=ast.Constant(value=False)):
                yield f"{node.arg}=False, line {node.value.lineno}"


def test_s24_nothing_that_is_read_becomes_code() -> None:
    found = [f"{path}: {offence}" for path, tree in sources() for offence in offences(tree)]
    assert [offence for offence in found if not offence.startswith(tuple(EXCUSED))] == []
    assert len(found) == len(EXCUSED), "an excuse that is not needed any more"


@pytest.mark.parametrize(
    "code", ["eval(x)", "import pickle", "from marshal import loads", "yaml.load(x)", "run(x, shell=True)", "get(u, ssl=False)"]
)
def test_s24_what_is_forbidden_would_be_found(code: str) -> None:
    assert list(offences(ast.parse(code)))


def test_s24_ruffs_security_rules_are_on_and_have_nothing_to_say() -> None:
    lint = PROJECT["tool"]["ruff"]["lint"]
    assert "S" in lint["select"]
    assert not [rule for rule in lint["ignore"] if re.fullmatch(r"S\d*", rule)]
    ignored = {path for path, rules in lint["per-file-ignores"].items() if any(re.fullmatch(r"S\d*", rule) for rule in rules)}
    assert not [path for path in ignored if not path.startswith(("tests", "testutil", "benchmarks"))]
    argv = [sys.executable, "-m", "ruff", "check", "--select", "S", "--output-format", "concise", *SOURCES]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stdout


def named(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[\s<>=!~;\[(]", requirement.strip(), maxsplit=1)[0]).lower()


def locked() -> dict[str, str]:
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8").replace("\\\n", " ")
    entries = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return {named(entry): entry for entry in entries}


def test_s25_thirteen_dependencies_at_most() -> None:
    assert len(PROJECT["project"]["dependencies"]) <= 13


def test_s25_the_lock_pins_each_dependency_and_theirs_by_hash() -> None:
    pins = locked()
    for name, entry in pins.items():
        assert re.match(rf"{name}==\S+", entry.replace("_", "-"), re.IGNORECASE), entry[:60]
        assert re.findall(r"--hash=sha256:[0-9a-f]{64}\b", entry), f"{name} has no hash"
        assert "://" not in entry, "no index, no URL"
    waiting = [named(requirement) for requirement in PROJECT["project"]["dependencies"]]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        assert name in pins, f"{name} is not in requirements.lock; run: make lock"
        waiting += [named(r.name) for r in map(Requirement, requires(name) or ()) if r.marker is None or r.marker.evaluate()]
    assert len(seen) > len(PROJECT["project"]["dependencies"])


def test_s25_the_lock_satisfies_what_the_project_asks_for() -> None:
    pins = locked()
    for text in PROJECT["project"]["dependencies"]:
        wanted = Requirement(text)
        version = pins[named(text)].split("==")[1].split()[0]
        assert wanted.specifier.contains(version), f"{text}, but {version} is locked; run: make lock"


def test_s25_the_image_is_made_from_the_lock() -> None:
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    assert "--require-hashes -r requirements.lock" in text
    assert "--no-deps ." in text


def test_s25_there_is_a_bill_of_materials_and_an_audit_to_be_had() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target, tool in (("lock", "uv pip compile"), ("sbom", "cyclonedx-py"), ("audit", "pip-audit --strict")):
        rule = text.partition(f"\n{target}: ")[2].partition("\n\n")[0]
        assert tool in rule, f"make {target}"
        assert "requirements.lock" in rule


def test_s25_a_wheel_is_the_same_whenever_and_wherever_it_is_built(tmp_path: Path) -> None:
    digests = set()
    for number, moment in enumerate((1_500_000_000, 1_700_000_000)):
        copy = tmp_path / f"copy-{number}"
        copy.mkdir()
        for name in ("pyproject.toml", "README.md"):
            shutil.copy(ROOT / name, copy)
        for package in (*SHIPPED, "charts/jobcommon-lib"):
            shutil.copytree(ROOT / package, copy / package, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        for path in copy.rglob("*"):
            os.utime(path, (moment, moment))
        argv = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path / f"out-{number}")]
        done = subprocess.run(argv, cwd=copy, capture_output=True, text=True, timeout=180)
        assert done.returncode == 0, done.stderr
        (wheel,) = (tmp_path / f"out-{number}").iterdir()
        digests.add(hashlib.sha256(wheel.read_bytes()).hexdigest())
        names = zipfile.ZipFile(wheel).namelist()
        assert {name.partition("/")[0] for name in names} == {"jobcommon", "jobcommon-0.1.0.dist-info"}
        assert {f"jobcommon/{name}/__init__.py" for name in (*SHIPPED, "runtime") if name != "jobcommon"} <= set(names)
        assert {f"jobcommon/cli/new/{name}" for name in ("library/Chart.yaml", "template/Makefile.tmpl")} <= set(names)
        assert len(names) == len(set(names))
    assert len(digests) == 1
