"""The credentials of a cluster: the server's certificate and the administrator's token. kubectl sends a token over TLS only."""

import errno
import ipaddress
import os
import secrets
import ssl
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALID = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class Certificate:
    """A self-signed certificate: `pem` is what clients trust, `key` belongs in a file of mode 0600 or nowhere."""

    pem: bytes
    key: bytes = field(repr=False)

    def server_context(self) -> ssl.SSLContext:
        """A TLS context for `localcluster.apiserver.serve`."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        # OpenSSL reads a key from a file only; the directory is private to this user and gone at once.
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "server.pem"
            path.write_bytes(self.key + self.pem)
            context.load_cert_chain(path)
        return context


def self_signed() -> Certificate:
    """A fresh certificate for the loopback interface, its own authority, valid for a year (less an hour)."""
    start = datetime.now(UTC) - timedelta(hours=1)  # noqa: TID251
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "embedded API server")])
    names = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + _VALID)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(_key_usage(), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
    )
    signed = builder.sign(key, hashes.SHA256())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )  # fmt: skip
    return Certificate(signed.public_bytes(serialization.Encoding.PEM), private)


def _key_usage() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True, key_cert_sign=True, crl_sign=False, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip


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
