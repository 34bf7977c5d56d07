"""`jobcommon convert` as a user meets it; tests/examples runs what it makes of the examples."""

from pathlib import Path

import pytest
import yaml

from tests.cli.commands import answered

PLAIN = "version: 1\nframework: pytorch\nbuild: {image: i}\nrun: {cmd: echo hello}\n"


def test_convert_writes_the_manifest_and_warns_on_standard_error(tmp_path: Path) -> None:
    source = tmp_path / "polyaxonfile.yml"
    source.write_text(PLAIN + "colour: red\n", encoding="utf-8")
    done = answered("convert", str(source), "--name", "named", "--image", "other")
    assert done.returncode == 0
    assert done.stderr == f"warning: {source}: colour: has no meaning here and is omitted\n"
    manifest = yaml.safe_load(done.stdout)
    assert manifest["metadata"]["name"] == "named"
    assert manifest["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]["image"] == "other"
    assert answered("convert", str(source), "-o", str(tmp_path)).returncode == 2


def test_a_nameless_job_is_called_by_its_file_or_directory(tmp_path: Path) -> None:
    directory = tmp_path / "My Digits"
    directory.mkdir()
    for name, called in (("polyaxonfile.yml", "my-digits"), ("Fit_all.yaml", "fit-all")):
        (directory / name).write_text(PLAIN, encoding="utf-8")
        assert f"  name: {called}\n" in answered("convert", str(directory / name)).stdout
    assert "  name: experiment\n" in answered("convert", "-", stdin=PLAIN).stdout


def test_plan_and_run_take_a_polyaxonfile() -> None:
    planned = answered("plan", "-f", "-", stdin=PLAIN + "colour: red\n")
    assert "create pods/" in planned.stdout
    assert planned.stderr == "warning: <stdin>: colour: has no meaning here and is omitted\n"
    done = answered("run", "-f", "-", stdin=PLAIN + "matrix: {lr: {values: [1]}}\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: <stdin>: matrix: describes many experiments" in done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("run: !!set {a}", "set is not supported"), ("a: 1\n---\nb: 2", "<stdin>: has 2 documents"),
        ("- 1", "<stdin>: is not a polyaxonfile, which is a mapping"), ("", "is not a polyaxonfile"),
        ("a: [", "<stdin>:1:5: not valid YAML"), ("a: 1", "is not a polyaxonfile"),
    ],
)  # fmt: skip
def test_a_text_that_is_no_polyaxonfile_is_refused(text: str, message: str) -> None:
    done = answered("convert", "-", stdin=text)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
