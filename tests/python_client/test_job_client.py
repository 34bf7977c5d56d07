"""The Python clients on the embedded cluster, by HTTP and TLS; and the notebook of the docs."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from jobcommon import AsyncJobClient, JobClient, JobFailed, StatusError, build_job
from tests.cli.commands import ROOT, Kubectl, cluster_up

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    with cluster_up(tmp_path_factory.mktemp("up")) as kubectl:
        yield kubectl


def train(word: str) -> None:
    import os

    print(f"{word} from rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']}")


def fail(code: int) -> None:
    import sys

    print("$(HOME) before the end")
    sys.exit(code)


def test_the_synchronous_client(kubectl: Kubectl, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def pause(_seconds: float) -> None:
        raise AssertionError("it polls")

    monkeypatch.setattr(time, "sleep", pause)
    jobs = JobClient(str(kubectl.kubeconfig))
    job = jobs.submit(build_job("sync", image="any", function=train, arguments={"word": "hello"}, replicas=2))
    done = jobs.wait(job, interval=3600)
    assert done["metadata"]["uid"] == job["metadata"]["uid"]
    assert "Succeeded: Master 1/1" in capsys.readouterr().err
    with pytest.raises(StatusError, match="409"):
        jobs.submit(build_job("sync", image="any", command=["true"]))
    assert list(jobs.logs(job, follow=True)) == ["hello from rank 0 of 2"]
    assert [one["metadata"]["name"] for one in jobs.list()] == ["sync"]
    assert jobs.list(kind="MPIJob") == jobs.list(selector="no=such") == []

    jobs.submit(failing := build_job("fails", image="any", function=fail, arguments={"code": 3}))
    with pytest.raises(JobFailed) as failure:
        jobs.wait(failing, progress=False, interval=3600)
    assert (failure.value.exit_code, failure.value.lines) == (3, ("$(HOME) before the end",))
    assert [one.replica for one in failure.value.failures] == ["Master-0"]
    for name in ("sync", "fails"):
        jobs.delete(name)
    assert jobs.list() == []
    with pytest.raises(StatusError, match="404"):
        jobs.get("sync")


async def test_the_asynchronous_client(kubectl: Kubectl) -> None:
    async with AsyncJobClient.connect(str(kubectl.kubeconfig)) as jobs:
        job = await jobs.submit(build_job("async", image="any", command=["echo", "hello"], run_policy={"suspend": True}))
        with pytest.raises(TimeoutError, match=r"is not over after 0\.5 s, and goes on: Suspended"):
            await jobs.wait(job, timeout=0.5, progress=False)
        await jobs.resume(job)
        await jobs.wait("pytorchjob/async", progress=False)
        assert [line async for line in jobs.logs(job)] == ["hello"]
        assert (await jobs.suspend(job))["spec"]["runPolicy"]["suspend"] is True
        await jobs.delete(job)
        assert await jobs.list() == []


def test_the_notebook(kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubectl.kubeconfig))
    notebook = nbformat.read(ROOT / "docs/notebooks/python-client.ipynb", as_version=4)
    NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", ())]
    printed = "".join(out.text for out in outputs if out.output_type == "stream")
    shown = [out.data["text/plain"] for out in outputs if out.output_type == "display_data"]
    # In place: one output for each wait, with the last state.
    assert [text.split(": ")[0].split()[0::2] for text in shown] == [
        ["pytorchjob/series", "Succeeded"],
        ["pytorchjob/forgetful", "Failed"],
        ["pytorchjob/shell", "Suspended"],
        ["pytorchjob/shell", "Succeeded"],
    ]
    assert "Worker-1 rank 2 of 3: " in printed
    assert "FileNotFoundError" in printed
    assert "exit code: 1" in printed
    assert "pytorchjob/shell is not over after 3 s, and goes on: Suspended" in printed
    assert printed.endswith("forgetful Failed\nseries Succeeded\nshell Succeeded\n")


def test_without_the_package_it_names_the_extra(tmp_path: Path) -> None:
    program = "import sys; sys.modules['kubernetes'] = None; from jobcommon import JobClient; JobClient()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, env={**os.environ})
    assert "ImportError: JobClient needs the package kubernetes: pip install 'jobcommon[sdk]'" in done.stderr
