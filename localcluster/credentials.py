"""The credentials of a cluster: the server's certificate and the administrator's token.

With a data directory both outlive the process, so a kubeconfig stays valid.
"""

import os
import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

from cryptography import x509

from jobcommon.localcluster.certificates import Certificate, self_signed

_RENEW_BEFORE = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Credentials:
    """The administrator's bearer `token` and the server's `certificate`."""

    token: str = field(repr=False)
    certificate: Certificate

    @classmethod
    def fresh(cls) -> Self:
        """New ones, from the operating system's randomness."""
        return cls(secrets.token_urlsafe(32), self_signed())

    @classmethod
    def kept_in(cls, directory: Path) -> Self:
        """Those of the directory, filled if need be; a certificate that ends within a month is replaced."""
        directory.mkdir(parents=True, exist_ok=True)
        token, pem, key = (directory / name for name in ("token", "server.crt", "server.key"))
        if not token.exists():
            write_secret(token, secrets.token_urlsafe(32).encode())
        if not (pem.exists() and key.exists()) or _ends_soon(pem.read_bytes()):
            certificate = self_signed()
            write_secret(key, certificate.key)
            write_secret(pem, certificate.pem)
        return cls(token.read_text().strip(), Certificate(pem.read_bytes(), key.read_bytes()))


def write_secret(path: Path, content: bytes) -> None:
    """Write a file that only this user can read, whole or not at all. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    draft.replace(path)


def _ends_soon(pem: bytes) -> bool:
    return x509.load_pem_x509_certificate(pem).not_valid_after_utc - datetime.now(UTC) < _RENEW_BEFORE
