"""A job from a script alone, and the completion of `kubectl train`."""

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobcommon.cli.errors import UserError
from jobcommon.cli.frameworks import installed, of_manifest
from jobcommon.cli.kubectl_plugin import complete
from jobcommon.cli.plan import checked
from jobcommon.cli.python import Python, python_of_pods
from jobcommon.cli.script import Script
from jobcommon.manifests.children import pod_manifest
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.spec import read_job
from tests.cli.commands import answered

OWN = str(Path(sys.executable).with_name("python"))


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "Train_Me.py"
    path.write_text("import sys\nprint('rank', __import__('os').environ.get('RANK'), sys.argv[1:])\n")
    return path


def printed(*arguments: str) -> list[dict[str, Any]]:
    done = answered("run", "-o", "yaml", *arguments)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def test_a_script_becomes_a_job_that_can_be_kept(script: Path) -> None:
    (job,) = printed(str(script), "--workers", "3", "--", "--epochs", "5")
    specs = job["spec"]["pytorchReplicaSpecs"]
    assert job["metadata"]["name"] == "train-me"
    assert {kind: spec["replicas"] for kind, spec in specs.items()} == {"Master": 1, "Worker": 2}
    container = specs["Worker"]["template"]["spec"]["containers"][0]
    assert container["command"] == ["python", str(script), "--epochs", "5"]
    # As torchrun sets them for one process in each pod.
    assert {one["name"]: one["value"] for one in container["env"]} == {
        "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "GROUP_RANK": "$(RANK)",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "options", "reports"),
    [
        ("from jobcommon import report_progress\nreport_progress(1, 2)\n", (), True),
        ("from transformers import Trainer\nTrainer(model).train()\n", (), True),
        ("from trl import SFTTrainer\nSFTTrainer(model).train()\n", (), True),
        ("from lightning import Trainer\nTrainer().fit(model)\n", (), None),
        ("import mine\nmine.train()\n", ("--report-progress",), True),
    ],
)
def test_a_script_that_reports_its_progress_can(text: str, options: Sequence[str], reports: bool | None, script: Path) -> None:
    script.write_text(text)
    (job,) = printed(str(script), *options)
    assert job["spec"]["runPolicy"].get("reportProgress") is reports


def test_torchrun_starts_several_processes_in_each_pod(script: Path) -> None:
    (job,) = printed(str(script), "--workers", "2", "--nproc-per-node", "4", "--", "--lr", "1")
    assert job["spec"]["nprocPerNode"] == "4"
    assert job["spec"]["pytorchReplicaSpecs"]["Worker"]["restartPolicy"] == "Never"
    (_, there) = printed(str(script), "--workers", "2", "--nproc-per-node", "4", "--image", "x")
    assert there["spec"]["pytorchReplicaSpecs"]["Worker"]["restartPolicy"] == "OnFailure"
    assert not any(read_job(PYTORCH, made).warnings for made in (job, there))
    container = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    assert container["command"] == ["python", "-m", "torch.distributed.run", str(script), "--lr", "1"]
    assert "env" not in container


@pytest.mark.parametrize("workers", [1, 2])
def test_every_process_finds_what_torchrun_sets(workers: int, script: Path) -> None:
    (manifest,) = Script(str(script), workers=workers, env=("LOCAL_WORLD_SIZE=8",)).manifests()
    job = checked(manifest, PYTORCH)
    for rank, replica in enumerate(job.replicas):
        env = pod_manifest(PYTORCH, job, replica)["spec"]["containers"][0]["env"]
        found = {entry["name"]: entry.get("value") for entry in env}
        names = [entry["name"] for entry in env]
        assert (found["RANK"], found["GROUP_RANK"], found["LOCAL_RANK"]) == (str(rank), "$(RANK)", "0")
        assert names.index("RANK") < names.index("GROUP_RANK"), "a reference works for what stands before it only"
        assert found["LOCAL_WORLD_SIZE"] == "8", "the user's variable wins"


def test_on_a_cluster_a_config_map_delivers_the_script(script: Path) -> None:
    files = ["--include", str(Path(__file__))]
    config, job = printed(str(script), "--image", "me/torch:2", "--resources", "nvidia.com/gpu=1", "--env", "A=b", *files)
    assert config["data"]["Train_Me.py"] == script.read_text()
    assert Path(__file__).name in config["data"]
    pod = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]
    assert pod["volumes"] == [{"name": "script", "configMap": {"name": config["metadata"]["name"]}}]
    assert pod["containers"][0]["command"] == ["python", "/scripts/Train_Me.py"]
    assert pod["containers"][0]["resources"] == {"limits": {"nvidia.com/gpu": "1"}}
    assert {"name": "A", "value": "b"} in pod["containers"][0]["env"]


@pytest.mark.parametrize("image", [None, "x"])
@pytest.mark.parametrize("framework", sorted({*installed()} - {"trainjob"}))
def test_the_job_of_every_framework_starts_the_script(framework: str, image: str | None, script: Path) -> None:
    options = {"arguments": ("--lr", "1"), "env": ("A=b",), "resources": ("nvidia.com/gpu=1", "cpu=1")}
    made = Script(str(script), workers=2, framework=framework, image=image, **options).manifests()[-1]  # type: ignore[arg-type]
    found = of_manifest(made.body)
    assert found is not None
    job = checked(made, found)
    assert not found.blocked(job)
    where = f"/scripts/{script.name}" if image else str(script)
    program = ["python", where, "--lr", "1"]
    mains = {one.type: pod_manifest(found, job, one)["spec"]["containers"][0] for one in job.replicas}
    if "Launcher" in mains:
        launcher, worker = mains["Launcher"], mains.pop("Worker")
        assert worker["command"], "what the launcher reaches"
        assert worker["resources"] == {"limits": {"nvidia.com/gpu": "1", "cpu": "1"}}
        assert launcher["resources"] == {"limits": {"cpu": "1"}}, "with a GPU it would be a host of ranks"
        program = ["mpirun", "-x", "PATH", "-x", "A", "-n", "2", *program]
    assert {kind: main["command"] for kind, main in mains.items()} == dict.fromkeys(mains, program)
    assert all({"name": "A", "value": "b"} in main["env"] for main in mains.values())
    processes = {one.type for one in job.replicas} & {"Master", "Worker"}
    assert sum(job.count(kind) for kind in processes) == 2


def test_each_run_on_a_cluster_has_a_name_of_its_own(script: Path) -> None:
    made, named = Script(str(script), image="x"), Script(str(script), image="x", name="mine")
    assert len({made.manifests(unique=True)[-1].name for _ in range(2)}) == 2
    assert named.manifests(unique=True)[-1].name == "mine"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "nothing to run: give a manifest with -f FILE, or a script"),
        (("nosuch.py",), "nosuch.py: no such file; give the path of a script"),
        (("job.yaml",), "job.yaml: is not a Python script (.py); a manifest is given with -f, and may start anything"),
        (("SCRIPT", "-f", "job.yaml"), "give a script or manifests with -f, not both"),
        (("-f", "job.yaml", "--image", "x"), "--image: applies to a script"),
        (("SCRIPT", "--name", "Not Good"), "--name Not Good: use up to 42 lower-case letters"),
        (("SCRIPT", "--env", "A"), "--env A: write a name and a value, such as EPOCHS=3"),
        (("SCRIPT", "--epochs", "5"), "run SCRIPT -- --epochs\n"),
        (("-f", "job.yaml", "--report-progress"), "--report-progress: applies to a script"),
        (("SCRIPT", "--resources", "gpu=1"), "Kubernetes has no resource gpu; write nvidia.com/gpu=1"),
        (("SCRIPT", "--framework", "jax", "--nproc-per-node", "2"), "applies to torchrun, so to --framework pytorch, not jax"),
        (("-f", "job.yaml", "--nproc-per-node", "2"), "--nproc-per-node: applies to a script"),
        (("SCRIPT", "--resources", "cpu"), "--resources cpu: write a resource and an amount"),
        (("SCRIPT", "--framework", "caffe"), "--framework caffe: there is no such framework here"),
        (("SCRIPT", "--cluster"), "runs on a cluster in an image with python and its modules; name it"),
        (
            ("SCRIPT", "--cluster", "--python", "x"),
            "--python: applies to pods on this machine; on a cluster the image has its own",
        ),
        (("SCRIPT", "-o", "json"), "--output: 'json' is not "),
        (("SCRIPT", "--local", "--context", "x"), "--local: leave out --kubeconfig and --context"),
        (("SCRIPT", "--kubeconfig", "/no", "--image", "x"), "/no: no such file; --kubeconfig must name a kubeconfig"),
    ],
)
def test_bad_script_arguments_are_refused_with_the_fix(arguments: Sequence[str], message: str, script: Path) -> None:
    done = answered("run", *(str(script) if argument == "SCRIPT" else argument for argument in arguments))
    assert done.returncode == 2, done
    assert message.replace("SCRIPT", str(script)) in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def env(tmp_path: Path) -> Path:
    """An environment whose python says that it is."""
    program = tmp_path / "env/bin/python"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\necho "of $0"; exec {sys.executable} "$@"\n')
    program.chmod(0o755)
    (program.parent / "python3").symlink_to("python")
    (program.parent / "python2").symlink_to("/bin/sh")
    return tmp_path / "env"


@pytest.mark.parametrize(
    ("given", "active", "path", "wanted"),
    [
        (None, {}, (), (OWN, "jobcommon's own")),
        (None, {}, ("ENV", "OURS"), ("ENV/bin/python", "the first on PATH")),
        (None, {"VIRTUAL_ENV": "ENV", "CONDA_PREFIX": "/nowhere"}, ("OURS",), ("ENV/bin/python", "VIRTUAL_ENV")),
        (None, {"VIRTUAL_ENV": "/nowhere", "CONDA_PREFIX": "ENV"}, (), ("ENV/bin/python", "CONDA_PREFIX")),
        ("ENV", {"VIRTUAL_ENV": "/nowhere"}, (), ("ENV/bin/python", "--python")),
        ("ENV/bin/python3", {}, (), ("ENV/bin/python", "--python")),
        ("ENV/bin/python2", {}, (), "ENV/bin/python is not the same; make an environment and name that: ENV/bin/python2"),
        ("/nowhere", {}, (), "--python /nowhere: no such interpreter; give its path, or the directory of an environment"),
    ],
)
def test_the_users_python_is_that_of_pods(
    given: str | None, active: dict[str, str], path: Sequence[str], wanted: tuple[str, str] | str, env: Path
) -> None:
    places = {"ENV": str(env / "bin"), "OURS": str(Path(OWN).parent)}
    environment = {name: value.replace("ENV", str(env)) for name, value in active.items()}
    environment["PATH"] = os.pathsep.join(places[name] for name in path)
    asked = given and given.replace("ENV", str(env))
    if isinstance(wanted, str):
        with pytest.raises(UserError, match=re.escape(wanted.replace("ENV", str(env)))):
            python_of_pods(asked, environment)
    else:
        assert python_of_pods(asked, environment) == Python(Path(wanted[0].replace("ENV", str(env))), wanted[1])


@pytest.mark.cluster
def test_a_script_runs_here_as_a_job(script: Path, env: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", str(env))
    done = answered("run", str(script), "--workers", "2", "--", "--epochs", "5")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"pods run {env}/bin/python as python (VIRTUAL_ENV); --python selects another\n")
    assert f"train-me-master-0 | of {env}/bin/python" in done.stdout
    assert "train-me-master-0 | rank 0 ['--epochs', '5']" in done.stdout


@pytest.mark.parametrize(
    ("words", "completions"),
    [(["wh"], ["why"]), (["logs", "digits", "--fo"], ["--follow"]), (["list", "-o", "w"], ["wide"])],
)
def test_completion(
    words: list[str], completions: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "environ", {**os.environ})
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-train", *words])
    with pytest.raises(SystemExit):
        complete()
    assert capsys.readouterr().out.splitlines() == [*completions, ":0"]
