"""The kubeconfig of an embedded server, and its file: while the server runs, no other one takes its place."""

import base64
import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from localcluster.credentials import refuse_of_others

NAME = "localcluster"
_IGNORE, _EVERYTHING = ".gitignore", "# Made by localcluster.\n*\n"


class KubeconfigError(Exception):
    """The kubeconfig cannot be written where it should be. The text says why, and what to change."""


def kubeconfig(url: str, token: str, ca_pem: bytes | None = None, namespace: str = "default") -> str:
    """The file's text: one cluster, one user, one context, all named ``localcluster``. It is a secret, for mode 0600."""
    cluster: dict[str, Any] = {"server": url}
    if ca_pem is not None:
        cluster["certificate-authority-data"] = base64.b64encode(ca_pem).decode()
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": NAME,
        "clusters": [{"name": NAME, "cluster": cluster}],
        "users": [{"name": NAME, "user": {"token": token}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME, "namespace": namespace}}],
    }
    return yaml.safe_dump(content, sort_keys=False)


@contextmanager
def written(path: Path, text: str) -> Iterator[None]:
    """The kubeconfig in its place, readable by this user only.

    It is taken away at the end, unless the file has been changed. A directory that is made for it is ignored by git, as it
    holds a secret, and goes with it unless there is something else in it. Raises KubeconfigError when it cannot be written,
    and when the cluster that wrote the one there still runs.
    """
    try:
        if not path.parent.exists():
            path.parent.mkdir(parents=True)
            (path.parent / _IGNORE).write_text(_EVERYTHING)
        refuse_of_others(path.parent)
        file = _claim(path, os.O_CREAT | os.O_NOFOLLOW)
        try:
            refuse_of_others(file)
            os.fchmod(file, 0o600)
            os.ftruncate(file, 0)
            os.write(file, text.encode())
        except OSError:
            os.close(file)
            raise
    except OSError as error:
        why = "is a symbolic link: name the file itself" if error.errno == errno.ELOOP else error.strerror
        raise KubeconfigError(f"{path}: cannot be written: {why}") from None
    try:
        yield
    finally:
        if path.exists() and path.read_text() == text:
            path.unlink()
            _remove_ours(path.parent)
        os.close(file)


def _remove_ours(directory: Path) -> None:
    """Remove a directory that `written` has made, if there is nothing else in it."""
    ignore = directory / _IGNORE
    if [*directory.iterdir()] == [ignore] and ignore.read_text() == _EVERYTHING:
        ignore.unlink()
        directory.rmdir()


def check_free(path: Path) -> None:
    """Raise a KubeconfigError when the cluster that wrote it still runs: before another one is started for nothing."""
    if path.is_file():
        try:
            os.close(_claim(path))
        except OSError as error:
            raise KubeconfigError(f"{path}: {error.strerror}") from None


def _claim(path: Path, flags: int = 0) -> int:
    """The file, opened and locked. Raises OSError, and a KubeconfigError when its cluster runs.

    A running process holds the lock. The kernel releases it with the process, so one that was killed is in no way.
    """
    while True:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Else it was taken away between the two calls.
            if path.exists() and os.fstat(file).st_ino == path.stat().st_ino:
                return file
        except BlockingIOError:
            os.close(file)
            raise KubeconfigError(
                f"{path}: it belongs to the cluster at {_server(path)}, which is running: use that one, stop it, "
                "or choose another file"
            ) from None
        os.close(file)


def _server(path: Path) -> str:
    try:
        return str(yaml.safe_load(path.read_text())["clusters"][0]["cluster"]["server"])
    except (OSError, yaml.YAMLError, LookupError, TypeError):
        return "an unknown address"
