"""Clues, each by its own example and near miss; and which of the errors that a program printed is its cause."""

import tomllib
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from jobcommon.causes import clues
from jobcommon.causes.clues import Table, table
from jobcommon.causes.error_lines import error_in
from jobcommon.causes.programs import end_of_program
from jobcommon.client.lines import shown_lines
from jobcommon.testutil.effort import effort

TABLES = ("clue", "script", "command", "refused", "unschedulable", "pull", "missing", "mount", "probe")
CLUES = [pytest.param(name, clue, id=f"{name}: {clue.example[:60]}") for name in TABLES for clue in table(name).clues]
WITHOUT_RE2 = {name: Table(table(name).clues, linear=False) for name in TABLES}


@pytest.mark.parametrize(("name", "clue"), CLUES)
def test_a_clue_matches_its_example_and_not_its_near_miss(name: str, clue: clues.Clue) -> None:
    """With RE2 and, where there is no wheel, with re."""
    for engine in (table(name), WITHOUT_RE2[name]):
        assert engine.matching(clue.example)[:1] == [clue]
        assert clue not in engine.matching(clue.miss)
    groups = table(name).place(clue, clue.example)[1]
    assert groups == WITHOUT_RE2[name].place(clue, clue.example)[1]
    for local in (False, True):
        made = clue.cause(clue.example, groups, local=local)
        assert made.text
        assert made.advice


def test_there_are_few_clues() -> None:
    assert len(CLUES) <= 120


ROWS: dict[str, dict[str, Any]] = tomllib.loads((Path(__file__).parent / "programs.toml").read_text(encoding="utf-8"))
SIGNALS = {134: "SIGABRT", 137: "SIGKILL", 139: "SIGSEGV", 143: "SIGTERM"}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_the_cause_is_that_of_the_error(row: dict[str, Any]) -> None:
    code, printed = row["code"], row["printed"]
    made = end_of_program(SIGNALS.get(code, "Error"), code, "", shown_lines(printed))
    assert (made.reason, row["text"] in made.text) == (row["reason"], True), made
    assert made.advice
    # Where pods are processes of this machine there are no images.
    made = end_of_program("Error", code, "", printed.splitlines(), local=True)
    assert not {"image", "nvidia.com/gpu", "NetworkPolicy"} & {word.strip(",.;") for word in made.advice.split()}, made


# In loops of about a millisecond; re takes longer than RE2.
OF_RE = 400
LIMIT = 60 if clues.re2 is not None else OF_RE
HOSTILE = (
    "a", "\n", "error: ", "{", '{"a":', "[1,0]<stderr>:", "host=a.b", "-", "a.", "1", "(0x1 in ", "A_", " | ", "1%|", "NCCL ",
    "connection ", "Traceback (most recent call last):\nE: x:\n", "ValueError: x\n", '  File "/a.py", line 3, in f\n    x\n',
    f"{30 * '-'}\nfoo error\n", "009 ERROR x Traceback (most recent call last)\n", "mpirun noticed that process rank 1 ",
    "tasks that reached the barrier: 1/2 ",
)  # fmt: skip


@pytest.mark.parametrize("part", HOSTILE)
@pytest.mark.parametrize("reason", ["Error", "SIGKILL"])
def test_any_message_is_read_in_a_bounded_time(part: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Generous, and a thousandth of what a pattern with two wildcards takes."""
    # What has been read is kept.
    messages = (f"{(part * 4096)[:4090]}{number}" for number in count())

    def cost(read: Callable[..., object], allowed: float) -> float:
        return effort(lambda: read(reason, 1, next(messages)), allowed)

    end_of_program(reason, 1, "ValueError: x")
    assert cost(error_in, 10) < 10
    assert cost(end_of_program, LIMIT) < LIMIT
    for module in ("clues", "programs"):
        monkeypatch.setattr(f"jobcommon.causes.{module}.table", WITHOUT_RE2.__getitem__)
    assert cost(end_of_program, OF_RE) < OF_RE


def test_a_long_error_keeps_its_beginning_and_its_end() -> None:
    long = f"Traceback (most recent call last):\nRuntimeError: no answer of {'x' * 500}: [Errno 111] Connection refused"
    assert all(part in error_in("Error", 1, long) for part in ("no answer", "[Errno 111] Connection"))
    assert error_in("Error", 127, long) == ""


@pytest.mark.parametrize(
    ("message", "reason", "said"),
    [
        ('exec: "python train.py --lr 3e-4": executable file not found in $PATH', "CommandNotFound", "give each word an item"),
        ("[Errno 2] No such file or directory: '/nope'", "WorkingDirectoryNotFound", "workingDir"),
        ("nvidia-container-cli: initialization error", "GpuUnusable", "reboot the node"),
        ("error running hook #0: fork/exec /usr/bin/x: no such file or directory", "ContainerNotCreated", "the node could not"),
        (
            "error executing hook `/usr/bin/nvidia-container-runtime-hook` (exit code: 1)",
            "ContainerNotCreated",
            "the node could not",
        ),
    ],
)
def test_a_container_that_was_not_started_is_explained(message: str, reason: str, said: str) -> None:
    made = end_of_program("StartError", 128, message)
    assert (made.reason, said in made.advice) == (reason, True)


def test_what_is_left_of_a_log_is_told() -> None:
    assert "last lines" in end_of_program("Error", 1, "", ["bye"]).advice
    assert "terminationMessagePolicy" in end_of_program("Error", 1, "", gone=True).advice
    assert end_of_program("OOMKilled", 137, "").reason == "OOMKilled"
    assert "faulthandler" not in end_of_program("SIGSEGV", 139, "", ROWS["a crash"]["printed"].splitlines()).advice
