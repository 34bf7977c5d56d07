"""The user of the image, and its Python environment by its imports; `make image` builds it."""

import re
import subprocess
import sys
from pathlib import Path

from tests.charts.charts import render, the

ROOT = Path(__file__).resolve().parents[2]
# What only the embedded cluster and the tests need: it is not in the image; the last has no place in a cluster.
NOT_INSTALLED = ("localcluster", "jsonschema_rs", "jsonpatch", "jsonpath", "cel_expr_python", "kubernetes", "torch", "numpy")
WITHOUT = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {NOT_INSTALLED!r} or name == "jobcommon.testutil":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
from jobcommon.cli.main import main
import jobcommon.cli.operate, jobcommon.cli.finalizers
sys.argv[0] = "jobcommon"
main()
"""


def test_the_image_runs_as_the_charts_user_not_root() -> None:
    context = the(render("training-operators"), "Deployment")["spec"]["template"]["spec"]["securityContext"]
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    assert re.findall(r"^USER (.*)$", text, re.MULTILINE) == [f"{context['runAsUser']}:{context['runAsGroup']}"]
    assert context["runAsUser"] > 0
    assert re.findall(r"^ARG .*$", text, re.MULTILINE) == ["ARG BASE"], "no default: it would be a tag that moves"


def test_the_operator_starts_with_what_the_image_has_installed() -> None:
    argv = [sys.executable, "-c", WITHOUT, "operator", "--help"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    assert "--leader-elect" in done.stdout
