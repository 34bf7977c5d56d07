"""S8, S11 to S13: text that wants to be code, a log line, a terminal's command, or a great deal of work."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobcommon.api.pod import pod_view
from jobcommon.api.quantity import parse_quantity
from jobcommon.api.replica import parse_indexes
from jobcommon.api.timestamp import parse_time
from jobcommon.cli.yaml_document import LIMITS, DocumentError, documents
from jobcommon.client.status import retry_after
from jobcommon.framework import Framework, Replica
from jobcommon.operators.jax import JAX
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mpi.hosts import KUBECTL, files
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.paddle import PADDLE
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.operators.xgboost import XGBOOST
from jobcommon.reconcile import plan, read_job
from jobcommon.reconcile.children import pod_manifest
from jobcommon.reconcile.plan import Create
from jobcommon.runtime import logging
from jobcommon.testutil.builders import START, job_manifest, observe
from jobcommon.testutil.effort import effort
from jobcommon.testutil.frameworks import TEST_JOB

HOSTILE = [
    "a;reboot",
    "a\nb",
    "$(id)",
    "`id`",
    "a b",
    "a'b",
    'a"b',
    "../x",
    "-rf",
    "a%sb",
    "{0}",
    "\x1b[31m",
    "a\x00b",
    "Ä",
    "a" * 64,
]


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("framework", [TF, PYTORCH, MXNET, MPI, JAX, XGBOOST, PADDLE], ids=lambda f: f.name)
def test_s08_a_name_that_is_no_dns_label_gets_nowhere(framework: Framework, name: str) -> None:
    """An API server lets none through, but the operator does not count on it."""
    replicas = {"Launcher": 1, "Worker": 1} if framework is MPI else {"Worker": 1}
    manifest = job_manifest(framework, replicas, name=name)
    decided = plan(framework, read_job(framework, manifest), observe(TEST_JOB, job_manifest(TEST_JOB, {"Worker": 1})), START)
    assert not [a for a in decided.actions if isinstance(a, Create)]
    assert decided.status is not None
    assert decided.status.conditions[-1].reason == "InvalidSpec"


TEXT = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1, max_size=40)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(TEXT)
def test_s08_a_container_name_in_the_remote_shells_script_stays_one_word(name: str) -> None:
    """The one word in a script of ours that is not a validated name, executed by a real shell."""
    job = read_job(MPI, job_manifest(MPI, {"Launcher": 1, "Worker": 1}, transport="Exec", mainContainer=name))
    script = files(job, ())["kubexec.sh"]
    assert script.count(KUBECTL) == 1
    shown = script.replace(f"exec {KUBECTL}", "printf '%s\\0'")
    argv = ["/bin/sh", "-s", "-x", "demo-worker-0", "true"]
    done = subprocess.run(argv, input=shown.encode(), capture_output=True, timeout=180)
    words = done.stdout.decode().split("\0")[:-1]
    assert words == [*("exec", "--namespace", "default", "demo-worker-0", "--container", name, "--", "/bin/sh", "-c", "true")]


def test_s08_the_scripts_hold_names_only() -> None:
    manifest = job_manifest(MPI, {"Launcher": 1, "Worker": 3})
    pods = observe(MPI, manifest, {"Worker-1": "running"}).pods
    for name, text in files(read_job(MPI, manifest), pods).items():
        assert not set(text) & set(";$`&|<>(){}\\'\"") or name == "kubexec.sh", name
        if name.endswith(".sh"):
            subprocess.run(["/bin/sh", "-n"], input=text, text=True, timeout=180, check=True)


def test_s08_the_cluster_in_an_environment_variable_is_json() -> None:
    job = read_job(TF, job_manifest(TF, {"Chief": 1, "Worker": 2}))
    (container,) = pod_manifest(TF, job, Replica("Worker", 1))["spec"]["containers"]
    (value,) = (e["value"] for e in container["env"] if e["name"] == "TF_CONFIG")
    assert json.loads(value)["task"] == {"type": "worker", "index": 1}


NASTY = "\x1b[2J\x1b]0;owned\x07%s {0} {job.__class__}\r\n2026-01-01 level=info forged line\x9b31m"


@pytest.mark.parametrize("form", ["json", "console"])
def test_s11_what_a_container_says_forges_no_log_line_and_steers_no_terminal(form: str) -> None:
    out = StringIO()
    log = logging.setup(form, "debug", out)
    with logging.bound(job=NASTY):
        log.info("transition", message=NASTY, actions=[NASTY])
        try:
            raise ValueError(NASTY)
        except ValueError:
            log.error("write", error=NASTY)
    text = out.getvalue()
    assert len(text.splitlines()) == 2
    assert not [c for c in text if (ord(c) < 32 and c != "\n") or 0x7F <= ord(c) < 0xA0]


def test_s11_a_message_is_never_a_format_string_and_never_cut_off_the_story() -> None:
    manifest = job_manifest(TEST_JOB, {"Worker": 1}, policy="Never")
    job = read_job(TEST_JOB, manifest)
    pods = observe(TEST_JOB, manifest, {"Worker-0": "failed 3"})
    raw = {"terminated": {"exitCode": 3, "reason": "Error", "message": NASTY}}
    pod = {
        "metadata": {
            "name": "demo-worker-0",
            "uid": "u",
            "ownerReferences": [{"uid": job.uid, "controller": True, "kind": "T"}],
        },
        "status": {"phase": "Failed", "containerStatuses": [{"name": "test-container", "state": raw}]},
    }
    seen = type(pods)(pods=(pod_view(json.dumps(pod).encode()),), services=pods.services)
    decided = plan(TEST_JOB, job, seen, START)
    assert decided.status is not None
    assert "%s {0} {job.__class__}" in decided.status.failures[0].message


LONG = 200_000
BOMBS = [
    "9" * LONG,
    "1e999999999",
    "1e-999999999",
    "." * LONG,
    "0" * LONG + "Ki",
    "1" + "_" * LONG,
    "+" * LONG,
    "1.5e" + "9" * 300,
]
PARSERS: list[Callable[[Any], object]] = [
    parse_quantity,
    parse_time,
    retry_after,
    lambda text: parse_indexes(text, 10_000),
    lambda text: parse_indexes(",".join(["0-99999999"] * 1000), 10_000),
]


@pytest.mark.parametrize("parser", PARSERS, ids=["quantity", "time", "retry-after", "indexes", "ranges"])
@pytest.mark.parametrize("text", BOMBS, ids=lambda t: f"{t[:6]}...{len(t)}")
def test_s12_no_text_is_much_work(parser: Callable[[Any], object], text: str) -> None:

    def parse() -> None:
        # That it is nonsense may be said.
        with suppress(ValueError):
            parser(text)

    assert effort(parse, 50) < 50


BILLION = "a: &a [x, x]\n" + "\n".join(f"{chr(98 + i)}: &{chr(98 + i)} [*{chr(97 + i)}, *{chr(97 + i)}]" for i in range(24))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(BILLION, id="billion laughs"),
        pytest.param("x: " + "[" * 5000 + "]" * 5000, id="depth"),
        pytest.param("{" * 100_000, id="depth, not closed"),
        pytest.param("- x\n" * (LIMITS.values + 1), id="values", marks=pytest.mark.slow),
        pytest.param("x: " + "y" * LIMITS.size, id="size"),
        pytest.param("!!python/object/apply:os.system ['touch owned']", id="object"),
        pytest.param("!!python/name:os.system ''", id="name"),
        pytest.param("a: &a [*a]", id="itself"),
    ],
)
def test_s13_a_bomb_in_yaml_or_json_is_refused_before_it_goes_off(text: str, tmp_path: Path) -> None:

    def read() -> None:
        with pytest.raises(DocumentError):
            list(documents(text))

    assert effort(read, 5000, tries=2) < 5000
    assert not (Path.cwd() / "owned").exists()


@pytest.mark.parametrize("command", [("convert",), ("plan", "-f"), ("run", "-f")], ids=lambda c: c[0])
def test_s13_every_command_that_reads_a_file_has_the_limits(command: tuple[str, ...], tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.yaml"
    bomb.write_text(BILLION)
    done = subprocess.run(
        [sys.executable, "-m", "jobcommon.cli", *command, str(bomb)],
        capture_output=True,
        text=True,
        timeout=180,
        env=dict(os.environ),
    )
    assert done.returncode == 2
    assert "error:" in done.stderr
    assert "Traceback" not in done.stderr
