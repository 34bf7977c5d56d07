"""The plain kubeconfig: one file, whose user has a token or a certificate.

kubernetes-asyncio reads all others: those that run a plugin or ask a provider, and those that are wrong, which it names. Its
import costs more CPU than all else that `kubectl train list` does.
"""

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

_OF_CLUSTER = {"server", "insecure-skip-tls-verify", "tls-server-name", "proxy-url", "extensions"}
_OF_USER = {"token", "tokenFile", "as", "as-uid", "as-groups", "as-user-extra"}
_FILES = {"ssl_ca_cert": "certificate-authority", "cert_file": "client-certificate", "key_file": "client-key"}


@dataclass(frozen=True)
class PlainConfiguration:
    """What a kubeconfig says, under the names of kubernetes-asyncio's Configuration; and its context and user."""

    host: str
    api_key: Mapping[str, str] = field(repr=False)
    verify_ssl: bool
    tls_server_name: str | None
    proxy: str | None
    context: Mapping[str, Any]
    user: Mapping[str, Any] = field(repr=False)
    ssl_ca_cert: str | None = None
    cert_file: str | None = None
    key_file: str | None = None


def read_plain(file: str, context: str | None, directory: Callable[[], str]) -> PlainConfiguration | None:
    """The configuration of a plain kubeconfig, None for any other. What it has inline is written to files in a `directory`,
    which is asked for only then: an operator's file system may be read-only.
    """
    try:
        document = yaml.safe_load(Path(file).read_text(encoding="utf-8"))
        chosen = _named(document, "context", context or document["current-context"])
        cluster, user = _named(document, "cluster", chosen["cluster"]), _named(document, "user", chosen["user"])
        allowed = {f"{name}{suffix}" for name in _FILES.values() for suffix in ("", "-data")} | _OF_CLUSTER | _OF_USER
        server, token = cluster["server"], user.get("token")
        if not {*cluster, *user} <= allowed or not isinstance(server, str):
            return None
        if token is None and "tokenFile" in user:
            token = (Path(file).parent / user["tokenFile"]).read_text()
        paths = {key: _path(name, {**cluster, **user}, Path(file).parent, directory) for key, name in _FILES.items()}
    except (OSError, LookupError, TypeError, AttributeError, ValueError, binascii.Error, yaml.YAMLError):
        return None
    return PlainConfiguration(
        host=server,
        api_key={"BearerToken": f"Bearer {token}"} if token else {},
        verify_ssl=not cluster.get("insecure-skip-tls-verify"),
        tls_server_name=cluster.get("tls-server-name"),
        proxy=cluster.get("proxy-url"),
        context=chosen,
        user=user,
        **paths,
    )


def _named(document: Mapping[str, Any], kind: str, name: str) -> dict[str, Any]:
    """The one entry of that name. Raises LookupError, TypeError and ValueError."""
    (entry,) = (one for one in document[f"{kind}s"] if one["name"] == name)
    return dict(entry[kind])


def _path(name: str, entries: Mapping[str, Any], base: Path, directory: Callable[[], str]) -> str | None:
    """The file of a certificate or key. Raises ValueError and OSError where it cannot be read."""
    data, file = entries.get(f"{name}-data"), entries.get(name)
    if data:
        path = Path(directory()) / name
        path.write_bytes(base64.b64decode(data, validate=True))
        return str(path)
    if file is None:
        return None
    (base / file).open("rb").close()
    return str(base / file)
