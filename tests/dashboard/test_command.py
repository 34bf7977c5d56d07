"""`jobcommon dashboard` as a process: what it prints, and how it ends."""

import signal
import socket
from pathlib import Path

import yaml

from tests.cli.commands import PATIENCE, answered, started


def test_the_dashboard_starts_without_a_cluster_and_stops_cleanly(tmp_path: Path) -> None:
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")
    arguments = ("dashboard", "--kubeconfig", str(kubeconfig), "--framework", "pytorch")
    with started(*arguments, until="Ctrl-C stops it") as process:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            refused = answered(*arguments, "--port", str(taken.getsockname()[1]))
        assert refused.returncode == 2
        assert "the port is in use; choose another" in refused.stderr
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=PATIENCE)
        assert out == "The dashboard is stopped.\n"
        assert process.returncode == 0
