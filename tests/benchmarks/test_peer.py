"""Another operator beside ours: its command, its account, its turns, and the table."""

import asyncio
import json
import sys
from pathlib import Path

import pytest
import yaml

from benchmarks import report
from benchmarks.__main__ import main
from benchmarks.apiserver import EMBEDDED, Server, operators_requests
from benchmarks.comparison import peer_result
from benchmarks.lifecycle_timings import LifecycleTimings, Spread
from benchmarks.peer import Peer, PeerProcess, with_token
from benchmarks.processes import cpu_seconds
from benchmarks.record import PeerResult, Results
from benchmarks.workloads import PER_JOB, PER_POD, Workload, baseline_writes
from jobcommon.client.transport import StaticEndpoint
from jobcommon.framework import FINALIZER
from localcluster.kubeconfig import kubeconfig

OURS = f"{sys.executable} -m jobcommon.cli operator --kubeconfig {{kubeconfig}} --framework tensorflow --metrics-port -1"


def test_the_command_is_given_the_server_and_the_kubeconfig() -> None:
    server = Server("test", StaticEndpoint("https://127.0.0.1:6443"), Path("/none"))
    found = Peer("sh -c 'run --config={kubeconfig} {server}'").arguments(server, Path("/tmp/k"))
    assert Path(found[0]).name == "sh"
    assert found[1:] == ["-c", "run --config=/tmp/k https://127.0.0.1:6443"]


def test_a_table_names_the_program_without_its_directory(tmp_path: Path) -> None:
    program = tmp_path / "some-operator"
    program.write_bytes(b"#!/bin/sh\n")
    program.chmod(0o700)
    assert Peer(f"{program} -qps 10").name == "some-operator -qps 10 (sha256 a8076d3d28d2)"


@pytest.mark.parametrize("command", ["", "no-such-program -x"])
def test_a_command_without_a_program_is_refused(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["benchmarks", "--peer", command])
    with pytest.raises(SystemExit):
        main()
    assert f"--peer: {command!r} names no program that can be run" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--peer", "sh", "--only", "memory"], ["--services", "pod"]])
def test_unsupported_comparisons_are_refused(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["benchmarks", *arguments])
    with pytest.raises(SystemExit):
        main()
    assert "--peer" in capsys.readouterr().err


def test_the_kubeconfig_of_the_peer_has_its_token_and_the_same_server() -> None:
    before = kubeconfig("https://127.0.0.1:6443", "admin", b"PEM")
    after = yaml.safe_load(with_token(before, "its-own", "there"))
    assert after["clusters"] == yaml.safe_load(before)["clusters"]
    [context] = after["contexts"]
    [user] = after["users"]
    assert context["context"]["user"] == user["name"]
    assert context["context"]["namespace"] == "there"
    assert user["user"] == {"token": "its-own"}
    assert "admin" not in str(after)


@pytest.mark.parametrize(("services", "count", "finalizers"), [(PER_JOB, 1, [FINALIZER]), (PER_POD, 3, None)])
def test_the_plain_client_writes_what_the_operator_does(services: str, count: int, finalizers: list[str] | None) -> None:
    writes = baseline_writes(Workload(1, 3, whole=True), "a", services)
    pods = [json.loads(write.body or b"") for write in writes if write.path.endswith("/pods")]
    assert sum(write.path.endswith("/services") for write in writes) == count
    assert len(pods) == 3
    assert all(pod["metadata"].get("finalizers") == finalizers for pod in pods)


async def test_a_peer_that_ends_is_said_to_have_ended_with_what_it_printed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("no such flag")
    process = await asyncio.create_subprocess_exec("sh", "-c", "exit 3")
    with pytest.raises(RuntimeError, match=r"the peer: it exited with code 3\nno such flag"):
        await PeerProcess(process, log).during(asyncio.Event().wait())


async def test_the_cpu_time_of_descendants_counts() -> None:
    spin = "import os; [os.times() for _ in iter(lambda: sum(os.times()[:2]) < 0.2, False)]; print(flush=True); input()"
    process = await asyncio.create_subprocess_exec(
        "sh", "-c", '"$0" -c "$1"; true', sys.executable, spin, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )  # fmt: skip
    assert process.stdout is not None
    await process.stdout.readline()
    running = cpu_seconds(process.pid)
    assert running >= 0.15
    assert process.stdin is not None
    process.stdin.write(b"\n")
    await process.wait()


def test_the_server_counts_the_requests_of_an_operator_without_those_of_user_and_kubelet() -> None:
    def line(verb: str, resource: str, subresource: str, count: int) -> str:
        return (
            f'apiserver_request_total{{code="200",resource="{resource}",subresource="{subresource}",verb="{verb}"}} {count}\n'
        )

    of_operator = line("POST", "pods", "", 1) + line("PUT", "tfjobs", "status", 2) + line("POST", "events", "", 4)
    of_others = line("POST", "tfjobs", "", 8) + line("PATCH", "pods", "status", 16) + line("PUT", "leases", "", 32)
    watches = line("WATCH", "pods", "", 64) + line("LIST", "pods", "", 128)
    assert operators_requests("# HELP apiserver_request_total\n" + of_operator + of_others + watches) == 7


def test_the_table_has_ratios_of_rates_of_cpu_and_of_memory() -> None:
    def timings(
        created: float, life: float, cpu: float, resident: int, server: float = 0, requests: float = 0
    ) -> LifecycleTimings:
        none = Spread(0.0, 0.0)
        return LifecycleTimings(created, none, 0.0, none, 0.0, none, none, cpu, cpu / 4, {}, resident, life, server, requests)

    one = PeerResult("50x8", 50, 8, "some-operator (sha256 00)", PER_POD)
    one.baseline, one.operator = [timings(1, 4, 0, 0)], [timings(2, 8, 1, 100_000_000, 2, 9)]
    one.peer_baseline, one.peer_operator = [timings(2, 5, 0, 0)], [timings(4, 10, 4, 50_000_000, 4, 18)]
    text = report.tables(Results("abc", "embedded", "a machine", peers=[one]))
    assert "Peer: some-operator (sha256 00), one Service per pod." in text
    assert "| 50 × 8, created | 400 pods/s | 200 pods/s | 200 pods/s | 100 pods/s | 2.00 × | 0.25 : 1.00 = 0.25 × |" in text
    assert "| 50 × 8 | 40.0 : 80.0 = 0.50 × | 9.0 : 18.0 = 0.50 × |" in text
    assert "| 100 pods/s | 50 pods/s | 80 pods/s | 40 pods/s | 1.25 × | 1.00 : 4.00 = 0.25 × | 100 : 50 = 2.00 × |" in text


@pytest.mark.cluster
@pytest.mark.slow
async def test_an_operator_is_compared_with_itself() -> None:
    found = await peer_result(EMBEDDED, Workload(2, 2), 1, Peer(OURS))
    turns = (found.baseline, found.operator, found.peer_baseline, found.peer_operator)
    assert [len(rounds) for rounds in turns] == [1, 1, 1, 1]
    assert all(timings.life >= timings.created > 0 for [timings] in turns)
    assert found.operator[0].cpu > 0
    assert found.peer_operator[0].cpu > 0
