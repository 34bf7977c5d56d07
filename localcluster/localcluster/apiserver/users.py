"""Users and groups of requests, and service accounts as users."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

MASTERS = "system:masters"
ISSUER = "https://kubernetes.default.svc.cluster.local"


@dataclass(frozen=True, slots=True)
class User:
    """Who a request comes from; everybody but `ANONYMOUS` is also in ``system:authenticated``."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""

    @property
    def all_groups(self) -> tuple[str, ...]:
        """The groups including the implied one."""
        return self.groups if self.is_anonymous else (*self.groups, "system:authenticated")

    @property
    def is_anonymous(self) -> bool:
        """Whether the request had no credentials."""
        return self.name == ANONYMOUS.name

    @property
    def is_master(self) -> bool:
        """Whether authorisation is bypassed."""
        return MASTERS in self.groups


ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))
ADMIN = User("kubernetes-admin", (MASTERS,))


def service_account(namespace: str, name: str, uid: str = "") -> User:
    """The user that a service account is."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return User(f"system:serviceaccount:{namespace}:{name}", groups, uid)


# The curve's order.
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_ALGORITHM = "ES256"


@lru_cache
def _private(secret: bytes) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(int.from_bytes(secret, "big") % (_ORDER - 1) + 1, ec.SECP256R1())


@lru_cache
def public_key(secret: bytes) -> dict[str, str]:
    """The public half of the key made of `secret`, as a JSON Web Key."""
    key: dict[str, str] = ECAlgorithm.to_jwk(_private(secret).public_key(), as_dict=True)
    identity = hashlib.sha256(f"{key['x']}.{key['y']}".encode()).hexdigest()
    return {**key, "use": "sig", "alg": _ALGORITHM, "kid": identity}


def sign(claims: Mapping[str, Any], secret: bytes) -> str:
    """A JSON Web Token over `claims`, signed with ECDSA: others verify it with the public key that the server publishes."""
    return jwt.encode(dict(claims), _private(secret), _ALGORITHM, {"kid": public_key(secret)["kid"]})


def verify(token: str, secret: bytes) -> dict[str, Any] | None:
    """The claims of a token that this key signed, else None. Expiry and audience are the caller's to check."""
    try:
        claims = msgspec.json.decode(jwt.PyJWS().decode(token, _private(secret).public_key(), [_ALGORITHM]))
    except (jwt.InvalidTokenError, msgspec.DecodeError):
        return None
    return claims if isinstance(claims, dict) else None
