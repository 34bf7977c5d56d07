"""Log lines: their form, their context, and what must not be in them; and the stack of a stall."""

import json
from io import StringIO
from typing import Any

import pytest
from structlog.contextvars import bound_contextvars

from jobcommon.runtime import logging

JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln"


def lines(out: StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_a_line_in_json_carries_the_context() -> None:
    out = StringIO()
    log = logging.setup("json", "info", out).bind(framework="test")
    with bound_contextvars(job="default/train", reconcile_id=7):
        log.info("transition", to="Running")
        log.debug("not shown")
    log.info("afterwards")
    first, second = lines(out)
    assert {k: first[k] for k in ("event", "job", "framework", "reconcile_id", "to", "level")} == {
        "event": "transition",
        "job": "default/train",
        "framework": "test",
        "reconcile_id": 7,
        "to": "Running",
        "level": "info",
    }
    assert first["timestamp"].endswith("Z")
    assert "job" not in second


NASTY = ["two\nlines", "\x1b[31mred", "a\rb", "bell\x07", "next\u2028line", "\x9b31m"]


@pytest.mark.parametrize("form", logging.FORMATS)
@pytest.mark.parametrize("text", NASTY)
def test_logged_text_cannot_forge_lines_or_steer_a_terminal(form: str, text: str) -> None:
    out = StringIO()
    log = logging.setup(form, "info", out)
    log.info(text, message=text, parts=[text], nested={"a": text})
    written = out.getvalue()
    assert written.count("\n") == 1
    assert not any(character in written for character in "\x1b\r\x07\u2028\x9b")


SECRETS: list[dict[str, Any]] = [
    {"token": "canary-value"},
    {"authorization": "canary-value"},
    {"client_secret": "canary-value"},
    {"password": "canary-value"},
    {"headers": {"Authorization": "Bearer canary-value"}},
    {"error": "refused Bearer canary-value here"},
    {"error": ["Basic canary-value"]},
]


@pytest.mark.parametrize("form", logging.FORMATS)
@pytest.mark.parametrize("values", SECRETS)
def test_credentials_are_masked(form: str, values: dict[str, Any]) -> None:
    out = StringIO()
    logging.setup(form, "info", out).info("request", **values)
    assert "canary" not in out.getvalue()
    assert logging.MASK in out.getvalue()


@pytest.mark.parametrize("form", logging.FORMATS)
def test_tokens_in_texts_and_tracebacks_are_masked(form: str) -> None:
    out = StringIO()
    log = logging.setup(form, "info", out)
    try:
        raise ValueError(f"server said no to {JWT}")
    except ValueError:
        log.exception(f"with {JWT}")
    assert JWT not in out.getvalue()
    assert "ValueError" in out.getvalue()


@pytest.mark.parametrize(("form", "level", "message"), [("xml", "info", "log_format"), ("json", "loud", "log_level")])
def test_unknown_choices_are_refused(form: str, level: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        logging.setup(form, level)
