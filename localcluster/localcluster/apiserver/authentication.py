"""Users and groups of requests, and their bearer tokens: static ones, and those minted for service accounts."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from localcluster.apiserver.bootstrap import KEY_NAME, KEY_TABLE
from localcluster.apiserver.env import Env
from localcluster.apiserver.errors import bad_request, unauthorized
from localcluster.apiserver.storage import Item, Storage
from localcluster.timestamps import parse_time

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


DEFAULT_AUDIENCES = (ISSUER,)
_LEEWAY = 60


class Authenticator:
    """Maps tokens to users."""

    def __init__(self, env: Env, storage: Storage, tokens: dict[str, User]) -> None:
        self._env = env
        self._storage = storage
        self._tokens = tokens

    def identify(self, headers: Mapping[str, str]) -> User:
        """The user of a request, `ANONYMOUS` without a bearer token. Raises 400 and 401 ApiErrors for one that is not valid."""
        if "impersonate-user" in headers:
            raise bad_request("the embedded server does not support impersonation (kubectl --as): use a token of that user")
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return ANONYMOUS
        user = self.user_of(token.strip())
        if user is None:
            raise unauthorized()
        return user

    def user_of(self, token: str) -> User | None:
        """The user of a token; None if it is invalid, expired or for other audiences, or its account or its pod is gone."""
        user = self._tokens.get(token)
        if user is not None or token.count(".") != 2:
            return user
        claims = verify(token, self._key())
        if claims is None or claims.get("exp", 0) <= self._env.now() or not {*DEFAULT_AUDIENCES} & {*claims["aud"]}:
            return None
        about = claims["kubernetes.io"]
        namespace, name = about["namespace"], about["serviceaccount"]["name"]
        if not self._lasts("serviceaccounts", namespace, about["serviceaccount"]):
            return None
        pod = about.get("pod")
        if pod is not None and not self._lasts("pods", namespace, pod):
            return None
        return service_account(namespace, name, about["serviceaccount"]["uid"])

    def _lasts(self, table: str, namespace: str, claim: Mapping[str, str]) -> bool:
        """Whether the object of a claim exists, and was not deleted longer ago than clocks may differ."""
        item = self._storage.table(table).get(namespace, claim["name"])
        if item is None or item.uid != claim["uid"]:
            return False
        deleted = item.obj["metadata"].get("deletionTimestamp")
        return deleted is None or parse_time(deleted) >= self._env.now() - _LEEWAY

    def mint(self, account: Item, seconds: int, audiences: Sequence[str] = DEFAULT_AUDIENCES, pod: Item | None = None) -> str:
        """A token for a service account, valid for `seconds` and while the account and the `pod` that it is bound to exist."""
        now = int(self._env.now())
        about: dict[str, Any] = {
            "namespace": account.namespace, "serviceaccount": {"name": account.name, "uid": account.uid}
        }  # fmt: skip
        if pod is not None:
            about["pod"] = {"name": pod.name, "uid": pod.uid}
        claims: dict[str, Any] = {
            "iss": ISSUER,
            "aud": list(audiences),
            "iat": now,
            "nbf": now,
            "exp": now + seconds,
            "sub": f"system:serviceaccount:{account.namespace}:{account.name}",
            "kubernetes.io": about,
        }
        return sign(claims, self._key())

    def public_keys(self) -> dict[str, Any]:
        """The keys with which others verify tokens, as a JSON Web Key Set."""
        return {"keys": [public_key(self._key())]}

    def _key(self) -> bytes:
        item = self._storage.table(KEY_TABLE).get("", KEY_NAME)
        # Written by `bootstrap` before the first request.
        return b"" if item is None else bytes.fromhex(item.obj["key"])
