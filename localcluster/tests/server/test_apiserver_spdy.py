"""SPDY framing, and a port forwarded over it."""

import contextlib
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localcluster.apiserver.spdy import DICTIONARY, Connection, Data, Event, Opened, Ping, Reset, SpdyError


class Peer:
    """The client's end."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def open(self, stream: int, headers: dict[str, str], *, fin: bool = False) -> bytes:
        pairs = b"".join(struct.pack(">I", len(text)) + text.encode() for pair in headers.items() for text in pair)
        block = self._deflate.compress(struct.pack(">I", len(headers)) + pairs) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        payload = struct.pack(">IIH", stream, 0, 0) + block
        return control(1, payload, fin=fin)


def control(kind: int, payload: bytes, *, fin: bool = False) -> bytes:
    return struct.pack(">HHI", 0x8003, kind, int(fin) << 24 | len(payload)) + payload


def events(connection: Connection, data: bytes, piece: int = 1 << 20) -> list[Event]:
    return [event for start in range(0, len(data), piece) for event in connection.feed(data[start : start + piece])]


def test_the_dictionary_is_the_one_of_the_draft() -> None:
    assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (1423, 0xE3C6A7C2)


@pytest.mark.parametrize("piece", [1, 3, 1000])
def test_frames_in_any_cut(piece: int) -> None:
    peer = Peer()
    first = {"streamType": "error", "port": "80", "requestID": "0"}
    sent = peer.open(1, first) + peer.open(3, {**first, "streamType": "data"}, fin=True)
    sent += (
        Connection.data(3, b"hello")
        + Connection.data(3, b"", fin=True)
        + control(4, b"settings")
        + control(6, struct.pack(">I", 7))
    )
    sent += control(3, struct.pack(">II", 1, 5))
    assert events(Connection(), sent, piece) == [
        Opened(1, {"streamtype": "error", "port": "80", "requestid": "0"}, fin=False),
        Opened(3, {"streamtype": "data", "port": "80", "requestid": "0"}, fin=True),
        Data(3, b"hello", fin=False),
        Data(3, b"", fin=True),
        Ping(7),
        Reset(1),
    ]


def test_replies_share_one_compression() -> None:
    connection, inflate = Connection(), zlib.decompressobj(zdict=DICTIONARY)
    for stream in (1, 3):
        frame = connection.reply(stream)
        assert struct.unpack_from(">HHI", frame) == (0x8003, 2, len(frame) - 8)
        assert struct.unpack_from(">I", frame, 8) == (stream,)
        assert inflate.decompress(frame[12:]) == b"\x00\x00\x00\x00"
    assert connection.pong(7) == control(6, struct.pack(">I", 7))


@pytest.mark.parametrize("frame", [control(1, b"x" * 12), control(1, b""), control(6, b""), struct.pack(">II", 1, 0xFFFFFF)])
def test_damage(frame: bytes) -> None:
    with pytest.raises(SpdyError):
        events(Connection(), frame)


@given(st.lists(st.one_of(st.binary(max_size=30), st.builds(control, st.integers(0, 12), st.binary(max_size=20))), max_size=5))
def test_any_bytes_are_read_or_refused(pieces: list[bytes]) -> None:
    with contextlib.suppress(SpdyError):
        events(Connection(), b"".join(pieces))
