"""Chunks to lines, and Retry-After in all its forms."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobcommon.client.lines import LineSplitter, SeenLines, last_frame, shown_lines
from jobcommon.client.request import Response
from jobcommon.client.responses import MAX_RETRY_AFTER, response_error, retry_after

PARTS = [b"a", b"bc", b"\n", b"\n\n", b"d\ne", b"", b"f\r\n", b"\r7%", b"8%\r"]


@given(st.lists(st.sampled_from(PARTS)), st.integers(1, 5))
def test_however_it_is_cut_the_lines_are_the_same(parts: list[bytes], size: int) -> None:
    """Beside the lines there is what overwritten ones show meanwhile; that is no line."""
    data = b"".join(parts)
    splitter = LineSplitter()
    got = [line for start in range(0, len(data), size) for line in splitter.feed(data[start : start + size])]
    *whole, rest = data.split(b"\n")
    seen = [last_frame(line.decode()) for line in got if not line.endswith(b"\r")]
    assert seen == [last_frame(line.decode()) for line in whole if line.rstrip(b"\r")]
    assert last_frame(splitter.rest().decode()) == last_frame(rest.decode())


#: what arrives, in pieces, and what is given
BARS = {
    "carriage return first": ([b"T \r1%", b"\r2%", b"\r3%\n"], [b"1%\r", b"2%\r", b"T \r2%\r3%"]),
    "carriage return last": ([b"T 1%\r", b"2%\r", b"3%\r", b"\n"], [b"2%\r", b"3%\r", b"T 1%\r3%"]),
    "cut inside": ([b"T \r1", b"0%", b"\r20%\n"], [b"1\r", b"T \r10%\r20%"]),
    "cleared": ([b"\r1%", b"\r  \r", b"done\n"], [b"1%\r", b"  \r", b"\r  \rdone"]),
    "two half ends": ([b"a\r", b"\nb\r\r\n"], [b"a", b"b"]),
}


@pytest.mark.parametrize(("pieces", "given"), BARS.values(), ids=BARS)
def test_of_a_progress_bar_every_state_is_given(pieces: list[bytes], given: list[bytes]) -> None:
    splitter = LineSplitter()
    assert [line for piece in pieces for line in splitter.feed(piece)] == given


def test_nested_progress_bars_overwrite_lines_that_are_complete() -> None:
    """As tqdm writes one of epochs and one of steps, which is cleared at the end."""
    lines = ["\repoch 0", "\rstep 1\x1b[A", "\rstep 2\x1b[A\repoch 1", "\rstep 3\x1b[1A", "saved", "\r      \r\x1b[A\repoch 2"]
    seen = SeenLines()
    live = [shown for line in lines for shown in seen.feed(line)]
    assert live == ["epoch 0", "step 1\r", "epoch 1\r", "step 3\r", "step 3", "saved", "epoch 2\r"]
    assert [*seen.rest()] == ["epoch 2"]
    assert shown_lines("\n".join([*lines, ""])) == ["epoch 0", "step 3", "saved", "epoch 2"]


ASKED: dict[str | None, float | None] = {
    None: None,
    "": None,
    "0": 0.0,
    "7": 7.0,
    " 7 ": 7.0,
    "32": 32.0,
    "301": MAX_RETRY_AFTER,
    "9" * 10_000: MAX_RETRY_AFTER,
    "-1": None,
    "1.5": None,
    "٣": None,
    "soon": None,
    "Thu, 09 Oct 2025 08:53:29 GMT": None,
}


@pytest.mark.parametrize("header", ASKED, ids=lambda header: repr(header)[:30])
def test_how_long_a_server_asks_us_to_wait(header: str | None) -> None:
    assert retry_after(header) == ASKED[header]


STATUSES: dict[bytes, tuple[str, str, float | None]] = {
    b'{"reason":"Conflict","message":"m","code":409}': ("Conflict", "m", None),
    b'{"reason":"ServerTimeout","details":{"retryAfterSeconds":3}}': ("ServerTimeout", "", 3.0),
    b'{"details":{"retryAfterSeconds":-3}}': ("", "", 0.0),
    b'{"code":200,"reason":null}': ("", "", None),
    b"<html>bad gateway</html>": ("", "", None),
    b"": ("", "", None),
    b'{"code":"x"}': ("", "", None),
    b"[]": ("", "", None),
}


@pytest.mark.parametrize("body", STATUSES)
def test_the_error_in_a_response(body: bytes) -> None:
    error = response_error(Response(502, body))
    assert (error.code, error.reason, error.message, error.retry_after) == (502, *STATUSES[body])
