"""Chunks to lines, and Retry-After in all its forms."""

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobcommon.client.lines import LineSplitter
from jobcommon.client.request import Response
from jobcommon.client.responses import MAX_RETRY_AFTER, response_error, retry_after

NOW = 1_760_000_000.0


@given(st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\n\n", b"d\ne", b"", b"f\r\n"])), st.integers(1, 5))
def test_however_it_is_cut_the_lines_are_the_same(parts: list[bytes], size: int) -> None:
    data = b"".join(parts)
    splitter = LineSplitter()
    got = [line for start in range(0, len(data), size) for line in splitter.feed(data[start : start + size])]
    *whole, rest = data.split(b"\n")
    assert got == [line.removesuffix(b"\r") for line in whole if line.removesuffix(b"\r")]
    assert splitter.rest() == rest


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
    "Mon, 99 Foo 2025": None,
    formatdate(NOW + 9, usegmt=True): 9.0,
    formatdate(NOW - 9, usegmt=True): 0.0,
    formatdate(NOW + 1e6, usegmt=True): MAX_RETRY_AFTER,
    "Thu, 09 Oct 2025 08:53:29 -0000": 9.0,
}


@pytest.mark.parametrize("header", ASKED, ids=lambda header: repr(header)[:30])
def test_how_long_a_server_asks_us_to_wait(header: str | None) -> None:
    assert retry_after(header, NOW) == ASKED[header]


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
