"""`jobcommon dashboard` as a process: what it prints, and how it ends."""

import signal
import socket
from pathlib import Path

import aiohttp
import pytest
import yaml

from jobcommon.cli.dashboard.command import dashboard
from jobcommon.cli.errors import missing_extra
from jobcommon.operators.pytorch import PYTORCH
from tests.cli.commands import PATIENCE, answered, started


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """For a cluster that is not there."""
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    user = {"name": "u", "user": {"token": "t"}}
    config = {"kind": "Config", "clusters": [cluster], "contexts": [context], "users": [user], "current-context": "c"}
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def test_the_dashboard_starts_without_a_cluster_and_stops_cleanly(kubeconfig: Path) -> None:
    arguments = ("dashboard", "--kubeconfig", str(kubeconfig), "--framework", "pytorch")
    with started(*arguments, until="Ctrl-C stops it") as process:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            refused = answered(*arguments, "--port", str(taken.getsockname()[1]))
        assert refused.returncode == 2
        assert "it is in use; choose another" in refused.stderr
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=PATIENCE)
        assert out == "The dashboard is stopped.\n"
        assert process.returncode == 0


async def test_a_cluster_that_is_away_is_explained_on_the_page(kubeconfig: Path) -> None:
    of = {"namespace": None, "kubeconfig": str(kubeconfig), "context": None, "port": 0}
    jar = aiohttp.CookieJar(unsafe=True)
    async with dashboard([PYTORCH], **of) as address, aiohttp.ClientSession(cookie_jar=jar) as client:
        async with client.get(address) as answer:
            text = await answer.text()
            assert answer.status == 200
            assert "PyTorchJobs cannot be read" in text
            assert "http://127.0.0.1:1" in text, "which cluster it is"
        async with client.get(f"{address.partition('?')[0]}jobs/pytorchjobs/default/x") as answer:
            assert answer.status == 502
            assert "The cluster does not answer" in await answer.text()


def test_bad_input(tmp_path: Path) -> None:
    refused = answered("dashboard", "--kubeconfig", str(tmp_path / "missing"))
    assert refused.returncode == 2
    assert "missing" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_without_the_extra_it_says_what_to_install() -> None:
    text = missing_extra(ModuleNotFoundError("No module named 'jinja2'", name="jinja2"))
    assert text == "the dashboard needs: pip install 'jobcommon[dashboard]'"
