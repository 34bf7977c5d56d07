"""Durability: an append-only log that survives ``kill -9`` and a torn tail.

File format: records of ``length (4 bytes) · crc32 (4 bytes) · JSON array [rv, table, namespace, name, object or null]``,
little endian. A record is complete or it is the tail of an interrupted write and is cut off at the next start. Compaction
writes the whole content to a second file and renames it over the first, so there is one format and no moment without a valid log.
"""

import fcntl
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec


class Entry(NamedTuple):
    """One write: an object's new content, or None for its deletion. An empty `table` only moves the version."""

    rv: int
    table: str
    namespace: str
    name: str
    obj: dict[str, Any] | None


class Journal(Protocol):
    """Where writes are made durable."""

    def load(self) -> Iterable[Entry]:
        """What was written before, in order."""
        ...

    def append(self, entry: Entry) -> None:
        """Add a write; durable only after `sync`."""
        ...

    def sync(self) -> None:
        """Return once every appended write survives a crash."""
        ...

    def wants_compaction(self) -> bool:
        """Whether the log has outgrown its content."""
        ...

    def compact(self, entries: Iterable[Entry]) -> None:
        """Replace the log by these entries."""
        ...

    def close(self) -> None:
        """Release files."""
        ...


class MemoryJournal:
    """Keeps nothing: the state ends with the process."""

    def load(self) -> Iterable[Entry]:
        """Nothing."""
        return ()

    def append(self, entry: Entry) -> None:
        """Forget the entry."""

    def sync(self) -> None:
        """Nothing to do."""

    def wants_compaction(self) -> bool:
        """Never."""
        return False

    def compact(self, entries: Iterable[Entry]) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do."""


class JournalError(Exception):
    """The data directory cannot be used: it is locked by a running server, or was damaged in the middle."""


_HEADER = struct.Struct("<II")
_MINIMUM = 8 * 1024 * 1024


class FileJournal:
    """A journal in a directory. Raises `JournalError` when another server has it open or its content is damaged."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._path = directory / "journal"
        self._lock = _lock(directory / "lock")
        (directory / "journal.new").unlink(missing_ok=True)
        self._file = self._path.open("a+b", buffering=0)
        self._pending: list[bytes] = []
        self._size = 0
        self._compacted_size = 0
        _sync_directory(directory)

    def load(self) -> Iterator[Entry]:
        """Every complete record; an incomplete tail is cut off. Raises JournalError on damage before the tail."""
        data = self._path.read_bytes()
        position = 0
        while (end := self._record_end(data, position)) is not None:
            yield Entry(*msgspec.json.decode(data[position + _HEADER.size : end]))
            position = end
        if position < len(data):
            self._file.truncate(position)
            os.fsync(self._file.fileno())
        self._size = self._compacted_size = position

    def _record_end(self, data: bytes, position: int) -> int | None:
        if position + _HEADER.size > len(data):
            return None
        length, crc = _HEADER.unpack_from(data, position)
        end = position + _HEADER.size + int(length)
        if end <= len(data) and zlib.crc32(data[position + _HEADER.size : end]) == crc:
            return end
        # A single interrupted append leaves garbage at the very end. A bad record with good ones after it is another matter:
        # cutting there would silently lose acknowledged writes.
        if end < len(data) and length:
            raise JournalError(
                f"{self._path} is damaged at byte {position}: restore it from a copy, or delete the directory to start empty"
            )
        return None

    def append(self, entry: Entry) -> None:
        """Queue a record for the next `sync`."""
        self._pending.append(_record(entry))

    def sync(self) -> None:
        """Write the queued records and fsync once for all of them."""
        if not self._pending:
            return
        data = b"".join(self._pending)
        _write(self._file.fileno(), data)
        os.fsync(self._file.fileno())
        self._pending.clear()
        self._size += len(data)

    def wants_compaction(self) -> bool:
        """When more than half of a log of 8 MiB or more was written since the last compaction."""
        return self._size > max(_MINIMUM, 2 * self._compacted_size)

    def compact(self, entries: Iterable[Entry]) -> None:
        """Write `entries` to a new file and rename it over the log."""
        fresh = self._directory / "journal.new"
        size = 0
        with fresh.open("wb") as file:
            for entry in entries:
                record = _record(entry)
                file.write(record)
                size += len(record)
            file.flush()
            os.fsync(file.fileno())
        self._file.close()
        fresh.replace(self._path)
        _sync_directory(self._directory)
        self._file = self._path.open("a+b", buffering=0)
        self._size = self._compacted_size = size

    def close(self) -> None:
        """Sync, close and unlock."""
        self.sync()
        self._file.close()
        os.close(self._lock)


def _record(entry: Entry) -> bytes:
    payload = msgspec.json.encode(entry)
    return _HEADER.pack(len(payload), zlib.crc32(payload)) + payload


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _lock(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise JournalError(f"{path.parent} is in use by another server: stop it, or choose another --data-dir") from None
    return descriptor
