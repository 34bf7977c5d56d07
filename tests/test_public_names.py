"""The names `jobcommon` offers: each is there, each is declared, and importing the package loads nothing heavy."""

import ast
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import jobcommon
import jobcommon.controller

SOURCE = Path(jobcommon.__file__)


@pytest.mark.parametrize("name", jobcommon.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(jobcommon, name) is not None


def test_the_stub_declares_exactly_the_public_names() -> None:
    stub = ast.parse(SOURCE.with_suffix(".pyi").read_text())
    declared = [alias for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert [alias.asname for alias in declared] == [alias.name for alias in declared], "write `import name as name`"
    assert sorted(alias.name for alias in declared) == jobcommon.__all__
    assert set(jobcommon.__all__) <= set(dir(jobcommon))


def test_the_version_is_that_of_the_distribution() -> None:
    assert jobcommon.__version__ == version("jobcommon")


#: what is run, what it must not import, and how many modules it may: imports are most of the time that a short command takes
IMPORTS: list[tuple[str, tuple[str, ...], int]] = [
    ("import jobcommon", ("pydantic", "msgspec", "aiohttp", "asyncio", "kubernetes_asyncio"), 999),
    ("from jobcommon import report_progress; report_progress(1)", ("pydantic", "msgspec", "yaml", "asyncio", "aiohttp"), 999),
    ("sys.modules['lazy_loader'] = None; from jobcommon import report_progress; report_progress(1)", ("pydantic", "yaml"), 999),
    ("from jobcommon import Framework, plan", ("aiohttp", "asyncio", "kubernetes_asyncio", "prometheus_client"), 999),
    ("from jobcommon.controller import Informer, WorkQueue", ("aiohttp", "asyncio", "kubernetes_asyncio"), 999),
    ("from jobcommon import JobClient",
     ("aiohttp", "kubernetes", "kubernetes_asyncio", "jobcommon.controller", "jobcommon.runtime", "localcluster"), 999),
    ("sys.argv[1:] = ['--version']; from jobcommon.cli.start import main; main()", ("typer", "pydantic", "asyncio"), 200),
    ("import jobcommon.cli.main, jobcommon.cli.jobs.listing, jobcommon.cli.jobs.why",
     ("aiohttp", "kubernetes_asyncio", "jsonschema", "jobcommon.runtime", "jobcommon.cli.convert", "jobcommon.cli.new"), 650),
    ("from jobcommon import run_operators, HttpTransport, find_cluster", ("kubernetes_asyncio", "kubernetes"), 999),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "unwanted", "most"), IMPORTS, ids=[row[0] for row in IMPORTS])
def test_imports_do_not_load_unneeded_modules(statement: str, unwanted: tuple[str, ...], most: int) -> None:
    program = f"import sys; {statement}; print(len(sys.modules), [m for m in {unwanted!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=180)
    modules, found = done.stdout.splitlines()[-1].split(maxsplit=1)
    assert found == "[]"
    assert int(modules) <= most
