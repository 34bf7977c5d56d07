"""Verifies the tokens of service accounts with the cluster's public keys, without a request for each.

The keys are read from the API server (OpenID discovery, which the default role system:service-account-issuer-discovery allows
every service account). An unknown key is a reason to read them again: the cluster may have a new one.
"""

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from jobcommon.client.errors import ClientError
from jobcommon.client.request import Request, Transport
from jobcommon.client.status import response_error
from jobcommon.runtime.clock import Clock
from jobcommon.runtime.logging import Log

CONFIGURATION, KEYS = "/.well-known/openid-configuration", "/openid/v1/jwks"
#: How often the keys are read at most, and at least (seconds).
SOONEST, LATEST = 10.0, 3600.0
# How far ahead of ours the clock of an API server may be (seconds).
LEEWAY = 60.0

PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey
_CURVES: dict[str, tuple[ec.EllipticCurve, str, hashes.HashAlgorithm]] = {
    "P-256": (ec.SECP256R1(), "ES256", hashes.SHA256()),
    "P-384": (ec.SECP384R1(), "ES384", hashes.SHA384()),
    "P-521": (ec.SECP521R1(), "ES512", hashes.SHA512()),
}


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
    iss: str
    exp: float
    aud: list[str]
    kubernetes: _Kubernetes = msgspec.field(name="kubernetes.io")
    nbf: float = 0.0


class _Header(msgspec.Struct):
    alg: str
    kid: str


class _Key(msgspec.Struct):
    kty: str
    kid: str = ""
    crv: str = ""
    x: str = ""
    y: str = ""
    n: str = ""
    e: str = ""


class _Keys(msgspec.Struct):
    keys: list[_Key]


class _Configuration(msgspec.Struct):
    issuer: str


class AccountTokens:
    """The cluster's issuer and its public keys. `pod_of` may be called in any thread, `run` keeps the keys current."""

    def __init__(self, transport: Transport, clock: Clock, log: Log) -> None:
        self._transport = transport
        self._clock = clock
        self._log = log
        self._issuer = ""
        self._keys: Mapping[str, PublicKey] = {}
        self._wanted = asyncio.Event()

    async def run(self) -> None:
        """Read the keys until cancelled: at once, every hour, and soon after `refresh`."""
        while True:
            try:
                await self._read()
                again = LATEST
            except (ClientError, msgspec.DecodeError, ValueError) as error:
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
        configuration = msgspec.json.decode(await self._document(CONFIGURATION), type=_Configuration)
        found = msgspec.json.decode(await self._document(KEYS), type=_Keys)
        read = ((key.kid, _public_key(key)) for key in found.keys)
        self._issuer, self._keys = configuration.issuer, {kid: key for kid, key in read if key is not None}

    async def _document(self, path: str) -> bytes:
        response = await self._transport.send(Request("GET", path))
        if response.status != 200:
            raise response_error(response)
        return response.body

    def pod_of(self, token: str, audience: str) -> BoundPod:
        """The pod for which the token was made. Raises TokenError if it is false, expired, for others, or bound to no pod."""
        try:
            signed, _, signature = token.rpartition(".")
            head, _, body = signed.partition(".")
            header = msgspec.json.decode(_bytes(head), type=_Header)
            if (key := self._keys.get(header.kid)) is None:
                raise UnknownKeyError("no such key")
            _verify(key, header.alg, _bytes(signature), signed.encode())
            claims = msgspec.json.decode(_bytes(body), type=_Claims)
        except (ValueError, msgspec.DecodeError, InvalidSignature) as error:
            raise TokenError("no token of this cluster for a pod") from error
        now = self._clock.wall()
        if claims.iss != self._issuer or audience not in claims.aud or not claims.nbf - LEEWAY <= now < claims.exp:
            raise TokenError("expired, or for another audience")
        about = claims.kubernetes
        return BoundPod(about.namespace, about.pod.name, about.pod.uid)


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _number(text: str) -> int:
    return int.from_bytes(_bytes(text), "big")


def _public_key(key: _Key) -> PublicKey | None:
    """The key, if it is of a type with which API servers sign."""
    if key.kty == "RSA":
        return rsa.RSAPublicNumbers(_number(key.e), _number(key.n)).public_key()
    if key.kty == "EC" and key.crv in _CURVES:
        return ec.EllipticCurvePublicNumbers(_number(key.x), _number(key.y), _CURVES[key.crv][0]).public_key()
    return None


def _verify(key: PublicKey, algorithm: str, signature: bytes, signed: bytes) -> None:
    """Raise InvalidSignature or ValueError. The key says which algorithm is right, never the token."""
    if isinstance(key, rsa.RSAPublicKey):
        if algorithm != "RS256":
            raise InvalidSignature
        key.verify(signature, signed, padding.PKCS1v15(), hashes.SHA256())
        return
    _, wanted, digest = next(known for known in _CURVES.values() if known[0].name == key.curve.name)
    half = (key.curve.key_size + 7) // 8
    if algorithm != wanted or len(signature) != 2 * half:
        raise InvalidSignature
    r, s = (int.from_bytes(part, "big") for part in (signature[:half], signature[half:]))
    key.verify(encode_dss_signature(r, s), signed, ec.ECDSA(digest))
