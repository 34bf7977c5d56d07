"""Users and groups of requests, and service accounts as users."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

MASTERS = "system:masters"
ISSUER = "https://kubernetes.default.svc.cluster.local"


@dataclass(frozen=True, slots=True)
class User:
    """An authenticated user; every user is also in ``system:authenticated``."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def all_groups(self) -> tuple[str, ...]:
        """The groups including the implied one."""
        return (*self.groups, "system:authenticated")

    @property
    def is_master(self) -> bool:
        """Whether authorisation is bypassed."""
        return MASTERS in self.groups


ADMIN = User("kubernetes-admin", (MASTERS,))


def service_account(namespace: str, name: str, uid: str = "") -> User:
    """The user that a service account is."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return User(f"system:serviceaccount:{namespace}:{name}", groups, uid)


def _encode(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()


def _decode(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


# The curve's order, and the bytes of each half of a signature (RFC 7518, 3.4).
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_HALF = 32
_ECDSA = ec.ECDSA(hashes.SHA256())


@lru_cache
def _private(secret: bytes) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(int.from_bytes(secret, "big") % (_ORDER - 1) + 1, ec.SECP256R1())


@lru_cache
def public_key(secret: bytes) -> dict[str, str]:
    """The public half of the key made of `secret`, as a JSON Web Key."""
    numbers = _private(secret).public_key().public_numbers()
    x, y = (_encode(number.to_bytes(_HALF, "big")) for number in (numbers.x, numbers.y))
    identity = _encode(hashlib.sha256(f"{x}.{y}".encode()).digest())
    return {"use": "sig", "kty": "EC", "kid": identity, "crv": "P-256", "alg": "ES256", "x": x, "y": y}


def sign(claims: Mapping[str, Any], secret: bytes) -> str:
    """A JSON Web Token over `claims`, signed with ECDSA: others verify it with the public key that the server publishes."""
    header = _encode(msgspec.json.encode({"alg": "ES256", "kid": public_key(secret)["kid"]}))
    signed = f"{header}.{_encode(msgspec.json.encode(claims))}"
    r, s = decode_dss_signature(_private(secret).sign(signed.encode(), _ECDSA))
    return f"{signed}.{_encode(r.to_bytes(_HALF, 'big') + s.to_bytes(_HALF, 'big'))}"


def verify(token: str, secret: bytes) -> dict[str, Any] | None:
    """The claims of a token that this key signed, else None. Expiry is the caller's to check."""
    signed, _, signature = token.rpartition(".")
    try:
        given = _decode(signature)
        claims = msgspec.json.decode(_decode(signed.partition(".")[2]))
        halves = (int.from_bytes(part, "big") for part in (given[:_HALF], given[_HALF:]))
        _private(secret).public_key().verify(encode_dss_signature(*halves), signed.encode(), _ECDSA)
    except (ValueError, msgspec.DecodeError, InvalidSignature):
        return None
    return claims if isinstance(claims, dict) else None
