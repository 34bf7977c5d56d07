"""The Containerfile by its instructions (`make image` builds it); and the image's Python environment by its imports."""

import subprocess
import sys
import tomllib
from pathlib import Path

from tests.charts.charts import render, the

FILES = ("pyproject.toml", "README.md", "LICENSE", "requirements.lock")
ROOT = Path(__file__).resolve().parents[2]
# What only the embedded cluster and the tests need: it is not in the image.
NOT_INSTALLED = ("jsonschema_rs", "jsonpatch", "jsonpath", "cel_expr_python", "kubernetes", "torch", "numpy", "helm_python")
# What is installed elsewhere and has no place in a cluster.
LEFT_OUT = ("jobcommon.localcluster", "jobcommon.testutil")
WITHOUT = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {NOT_INSTALLED!r} or name in {LEFT_OUT!r}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
from jobcommon.cli.main import main
import jobcommon.cli.operate, jobcommon.cli.finalizers
sys.argv[0] = "jobcommon"
main()
"""


def instructions() -> list[tuple[str, str]]:
    """The instructions and their arguments."""
    text = (ROOT / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines()]
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines if line and not line.startswith("#")]


def arguments(name: str) -> list[str]:
    return [argument for instruction, argument in instructions() if instruction == name]


def last_stage() -> list[tuple[str, str]]:
    """What the image is made of: from the last FROM on."""
    found = instructions()
    start = max(i for i, (instruction, _) in enumerate(found) if instruction == "FROM")
    return found[start:]


def test_the_base_is_whatever_the_builder_pins() -> None:
    assert arguments("ARG") == ["BASE"], "no default: it would be a tag that moves"
    assert [argument.split()[0] for argument in arguments("FROM")] == ["${BASE}", "${BASE}"]


def test_it_runs_as_the_user_of_the_chart_who_is_not_root() -> None:
    users = [argument for instruction, argument in last_stage() if instruction == "USER"]
    context = the(render("training-operators"), "Deployment")["spec"]["template"]["spec"]["securityContext"]
    assert users == [f"{context['runAsUser']}:{context['runAsGroup']}"]
    assert context["runAsUser"] > 0
    after = [instruction for instruction, _ in last_stage()][[i for i, _ in last_stage()].index("USER") :]
    assert set(after) <= {"USER", "EXPOSE", "ENTRYPOINT", "CMD"}


def test_it_writes_nothing_and_fetches_nothing_by_hand() -> None:
    names = {instruction for instruction, _ in instructions()}
    assert names <= {"ARG", "FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "EXPOSE", "ENTRYPOINT", "CMD"}
    assert "RUN" not in {instruction for instruction, _ in last_stage()}
    assert any("PYTHONDONTWRITEBYTECODE=1" in argument for argument in arguments("ENV"))


def test_what_is_copied_is_there_and_is_the_whole_package() -> None:
    copied = [source for argument in arguments("COPY") if "--from" not in argument for source in argument.split()[:-1]]
    assert all((ROOT / source).exists() for source in copied)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert {"jobcommon", "cli", "operators", *FILES} == set(copied)
    links = {path.name for path in (ROOT / "jobcommon").iterdir() if path.is_symlink()}
    assert {f"jobcommon.{name}" for name in links - set(copied)} == set(LEFT_OUT)
    assert any(argument.startswith("rm jobcommon/localcluster jobcommon/testutil") for argument in arguments("RUN"))
    assert project["project"]["version"] in (ROOT / "Containerfile").read_text(encoding="utf-8")


def test_the_operator_starts_with_what_the_image_has_installed() -> None:
    argv = [sys.executable, "-c", WITHOUT, "operator", "--help"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    assert "--leader-elect" in done.stdout
