"""Verifies the tokens of service accounts with the cluster's public keys, without a request for each.

The keys are read from the API server (OpenID discovery, which the default role system:service-account-issuer-discovery allows
every service account). An unknown key is a reason to read them again: the cluster may have a new one.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jwt
import msgspec
from jwt.types import Options

from jobcommon.client.errors import ClientError
from jobcommon.client.request import Request, Transport
from jobcommon.client.responses import response_error
from jobcommon.runtime.clock import Clock
from jobcommon.runtime.logging import Log

OPENID_CONFIGURATION, KEYS = "/.well-known/openid-configuration", "/openid/v1/jwks"
# The API server gives its keys to no client that accepts plain JSON alone.
_ACCEPT = {"accept": "application/jwk-set+json,application/json"}
#: How often the keys are read at most, and at least (seconds).
SOONEST, LATEST = 10.0, 3600.0
# How far ahead of ours the clock of an API server may be (seconds).
LEEWAY = 60.0

# Of a key with which API servers sign; the key says which is right, never the token.
ALGORITHMS = ("RS256", "ES256", "ES384", "ES512")
# Times are compared with our own clock.
_TIMELESS: Options = {"verify_exp": False, "verify_nbf": False, "verify_iat": False}


class TokenError(Exception):
    """A token that is not accepted."""


class UnknownKeyError(TokenError):
    """No known key has signed it: it is false, or the keys are out of date."""


@dataclass(frozen=True, slots=True)
class BoundPod:
    """The pod that a token was made for."""

    namespace: str
    name: str
    uid: str


class _Named(msgspec.Struct):
    name: str
    uid: str


class _Kubernetes(msgspec.Struct):
    namespace: str
    pod: _Named


class _Claims(msgspec.Struct):
    exp: float
    kubernetes: _Kubernetes = msgspec.field(name="kubernetes.io")
    nbf: float = 0.0


class _Keys(msgspec.Struct):
    keys: list[dict[str, Any]]


class _Configuration(msgspec.Struct):
    issuer: str


class AccountTokens:
    """The cluster's issuer and its public keys. `pod_of` may be called in any thread, `run` keeps the keys current."""

    def __init__(self, transport: Transport, clock: Clock, log: Log) -> None:
        self._transport = transport
        self._clock = clock
        self._log = log
        self._issuer = ""
        self._keys: Mapping[str, jwt.PyJWK] = {}
        self._wanted = asyncio.Event()

    async def run(self) -> None:
        """Read the keys until cancelled: at once, every hour, and soon after `refresh`."""
        while True:
            try:
                await self._read()
                again = LATEST
            except (ClientError, msgspec.DecodeError, jwt.PyJWTError) as error:
                again = SOONEST
                self._log.warning("could not read the cluster's keys of service account tokens", error=str(error))
            begun = self._clock.monotonic()
            self._wanted.clear()
            await self._clock.sleep(SOONEST)
            await self._clock.wait(self._wanted, begun + again)

    def refresh(self) -> None:
        """Read the keys again, as soon as that is due. Only in the event loop."""
        self._wanted.set()

    async def _read(self) -> None:
        configuration = msgspec.json.decode(await self._document(OPENID_CONFIGURATION), type=_Configuration)
        found = msgspec.json.decode(await self._document(KEYS), type=_Keys)
        keys = [key for key in jwt.PyJWKSet(found.keys) if key.algorithm_name in ALGORITHMS]
        self._issuer, self._keys = configuration.issuer, {key.key_id or "": key for key in keys}

    async def _document(self, path: str) -> bytes:
        response = await self._transport.send(Request("GET", path, headers=_ACCEPT))
        if response.status != 200:
            raise response_error(response)
        return response.body

    def pod_of(self, token: str, audience: str) -> BoundPod:
        """The pod for which the token was made. Raises TokenError if it is false, expired, for others, or bound to no pod."""
        try:
            if (key := self._keys.get(jwt.get_unverified_header(token).get("kid", ""))) is None:
                raise UnknownKeyError("no such key")
            found = jwt.decode(token, key, [key.algorithm_name], _TIMELESS, audience=audience, issuer=self._issuer)
            claims = msgspec.convert(found, _Claims)
        except (jwt.PyJWTError, msgspec.ValidationError) as error:
            raise TokenError("no token of this cluster for a pod, or for another audience") from error
        if not claims.nbf - LEEWAY <= self._clock.wall() < claims.exp:
            raise TokenError("expired")
        about = claims.kubernetes
        return BoundPod(about.namespace, about.pod.name, about.pod.uid)
