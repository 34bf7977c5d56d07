"""The Containerfile by its instructions (`make image` builds it); and the image's Python environment by its imports."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from jobcommon.testutil.release.containerfile import environment, stages
from tests.charts.charts import render, the

FILES = ("pyproject.toml", "README.md", "LICENSE", "requirements.lock")
ROOT = Path(__file__).resolve().parents[2]
# What only the embedded cluster and the tests need: it is not in the image.
NOT_INSTALLED = (
    "localcluster",
    "jsonschema_rs",
    "jsonpatch",
    "jsonpath",
    "cel_expr_python",
    "kubernetes",
    "torch",
    "numpy",
    "helm_python",
)
# What is installed elsewhere and has no place in a cluster.
LEFT_OUT = ("jobcommon.testutil",)
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


BUILD, IMAGE = stages()


def test_the_base_is_whatever_the_builder_pins() -> None:
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    assert re.findall(r"^ARG .*$", text, re.MULTILINE) == ["ARG BASE"], "no default: it would be a tag that moves"
    assert [stage.arguments("FROM")[0].split()[0] for stage in (BUILD, IMAGE)] == ["${BASE}", "${BASE}"]


def test_the_image_runs_as_the_charts_user_not_root() -> None:
    context = the(render("training-operators"), "Deployment")["spec"]["template"]["spec"]["securityContext"]
    assert IMAGE.arguments("USER") == [f"{context['runAsUser']}:{context['runAsGroup']}"]
    assert context["runAsUser"] > 0
    names = [instruction for instruction, _ in IMAGE.instructions]
    assert set(names[names.index("USER") + 1 :]) <= {"EXPOSE", "ENTRYPOINT", "CMD"}


def test_the_containerfile_uses_plain_instructions_and_no_bytecode() -> None:
    names = {instruction for instruction, _ in (*BUILD.instructions, *IMAGE.instructions)}
    assert names <= {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "EXPOSE", "ENTRYPOINT", "CMD"}
    assert environment(IMAGE)["PYTHONDONTWRITEBYTECODE"] == "1"


def test_the_image_has_no_package_installer() -> None:
    assert BUILD.arguments("RUN")[-1].endswith("pip uninstall --yes --quiet setuptools pip")
    (removes,) = IMAGE.arguments("RUN")
    assert removes.startswith("rm -rf /usr/share/python-wheels "), "Debian's wheels of pip and setuptools"
    assert "&&" not in removes


def test_copied_files_exist_and_make_the_whole_package() -> None:
    copied = [source for argument in BUILD.arguments("COPY") for source in argument.split()[:-1]]
    assert all((ROOT / source).exists() for source in copied)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert {"jobcommon", "cli", "operators", *FILES} == set(copied)
    links = {path.name for path in (ROOT / "jobcommon").iterdir() if path.is_symlink()}
    assert {f"jobcommon.{name}" for name in links - set(copied)} == set(LEFT_OUT)
    assert any(argument.startswith("rm jobcommon/testutil") for argument in BUILD.arguments("RUN"))
    assert project["project"]["version"] in (ROOT / "Containerfile").read_text(encoding="utf-8")


def test_the_operator_starts_with_what_the_image_has_installed() -> None:
    argv = [sys.executable, "-c", WITHOUT, "operator", "--help"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    assert "--leader-elect" in done.stdout
