"""Bearer tokens: static ones, and those minted for service accounts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from localcluster.apiserver.bootstrap import KEY_NAME, KEY_TABLE
from localcluster.apiserver.env import Env
from localcluster.apiserver.errors import bad_request, unauthorized
from localcluster.apiserver.rbac import Attributes
from localcluster.apiserver.storage import Item, Storage
from localcluster.apiserver.users import ANONYMOUS, ISSUER, User, public_key, service_account, sign, verify
from localcluster.timestamps import parse_time

DEFAULT_AUDIENCES = (ISSUER,)
#: The kinds that a token may be bound to, in lower case, and their tables.
IMPERSONATION = ("Impersonate-User", "Impersonate-Group")
_LEEWAY = 60


class Authenticator:
    """Maps tokens to users."""

    def __init__(self, env: Env, storage: Storage, tokens: dict[str, User]) -> None:
        self._env = env
        self._storage = storage
        self._tokens = tokens

    def identify(self, headers: Mapping[str, str]) -> User:
        """The user of a request, `ANONYMOUS` without a bearer token. Raises a 401 ApiError for one that is not valid."""
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return ANONYMOUS
        user = self.user_of(token.strip())
        if user is None:
            raise unauthorized()
        return user

    @staticmethod
    def impersonated(headers: Mapping[str, str]) -> User | None:
        """The user to impersonate (``kubectl --as``), or None. Commas separate several groups. Raises a 400 ApiError for groups
        without a user.
        """
        name = headers.get("impersonate-user", "")
        groups = tuple(part.strip() for part in headers.get("impersonate-group", "").split(",") if part.strip())
        if not name:
            if groups:
                raise bad_request("groups are impersonated without a user name: set Impersonate-User, too")
            return None
        account = _account_of(name)
        if account and not groups:
            groups = service_account(*account).groups
        return User(name, groups)

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
        extra = {f"authentication.kubernetes.io/pod-{part}": [pod[part]] for part in ("name", "uid")} if pod else {}
        return replace(service_account(namespace, name, about["serviceaccount"]["uid"]), extra=extra)

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


def _account_of(name: str) -> tuple[str, str] | None:
    parts = name.split(":")
    return (parts[2], parts[3]) if len(parts) == 4 and name.startswith("system:serviceaccount:") else None


def impersonation(user: User, headers: Mapping[str, str]) -> Iterator[Attributes]:
    """The rights that it takes to be `user` by the headers of a request."""
    account = _account_of(user.name)
    if account:
        yield Attributes("impersonate", resource="serviceaccounts", namespace=account[0], name=account[1])
    else:
        yield Attributes("impersonate", resource="users", name=user.name)
    for group in user.groups if headers.get("impersonate-group") else ():
        yield Attributes("impersonate", resource="groups", name=group)
