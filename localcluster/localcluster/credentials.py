"""The credentials of a cluster: the server's certificate and the administrator's token."""

import errno
import os
import secrets
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from localcluster.certificates import Certificate, self_signed


@dataclass(frozen=True, slots=True)
class Credentials:
    """The administrator's bearer `token` and the server's `certificate`."""

    token: str = field(repr=False)
    certificate: Certificate

    @classmethod
    def fresh(cls) -> Self:
        """New ones, from the operating system's randomness."""
        return cls(secrets.token_urlsafe(32), self_signed())


def write_secret(path: Path, content: bytes) -> None:
    """Write a file that only this user can read, whole or not at all. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    refuse_of_others(path.parent)
    # A new file, never one that another user has put there, nor the target of a link.
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        Path(draft).replace(path)
    except OSError:
        Path(draft).unlink(missing_ok=True)
        raise


def refuse_of_others(path: Path | int) -> None:
    """Raise an OSError for a file or directory of another user but root, who could read or replace what is written there."""
    owner = os.stat(path).st_uid  # noqa: PTH116  a descriptor, too
    if owner not in (0, os.geteuid()):
        where = "" if isinstance(path, int) else str(path)
        raise OSError(
            errno.EPERM, f"it belongs to another user ({owner}), who could get the token: use a directory of your own", where
        )
