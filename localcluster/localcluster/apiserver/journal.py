"""Durability: every write is a transaction of SQLite, which has reached the disk when `append` returns.

The file holds each object once, as it is now, and the version of the last write. A torn page, a lock, a full disk and the
return from a crash are SQLite's business: write-ahead log, and a flush with every commit.
"""

import errno
import os
import sqlite3
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
        """What was written before."""
        ...

    def append(self, entry: Entry) -> None:
        """Add a write, which then survives a crash. Raises OSError, and then nothing is added."""
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

    def close(self) -> None:
        """Nothing to do."""


class JournalError(Exception):
    """The data directory cannot be used: a running server has it, or it is damaged."""


_FILE = "objects.sqlite"
_SETTINGS = (
    # The file belongs to this connection alone, until the process has ended, however that happens.
    "PRAGMA locking_mode = EXCLUSIVE",
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    (
        "CREATE TABLE IF NOT EXISTS objects ("
        "tab TEXT, namespace TEXT, name TEXT, rv INTEGER NOT NULL, body BLOB, PRIMARY KEY (tab, namespace, name)) WITHOUT ROWID"
    ),
)
#: The row that keeps the version of the last deletion has no table.
_PUT = "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?)"
_DELETE = "DELETE FROM objects WHERE tab = ? AND namespace = ? AND name = ?"
_encoder = msgspec.json.Encoder()


class FileJournal:
    """A journal in a directory. Raises `JournalError` when it cannot be used."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / _FILE
        self._path.touch(0o600)
        # Each statement is a transaction of its own, unless one is begun.
        self._file = sqlite3.connect(self._path, timeout=0, isolation_level=None)
        try:
            for setting in _SETTINGS:
                self._file.execute(setting)
        except sqlite3.DatabaseError as error:
            self._file.close()
            raise self._unusable(error) from None

    def _unusable(self, error: sqlite3.DatabaseError) -> JournalError:
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
            text = f"{self._path.parent} is in use by another server: stop it, or choose another --data-dir"
            return JournalError(text)
        return JournalError(f"{self._path} cannot be read ({error}): restore a copy, or delete the directory to start empty")

    def load(self) -> Iterator[Entry]:
        """Every object, in the order of their versions. Raises JournalError on damage."""
        try:
            for tab, namespace, name, rv, body in self._file.execute("SELECT * FROM objects ORDER BY rv"):
                yield Entry(rv, tab, namespace, name, None if body is None else msgspec.json.decode(body))
        except (sqlite3.DatabaseError, msgspec.DecodeError) as error:
            raise JournalError(
                f"{self._path} is damaged ({error}): restore a copy, or delete the directory to start empty"
            ) from None

    def append(self, entry: Entry) -> None:
        """One transaction."""
        place = (entry.table, entry.namespace, entry.name)
        try:
            if entry.obj is not None:
                self._file.execute(_PUT, (*place, entry.rv, _encoder.encode(entry.obj)))
                return
            with self._file:
                self._file.execute("BEGIN")
                self._file.execute(_DELETE, place)
                self._file.execute(_PUT, ("", "", "", entry.rv, None))
        except sqlite3.DatabaseError as error:
            full = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_FULL
            code, text = (errno.ENOSPC, os.strerror(errno.ENOSPC)) if full else (errno.EIO, str(error))
            raise OSError(code, text) from error

    def close(self) -> None:
        """Close and unlock; closing twice is harmless."""
        self._file.close()
