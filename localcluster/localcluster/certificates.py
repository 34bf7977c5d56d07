"""A certificate for the loopback interface: kubectl sends a bearer token over TLS only."""

import ipaddress
import ssl
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

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
        return self._shown_by(context)

    def client_context(self) -> ssl.SSLContext:
        """A TLS context for a client that trusts, and is known by, this certificate alone."""
        return self._shown_by(ssl.create_default_context(cadata=self.pem.decode()))

    def _shown_by(self, context: ssl.SSLContext) -> ssl.SSLContext:
        # OpenSSL reads a key from a file only; the directory is private to this user and gone at once.
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "server.pem"
            path.write_bytes(self.key + self.pem)
            context.load_cert_chain(path)
        return context


def self_signed() -> Certificate:
    """A fresh certificate for the loopback interface, its own authority, valid for a year (less an hour)."""
    start = datetime.now(UTC) - timedelta(hours=1)
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
