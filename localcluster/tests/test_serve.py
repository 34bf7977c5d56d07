"""The command ``localcluster serve``: a cluster until a signal, or for the length of a command."""

import os
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

pytestmark = pytest.mark.cluster
SERVE = (sys.executable, "-m", "localcluster", "serve")
ASKS = (
    "import os, ssl, sys, urllib.request, yaml, base64\n"
    "found = yaml.safe_load(open(os.environ['KUBECONFIG']))\n"
    "cluster = found['clusters'][0]['cluster']\n"
    "context = ssl.create_default_context(cadata=base64.b64decode(cluster['certificate-authority-data']).decode())\n"
    "headers = {'Authorization': 'Bearer ' + found['users'][0]['user']['token']}\n"
    "request = urllib.request.Request(cluster['server'] + sys.argv[1], headers=headers)\n"
    "print(urllib.request.urlopen(request, context=context).read().decode())\n"
)


def served(directory: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*SERVE, *arguments], cwd=directory, capture_output=True, text=True, timeout=120, check=False)


def test_a_command_finds_the_cluster_which_ends_with_it(tmp_path: Path) -> None:
    done = served(tmp_path, "--", sys.executable, "-c", ASKS, "/api/v1/nodes")
    assert done.returncode == 0, done.stderr
    assert '"kind":"NodeList"' in done.stdout
    assert '"name":"local"' in done.stdout
    assert not (tmp_path / ".localcluster").exists()


def test_without_a_node_there_is_none(tmp_path: Path) -> None:
    done = served(tmp_path, "--no-node", "--", sys.executable, "-c", ASKS, "/api/v1/nodes")
    assert '"items":[]' in done.stdout, done.stderr


def test_the_node_has_the_capacity_that_is_given(tmp_path: Path) -> None:
    done = served(tmp_path, "--capacity", "nvidia.com/gpu=2", "--", sys.executable, "-c", ASKS, "/api/v1/nodes")
    assert '"nvidia.com/gpu":"2"' in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--capacity", "cpu"), "cpu: write a resource and an amount"),
        (("--no-node", "--capacity", "cpu=1"), "leave out --no-node"),
    ],
)
def test_a_capacity_that_makes_no_sense(tmp_path: Path, options: tuple[str, ...], told: str) -> None:
    done = served(tmp_path, *options, "--", "true")
    assert (done.returncode, told in done.stderr) == (2, True), done.stderr


def test_a_command_s_kubectl_keeps_nothing_in_the_home_directory(tmp_path: Path) -> None:
    done = served(tmp_path, "--no-node", "--", "sh", "-c", "test -d $KUBECACHEDIR && echo $KUBECACHEDIR")
    assert done.stdout.strip(), done.stderr
    assert not Path(done.stdout.strip()).exists()


def test_its_version_is_the_distribution_s() -> None:
    asked = subprocess.run([*SERVE[:-1], "--version"], capture_output=True, text=True, check=True)
    assert asked.stdout == f"localcluster {version('jobcommon-localcluster')}\n"


@pytest.mark.parametrize(("script", "code"), [("exit 3", 3), ("kill -9 $$", 137)])
def test_the_exit_code_is_the_command_s(tmp_path: Path, script: str, code: int) -> None:
    assert served(tmp_path, "--no-node", "--", "sh", "-c", script).returncode == code


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    done = served(tmp_path, "--no-node", "--", "no-such-program")
    assert (done.returncode, done.stderr) == (127, "localcluster: no-such-program: there is no such program\n")


def test_it_runs_until_a_signal_and_keeps_others_from_its_kubeconfig(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*SERVE, "--no-node", "--kubeconfig", "kc"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("https://127.0.0.1:")
        assert process.stdout.readline() == "  export KUBECONFIG=" + str(tmp_path / "kc") + "\n"
        asked = subprocess.run(
            [sys.executable, "-c", ASKS, "/version"],
            env={**os.environ, "KUBECONFIG": str(tmp_path / "kc")},
            capture_output=True,
            text=True,
            check=True,
        )
        assert "gitVersion" in asked.stdout
        other = served(tmp_path, "--kubeconfig", "kc", "--", "true")
        assert other.returncode == 2
        assert "it belongs to the cluster at https://127.0.0.1:" in other.stderr
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
    assert not (tmp_path / "kc").exists()
