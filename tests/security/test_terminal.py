"""S11: the text of others in all that is printed: it forges no line and steers no terminal."""

import sys
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from jobcommon import JobFailed
from jobcommon.api.status import Failure, JobCondition, JobProgress, JobStatus
from jobcommon.api.text import clean
from jobcommon.cli import main
from jobcommon.cli.display import Display
from jobcommon.cli.doctor import Finding, Severity
from jobcommon.cli.doctor_command import as_json, as_text
from jobcommon.cli.errors import UserError
from jobcommon.cli.followed import FollowedJob, FollowedPod
from jobcommon.cli.jobs import why
from jobcommon.cli.jobs.listing import show_jobs
from jobcommon.diagnosis import Diagnosis
from jobcommon.diagnosis.found import Found
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.reconcile.plan import Plan
from jobcommon.sdk.following import Target
from jobcommon.sdk.progress import Progress
from jobcommon.testutil.builders import START, job_manifest

FORGED = "12:00:00 pytorchjob/forged Succeeded"
NASTY = f"\x1b[2J\x1b]0;owned\x07a\x9b31mb\u202ec\r\n{FORGED}\u2028{FORGED}\x85{FORGED}\x0b{FORGED}\x00"
CONDITION = JobCondition(type=NASTY, reason=NASTY, message=NASTY)
STATUS = JobStatus(
    conditions=[CONDITION], failures=[Failure(replica="Worker-0", pod="p", reason=NASTY, message=NASTY)],
    progress=JobProgress(summary=NASTY),
)  # fmt: skip
MANIFEST = job_manifest(PYTORCH, {"Master": 1})
DIAGNOSIS = Diagnosis(NASTY, NASTY, NASTY, (NASTY,), (NASTY,), NASTY, NASTY, progress=NASTY)
FINDING = Finding(Severity.ERROR, NASTY, NASTY, NASTY, NASTY)
BODY = {**MANIFEST, "status": STATUS.to_json()}


def rich(show: Callable[[Console], Any]) -> Callable[[], str]:
    def printed() -> str:
        out = StringIO()
        show(Console(file=out, width=2000, highlight=False, markup=False, emoji=False))
        return out.getvalue()

    return printed


def followed() -> tuple[FollowedJob, FollowedPod]:
    job = FollowedJob(Target(PYTORCH, "default", "demo"), 1, STATUS)
    pod = FollowedPod("p", job.key, NASTY, NASTY)
    pod.tail.append(NASTY)
    return job, pod


def run(console: Console) -> None:
    job, pod = followed()
    display = Display(console, [job])
    display.condition(job, CONDITION)
    display.pod(pod)
    display.line(pod.name, NASTY)
    display.warning("pod/demo", NASTY)
    display.say(NASTY)


OUTPUTS: dict[str, Callable[[], str]] = {
    "run and logs": rich(run),
    "list": rich(lambda console: show_jobs(console, [Found(PYTORCH, BODY)], START, everywhere=True)),
    "why": rich(lambda console: why.show(console, "pytorchjob/demo", DIAGNOSIS, START)),
    "why -o json": lambda: why.as_json("pytorchjob/demo", DIAGNOSIS),
    "doctor": lambda: as_text([FINDING]),
    "doctor -o json": lambda: as_json([FINDING]),
    "plan": Plan((), STATUS, reason=NASTY).describe,
    "JobFailed": lambda: str(JobFailed("pytorchjob/demo", NASTY, NASTY, NASTY, [NASTY], (), 1, [NASTY])),
}


def assert_harmless(text: str) -> None:
    assert "forged" in text
    steering = [c for c in text if (ord(c) < 32 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0 or c in "\u202e\u2028"]
    assert not steering, text
    assert not [line for line in text.split("\n") if line.strip().startswith(FORGED)], text


@pytest.mark.parametrize("output", OUTPUTS)
def test_s11_the_text_of_others_steers_no_terminal_and_forges_no_line(output: str) -> None:
    assert_harmless(OUTPUTS[output]())


def test_s11_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", out := StringIO())
    Progress(on=True).show("pytorchjob/demo", 1.0, NASTY)
    assert_harmless(out.getvalue())


def test_s11_an_error_of_a_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(**_: object) -> None:
        raise UserError(f"job.yaml: {NASTY}")

    monkeypatch.setattr(main, "app", fail)
    with pytest.raises(SystemExit):
        main.main()
    assert_harmless(capsys.readouterr().err)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"), ("\x1b[2Jgone", "gone"), ("a\tb", "a\tb"), ("bell\x07 and \x9b31m", "bell and 31m"),
        ("50%\r100%", "50%100%"), ("a line\r\n", "a line"), ("right \u202eto left\u2069", "right to left"),
        ("no\n12:00:00 a forged line\u2028and another", "no 12:00:00 a forged line and another"),
        ("\x1b]0;a title\x07and \x1b]8;;http://a.link\x1b\\text", "and text"),
        ("\x1b]0;a title without an end", "]0;a title without an end"),
    ],
)  # fmt: skip
def test_control_sequences_are_taken_out(raw: str, shown: str) -> None:
    assert clean(raw) == shown
