"""The site builds: every page is in its navigation, every link and anchor leads somewhere."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.source import ROOT


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "not included in the" not in done.stderr, done.stderr
    fences = [page.name for page in tmp_path.rglob("*.html") if "```" in page.read_text(encoding="utf-8")]
    assert fences == [], "a fence is shown as text: mkdocs did not understand the line"
    for page in ("tutorial.html", "reference/fields.html", "architecture.html", "data-scientist.html"):
        assert (tmp_path / page).is_file()
    tutorial = (tmp_path / "tutorial.html").read_text(encoding="utf-8")
    assert '<span class="k">for</span>' in tutorial, "code is not highlighted"
