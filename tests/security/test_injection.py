"""S8: text that wants to be code."""

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobcommon.framework import Framework
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mpi.hosts import KUBECTL, files
from jobcommon.reconcile import plan, read_job
from jobcommon.reconcile.plan import Create
from jobcommon.testutil.builders import START, job_manifest, observe
from jobcommon.testutil.frameworks import TEST_JOB
from tests.kinds import EVERY_KIND

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
@EVERY_KIND
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
