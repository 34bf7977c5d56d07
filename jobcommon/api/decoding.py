"""Decoding JSON that may be anything, with one kind of error: text that is not UTF-8, or nested too deep, is not JSON."""

from collections.abc import Callable
from typing import TypeVar

import msgspec

T = TypeVar("T")


def decoder(kind: type[T]) -> Callable[[bytes | msgspec.Raw], T]:
    """A function that decodes JSON to `kind` and raises `msgspec.DecodeError` for whatever it cannot decode."""
    decode = msgspec.json.Decoder(kind).decode

    def decoded(data: bytes | msgspec.Raw) -> T:
        try:
            return decode(data)
        except (UnicodeDecodeError, RecursionError) as error:
            raise unreadable(error) from None

    return decoded


def unreadable(error: UnicodeDecodeError | RecursionError) -> msgspec.DecodeError:
    """The error that msgspec should have raised."""
    return msgspec.DecodeError("the text is not UTF-8" if isinstance(error, UnicodeDecodeError) else "nested too deeply")
