"""Users and groups of requests, and service accounts as users."""

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

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


def sign(claims: Mapping[str, Any], key: bytes) -> str:
    """A JSON Web Token over `claims`, signed with HMAC-SHA256: issuer and verifier are the same process."""
    header = _encode(b'{"alg":"HS256","typ":"JWT"}')
    signed = f"{header}.{_encode(msgspec.json.encode(claims))}"
    return f"{signed}.{_encode(hmac.digest(key, signed.encode(), hashlib.sha256))}"


def verify(token: str, key: bytes) -> dict[str, Any] | None:
    """The claims of a token that this key signed, else None. Expiry is the caller's to check."""
    signed, _, signature = token.rpartition(".")
    try:
        given = _decode(signature)
        claims = msgspec.json.decode(_decode(signed.partition(".")[2]))
    except (ValueError, msgspec.DecodeError):
        return None
    if not hmac.compare_digest(given, hmac.digest(key, signed.encode(), hashlib.sha256)):
        return None
    return claims if isinstance(claims, dict) else None
