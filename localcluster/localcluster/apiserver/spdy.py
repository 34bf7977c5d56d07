"""The part of SPDY/3.1 that port forwarding needs: frames to and from bytes, no I/O.

kubectl forwards ports over SPDY streams, since 1.31 inside a WebSocket. Source: the SPDY/3.1 draft, sections 2.2, 2.6 and
2.6.10. Flow control is left out, as kubectl's own implementation leaves it out.
"""

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING = 1, 2, 3, 6
_FIN = 1
_CONTROL = 0x8000
_VERSION = 3
_LARGEST_FRAME = 1 << 20

_WORDS = (
    "options", "head", "post", "put", "delete", "trace", "accept", "accept-charset", "accept-encoding", "accept-language",
    "accept-ranges", "age", "allow", "authorization", "cache-control", "connection", "content-base", "content-encoding",
    "content-language", "content-length", "content-location", "content-md5", "content-range", "content-type", "date",
    "etag", "expect", "expires", "from", "host", "if-match", "if-modified-since", "if-none-match", "if-range",
    "if-unmodified-since", "last-modified", "location", "max-forwards", "pragma", "proxy-authenticate",
    "proxy-authorization", "range", "referer", "retry-after", "server", "te", "trailer", "transfer-encoding", "upgrade",
    "user-agent", "vary", "via", "warning", "www-authenticate", "method", "get", "status", "200 OK", "version", "HTTP/1.1",
    "url", "public", "set-cookie", "keep-alive", "origin",
)  # fmt: skip
_TAIL = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 Non-Authoritative "
    "Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden404 Not Found500 Internal "
    "Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, "
    "Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,"
    "text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
#: The dictionary that both ends' header compression starts from (2.6.10.1).
DICTIONARY = b"".join(struct.pack(">I", len(word)) + word.encode() for word in _WORDS) + _TAIL.encode()


class SpdyError(ValueError):
    """The bytes are not SPDY/3.1."""


class Frame(NamedTuple):
    """What the peer did with a stream: opened it, sent data on it, or reset it; `fin`: and no more will come.

    A ping is to be answered with its number, which is in place of a stream's.
    """

    kind: Literal["open", "data", "reset", "ping"]
    stream: int
    data: bytes = b""
    fin: bool = False
    headers: Mapping[str, str] = {}


@dataclass(slots=True)
class Connection:
    """Both directions of one connection; header compression has state, so frames must be used in the order they are made."""

    _buffer: bytearray = field(default_factory=bytearray)
    _inflate: "zlib._Decompress" = field(default_factory=lambda: zlib.decompressobj(zdict=DICTIONARY))
    _deflate: "zlib._Compress" = field(default_factory=lambda: zlib.compressobj(zdict=DICTIONARY))

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that these bytes complete. Raises SpdyError; the connection cannot be used afterwards."""
        self._buffer += data
        while len(self._buffer) >= 8:
            first, second = struct.unpack_from(">II", self._buffer)
            length = second & 0xFFFFFF
            if length > _LARGEST_FRAME:
                raise SpdyError(f"a frame of {length} bytes is too large")
            if len(self._buffer) < 8 + length:
                return
            payload = bytes(self._buffer[8 : 8 + length])
            del self._buffer[: 8 + length]
            event = self._event(first, second >> 24, payload)
            if event is not None:
                yield event

    def _event(self, first: int, flags: int, payload: bytes) -> Frame | None:
        if first >> 16 & _CONTROL == 0:
            return Frame("data", first, payload, bool(flags & _FIN))
        kind = first & 0xFFFF
        try:
            if kind == _SYN_STREAM:
                (stream,) = struct.unpack_from(">I", payload)
                return Frame("open", stream & 0x7FFFFFFF, headers=self._headers(payload[10:]))
            if kind == _RST_STREAM:
                return Frame("reset", struct.unpack_from(">I", payload)[0] & 0x7FFFFFFF, fin=True)
            if kind == _PING:
                return Frame("ping", struct.unpack(">I", payload)[0])
        except (struct.error, zlib.error, UnicodeDecodeError) as error:
            raise SpdyError(f"a frame of type {kind} is damaged: {error}") from None
        return None

    def _headers(self, block: bytes) -> dict[str, str]:
        plain = self._inflate.decompress(block)
        (count,) = struct.unpack_from(">I", plain)
        position = 4
        texts: list[str] = []
        for _ in range(2 * count):
            (length,) = struct.unpack_from(">I", plain, position)
            position += 4 + length
            texts.append(plain[position - length : position].decode())
        return {name.lower(): value for name, value in zip(texts[::2], texts[1::2], strict=True)}

    def reply(self, stream: int) -> bytes:
        """Accept a stream, without headers."""
        block = self._deflate.compress(struct.pack(">I", 0)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        return _control(_SYN_REPLY, struct.pack(">I", stream) + block)

    @staticmethod
    def data(stream: int, data: bytes, *, fin: bool = False) -> bytes:
        """Send data on a stream."""
        return struct.pack(">II", stream, (_FIN if fin else 0) << 24 | len(data)) + data

    @staticmethod
    def pong(number: int) -> bytes:
        """Answer a ping."""
        return _control(_PING, struct.pack(">I", number))


def _control(kind: int, payload: bytes) -> bytes:
    return struct.pack(">HHI", _CONTROL | _VERSION, kind, len(payload)) + payload
