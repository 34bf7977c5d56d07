"""The directory of a cluster: created at the start, deleted at the end or, after a kill, by the next one."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PREFIX = "localcluster-run-"
#: A directory gets its name when its lock is held: one without a lock yet must not be taken for a dead one.
_UNFINISHED = "localcluster-starting-"
_LOCK = "lock"


@contextmanager
def scratch_directory() -> Iterator[Path]:
    """A directory of this user's own. The directories of killed clusters, with their tokens and logs, are deleted first.

    Its owner holds a lock on it, which the kernel releases with the process, so the age of a directory does not matter.
    """
    _sweep(Path(tempfile.gettempdir()))
    unfinished = Path(tempfile.mkdtemp(prefix=_UNFINISHED))
    lock = os.open(unfinished / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        directory = unfinished.rename(unfinished.with_name(_PREFIX + unfinished.name.removeprefix(_UNFINISHED)))
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)
    finally:
        os.close(lock)


def _sweep(root: Path) -> None:
    for directory in root.glob(f"{_PREFIX}*"):
        try:
            if directory.is_symlink() or directory.stat().st_uid != os.geteuid():
                continue
            lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue  # another process deletes it now
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(directory, ignore_errors=True)
        except BlockingIOError:
            continue  # its cluster runs
        finally:
            os.close(lock)
