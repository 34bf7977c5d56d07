"""The Python clients on the embedded cluster, by HTTP and TLS; the notebook of the docs, and docs/python-client.md."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent

import kubernetes
import nbformat
import pytest
from nbclient import NotebookClient

from jobcommon import JobClient, build_job
from tests.cli.commands import PATIENCE, ROOT, Kubectl, cluster_up
from tests.docs.blocks import blocks

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    with cluster_up(tmp_path_factory.mktemp("up")) as kubectl:
        yield kubectl


PAGE = [block for block in blocks() if block.document.name == "python-client.md"]
SNIPPETS = [block.text for block in PAGE if block.language == "python"]
FAILURE = [block.text for block in PAGE if block.language == "text"][1]


def test_the_notebook(kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubectl.kubeconfig))
    jobs = JobClient(str(kubectl.kubeconfig))
    theirs = [
        build_job("theirs", kind=k, image="any", command=["x"], run_policy={"suspend": True}) for k in ("PyTorchJob", "JAXJob")
    ]
    for job in theirs:
        jobs.submit(job)
    official = kubernetes.config.new_client_from_config(str(kubectl.kubeconfig))
    assert JobClient(api_client=official).list(kind="JAXJob") == jobs.list(kind="JAXJob") != []
    notebook = nbformat.read(ROOT / "docs/notebooks/python-client.ipynb", as_version=4)
    NotebookClient(notebook, timeout=400, startup_timeout=int(PATIENCE), kernel_name="python3").execute()
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", ())]
    printed = "".join(out.text for out in outputs if out.output_type == "stream")
    shown = [out.data["text/plain"] for out in outputs if out.output_type == "display_data"]
    # In place: one output for each wait, with the last state.
    assert [text.split(": ")[0].split()[0::2] for text in shown] == [
        ["jaxjob/series", "Succeeded"],
        ["pytorchjob/forgetful", "Failed"],
        ["pytorchjob/shell", "Suspended"],
        ["pytorchjob/shell", "Succeeded"],
    ]
    assert "Worker-1 rank 1 of 3: " in printed
    # What the page shows of it, with a mark for the lines that it leaves out.
    shape = re.sub(
        r"\d{4}(\\-\d\d){2}T\d\d:\d\d:\d\dZ", r"\\S+", re.escape(FAILURE).replace(re.escape("  ...\n"), r"(  \| .*\n)+")
    )
    assert re.search(shape, printed)
    assert "exit code: 1" in printed
    assert "pytorchjob/shell has not finished after 10 s, and continues: Suspended" in printed
    assert printed.endswith("forgetful Failed\nshell Succeeded\nseries Succeeded\n")
    assert [one["metadata"]["name"] for one in jobs.list() + jobs.list(kind="JAXJob")] == ["theirs"] * 2
    for job in theirs:
        jobs.delete(job)


def test_the_code_of_the_page(kubectl: Kubectl, tmp_path: Path) -> None:
    blocking, awaited = SNIPPETS
    program = tmp_path / "page.py"
    program.write_text(
        f"{blocking}\njobs.delete(job)\n\n\nasync def asynchronous():\n{indent(awaited, ' ' * 4)}\n\n"
        "import asyncio\nasyncio.run(asynchronous())\n"
    )
    env = {**os.environ, "KUBECONFIG": str(kubectl.kubeconfig)}
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=120, env=env, check=False)
    assert (done.returncode, done.stdout) == (0, "rank 0 trains for 3\n" * 2), done.stderr
    assert re.search(r"^pytorchjob/digits \d:\d\d Succeeded: Master 1/1, Worker [0-3]/3$", done.stderr, re.MULTILINE)
    kubectl("delete", "pytorchjob", "digits")
