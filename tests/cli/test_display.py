"""What is shown: the state of pods in a word, and nothing that steers the terminal."""

from typing import Any

import pytest

from cli.display import clean
from cli.following import describe


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[2Jgone", "gone"),
        ("a\tb", "a\tb"),
        ("bell\x07 and \x9b31m", "bell and 31m"),
        ("50%\r100%", "50%100%"),
    ],
)
def test_control_sequences_are_taken_out(raw: str, shown: str) -> None:
    assert clean(raw) == shown


def pod(status: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"metadata": metadata, "status": status}


def container(**state: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "c", "state": state}]}


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (pod({}), "Pending"),
        (pod({"phase": "Running"} | container(running={})), "Running"),
        (pod({"phase": "Pending"} | container(waiting={"reason": "ErrImageNeverPull"})), "ErrImageNeverPull"),
        (pod({"phase": "Failed"} | container(terminated={"reason": "Error", "exitCode": 3})), "Error"),
        (pod({"phase": "Succeeded"} | container(terminated={"reason": "Completed", "exitCode": 0})), "Completed"),
        (pod({"phase": "Failed", "reason": "Evicted"}), "Evicted"),
        (pod({"phase": "Running"}, deletionTimestamp="2026-01-01T00:00:00Z"), "Terminating"),
    ],
)
def test_a_pod_in_a_word(body: dict[str, Any], word: str) -> None:
    assert describe(body) == word
