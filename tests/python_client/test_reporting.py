"""`report_progress`: what is reported, by which process, and that the program neither waits nor fails."""

import json
import ssl
import subprocess
import sys
import threading
from fractions import Fraction
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from jobcommon.sdk import reporting
from jobcommon.sdk.reporting import is_first, status_of
from localcluster.client import self_signed

#: what is reported at second 100: step, total, metrics; the first step and its time; percentage, seconds left, and the metrics
REPORTS: dict[str, tuple[int, float | None, dict[str, Any], tuple[int, float], int | None, int | None, dict[str, str]]] = {
    "the first": (1, 40, {}, (1, 100), 2, None, {"current_step": "1", "total_steps": "40"}),
    "after ten steps in 50 s": (11, 41, {}, (1, 50), 26, 150, {"current_step": "11", "total_steps": "41"}),
    "resumed at 100": (110, 200, {}, (100, 90), 55, 90, {"current_step": "110", "total_steps": "200"}),
    "the last step": (40, 40, {}, (40, 100), 100, 0, {"current_step": "40", "total_steps": "40"}),
    "beyond the last": (41, 40, {}, (1, 50), 100, 0, {"current_step": "41", "total_steps": "40"}),
    "no total": (7, None, {}, (1, 50), None, None, {"current_step": "7"}),
    "Lightning without a limit": (7, float("inf"), {}, (1, 50), None, None, {"current_step": "7"}),
    "or by epochs": (7, -1, {}, (1, 50), None, None, {"current_step": "7"}),
    "metrics": (
        7, None, {"loss": 0.123456789, "checkpoint": 20_000_001, "phase": "train", "empty": ""}, (1, 50), None, None,
        {"current_step": "7", "loss": "0.123457", "checkpoint": "20000001", "phase": "train"},
    ),
    "numbers of other libraries": (
        7, None, {"loss": Fraction(1, 2), "epoch": True, "rates": [1.0, 2.0]}, (1, 50), None, None,
        {"current_step": "7", "loss": "0.5", "epoch": "1", "rates": "[1.0, 2.0]"},
    ),
    "too long": (7, None, {"n" * 70: "v" * 70}, (1, 50), None, None, {"current_step": "7", "n" * 64: "v" * 64}),
}  # fmt: skip


@pytest.mark.parametrize(("step", "total", "metrics", "began", "percentage", "left", "named"), REPORTS.values(), ids=REPORTS)
def test_a_report(
    step: int, total: float | None, metrics: dict[str, Any], began: tuple[int, float], percentage: int | None,
    left: int | None, named: dict[str, str],
) -> None:  # fmt: skip
    made = status_of(step, total, metrics, began, 100)
    assert (made.get("progressPercentage"), made.get("estimatedRemainingSeconds")) == (percentage, left)
    assert {metric["name"]: metric["value"] for metric in made["metrics"]} == named


def tf(kind: str, index: int, *types: str) -> dict[str, str]:
    return {"TF_CONFIG": json.dumps({"cluster": {name: [] for name in types}, "task": {"type": kind, "index": index}})}


RANKS: dict[str, tuple[dict[str, str], bool]] = {
    "no ranks": ({}, True),
    "torch": ({"RANK": "0"}, True),
    "torch, another": ({"RANK": "1", "PROCESS_ID": "0"}, False),
    "Open MPI": ({"OMPI_COMM_WORLD_RANK": "3"}, False),
    "JAX": ({"PROCESS_ID": "1"}, False),
    "TensorFlow's chief": (tf("chief", 0, "chief", "worker"), True),
    "its worker beside a chief": (tf("worker", 0, "chief", "worker"), False),
    "its worker": (tf("worker", 0, "ps", "worker"), True),
    "another worker": (tf("worker", 1, "worker"), False),
    "a server": (tf("ps", 0, "ps", "worker"), False),
    "no TF_CONFIG": ({"TF_CONFIG": "[]"}, True),
}


@pytest.mark.parametrize(("environ", "first"), RANKS.values(), ids=RANKS)
def test_rank_0_reports(environ: dict[str, str], first: bool) -> None:
    assert is_first(environ) == first


class _Server(BaseHTTPRequestHandler):
    """Takes reports."""

    received: Queue[tuple[str, dict[str, Any]]] = Queue()

    def do_POST(self) -> None:
        """One report."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.received.put((self.headers["Authorization"], body["trainerStatus"]))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


def test_what_is_left_is_sent_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, server = self_signed(), HTTPServer(("127.0.0.1", 0), _Server)
    for name, content in (("ca", made.pem), ("key", made.key), ("token", b"secret")):
        (tmp_path / name).write_bytes(content)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "ca", tmp_path / "key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name, value in (("URL", f"https://127.0.0.1:{server.server_port}/status"), ("CA_CERT", "ca"), ("TOKEN", "token")):
        monkeypatch.setenv(f"KUBEFLOW_TRAINER_SERVER_{name}", value if name == "URL" else str(tmp_path / value))
    for name in reporting.RANKS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(reporting, "EXIT_SECONDS", 60.0)
    reporting.Process.forget()
    reporting.report_progress(1, 10, loss=0.5)
    assert _Server.received.get(timeout=60)[0] == "Bearer secret"
    reporting.report_progress(2, 10, phase="train")
    reporting.Process.end()
    reporting.Process.forget()
    server.shutdown()
    server.server_close()
    last = _Server.received.get(timeout=60)[1]
    assert {one["name"]: one["value"] for one in last["metrics"]} == {
        "current_step": "2", "total_steps": "10", "loss": "0.5", "phase": "train",
    }  # fmt: skip


def test_a_program_ends_although_the_operator_never_answers(tmp_path: Path) -> None:
    """As a copy of the file, by a Python without packages. The address is one that accepts connections and says nothing."""
    (tmp_path / "reporting.py").write_bytes(Path(reporting.__file__).read_bytes())
    (tmp_path / "token").write_text("token")
    program = """
import os, socket, ssl, sys
sys.path.insert(0, os.getcwd())
silent = socket.create_server(("127.0.0.1", 0))
os.environ["KUBEFLOW_TRAINER_SERVER_URL"] = f"https://127.0.0.1:{silent.getsockname()[1]}/status"
os.environ["KUBEFLOW_TRAINER_SERVER_CA_CERT"] = ssl.get_default_verify_paths().openssl_cafile
os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"] = "token"
from reporting import report_progress
for step in range(100):
    report_progress(step, 100, loss=object())
if os.fork() == 0:
    report_progress("no step", 100)
    sys.exit()
print("trained", os.waitstatus_to_exitcode(os.wait()[1]))
"""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=180
    )
    assert (done.stdout, done.stderr) == ("trained 0\n", "")
