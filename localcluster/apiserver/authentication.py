"""Bearer tokens: static ones, and those minted for service accounts."""

from collections.abc import Mapping, Sequence
from typing import Any

from jobcommon.localcluster.apiserver.bootstrap import KEY_NAME, KEY_TABLE
from jobcommon.localcluster.apiserver.env import Env
from jobcommon.localcluster.apiserver.errors import unauthorized
from jobcommon.localcluster.apiserver.storage import Item, Storage
from jobcommon.localcluster.apiserver.users import ISSUER, User, service_account, sign, verify

DEFAULT_AUDIENCES = (ISSUER,)


class Authenticator:
    """Maps tokens to users."""

    def __init__(self, env: Env, storage: Storage, tokens: dict[str, User]) -> None:
        self._env = env
        self._storage = storage
        self._tokens = tokens

    def identify(self, headers: Mapping[str, str]) -> User:
        """The user of a request. Raises a 401 ApiError without a valid bearer token."""
        scheme, _, token = headers.get("authorization", "").partition(" ")
        user = self.user_of(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise unauthorized()
        return user

    @staticmethod
    def impersonated(headers: Mapping[str, str]) -> User | None:
        """The user to impersonate (``kubectl --as``), or None. Several groups are separated by commas."""
        name = headers.get("impersonate-user", "")
        if not name:
            return None
        groups = tuple(part.strip() for part in headers.get("impersonate-group", "").split(",") if part.strip())
        parts = name.split(":")
        if not groups and len(parts) == 4 and name.startswith("system:serviceaccount:"):
            return service_account(parts[2], parts[3])
        return User(name, groups)

    def user_of(self, token: str) -> User | None:
        """The user of a token; None if it is invalid or expired, or if its account was deleted."""
        user = self._tokens.get(token)
        if user is not None or token.count(".") != 2:
            return user
        claims = verify(token, self._key())
        if claims is None or claims.get("exp", 0) <= self._env.now():
            return None
        bound = claims["kubernetes.io"]
        account = self._storage.table("serviceaccounts").get(bound["namespace"], bound["serviceaccount"]["name"])
        if account is None or account.uid != bound["serviceaccount"]["uid"]:
            return None
        return service_account(bound["namespace"], account.name, account.uid)

    def mint(self, account: Item, seconds: int, audiences: Sequence[str] = DEFAULT_AUDIENCES) -> str:
        """A token for a service account, valid for `seconds` and as long as the account exists."""
        now = int(self._env.now())
        claims: dict[str, Any] = {
            "iss": ISSUER,
            "aud": list(audiences),
            "iat": now,
            "nbf": now,
            "exp": now + seconds,
            "sub": f"system:serviceaccount:{account.namespace}:{account.name}",
            "kubernetes.io": {
                "namespace": account.namespace, "serviceaccount": {"name": account.name, "uid": account.uid}
            },
        }  # fmt: skip
        return sign(claims, self._key())

    def _key(self) -> bytes:
        item = self._storage.table(KEY_TABLE).get("", KEY_NAME)
        # Written by `bootstrap` before the first request.
        return b"" if item is None else bytes.fromhex(item.obj["key"])
