"""Durability: an append-only log that survives ``kill -9`` and a torn tail.

File format: frames of ``magic · length · crc32`` (4 bytes each, little endian) and a JSON array of writes
``[rv, table, namespace, name, object or null]``. Each write is a frame, so only the last one can be incomplete; it is cut off
at the next start. A write for which the disk has no space is undone completely. Compaction writes the whole content to a second
file and renames it over the first, so there is one format and no moment without a valid log.
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
        """Add a write; durable only after `sync`. Raises OSError, and then nothing is added."""
        ...

    def sync(self) -> None:
        """Return once every appended write survives a crash. Raises OSError."""
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


_MAGIC = b"jcJ1"
_HEADER = struct.Struct("<4sII")
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
        self._synced = True
        self._size = 0
        self._compacted_size = 0
        _sync_directory(directory)

    def load(self) -> Iterator[Entry]:
        """Every complete frame; an incomplete last one is cut off. Raises JournalError on damage before the last."""
        data = self._path.read_bytes()
        position = 0
        while (end := _frame_end(data, position)) is not None:
            for fields in msgspec.json.decode(data[position + _HEADER.size : end]):
                yield Entry(*fields)
            position = end
        if position < len(data):
            self._refuse_damage(data, position)
            self._file.truncate(position)
            os.fsync(self._file.fileno())
        self._size = self._compacted_size = position

    def _refuse_damage(self, data: bytes, position: int) -> None:
        # An interrupted append leaves garbage at the very end only. With a good frame after a bad one, cutting the file
        # would silently lose acknowledged writes.
        following = data.find(_MAGIC, position + 1)
        while following >= 0:
            if _frame_end(data, following) is not None:
                raise JournalError(
                    f"{self._path} is damaged at byte {position}: restore a copy, or delete the directory to start empty"
                )
            following = data.find(_MAGIC, following + 1)

    def append(self, entry: Entry) -> None:
        """Write one frame."""
        data = _frame([entry])
        try:
            _write(self._file.fileno(), data)
        except OSError:
            # A full disk may have taken half a frame: what is written next must not follow it.
            self._file.truncate(self._size)
            raise
        self._size += len(data)
        self._synced = False

    def sync(self) -> None:
        """fsync, if anything was written since the last time."""
        if not self._synced:
            os.fsync(self._file.fileno())
            self._synced = True

    def wants_compaction(self) -> bool:
        """When more than half of a log of 8 MiB or more was written since the last compaction."""
        return self._size > max(_MINIMUM, 2 * self._compacted_size)

    def compact(self, entries: Iterable[Entry]) -> None:
        """Write `entries` to a new file and rename it over the log. Where the disk has no room for both, the log stays."""
        fresh = self._directory / "journal.new"
        try:
            size = self._write_new(fresh, entries)
        except OSError:
            fresh.unlink(missing_ok=True)
            # Not again until the log has doubled: every attempt writes the whole content.
            self._compacted_size = self._size
            return
        self._file.close()
        fresh.replace(self._path)
        _sync_directory(self._directory)
        self._file = self._path.open("a+b", buffering=0)
        self._size = self._compacted_size = size

    @staticmethod
    def _write_new(fresh: Path, entries: Iterable[Entry]) -> int:
        size = 0
        with fresh.open("wb") as file:
            for entry in entries:
                frame = _frame([entry])
                file.write(frame)
                size += len(frame)
            file.flush()
            os.fsync(file.fileno())
        return size

    def close(self) -> None:
        """Sync, close and unlock; closing twice is harmless. Raises OSError."""
        if self._file.closed:
            return
        try:
            self.sync()
        finally:
            self._file.close()
            os.close(self._lock)


def _frame(entries: list[Entry]) -> bytes:
    payload = msgspec.json.encode(entries)
    return _HEADER.pack(_MAGIC, len(payload), zlib.crc32(payload)) + payload


def _frame_end(data: bytes, position: int) -> int | None:
    start = position + _HEADER.size
    if start > len(data):
        return None
    magic, length, crc = _HEADER.unpack_from(data, position)
    end = start + int(length)
    good = magic == _MAGIC and end <= len(data) and zlib.crc32(memoryview(data)[start:end]) == crc
    return end if good else None


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
