"""Kubeconfigs, as kubectl reads them (k8s.io/client-go/tools/clientcmd), and the plugins that they name.

kubernetes-asyncio has a reader of them, too. Its import costs more CPU than all else that `kubectl train list` does.
"""

import asyncio
import base64
import json
import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import yaml

_PATHS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
_BY_HAND = "run the plugin of this user by hand to see what is wrong"


class KubeconfigError(Exception):
    """What is wrong with a kubeconfig, and what to change."""


class Chosen(NamedTuple):
    """What a context names."""

    context: Mapping[str, Any]
    cluster: Mapping[str, Any]
    user: Mapping[str, Any]


def read_kubeconfig(files: str, context: str | None) -> Chosen:
    """What the context of that name, or the current one, has in files that are separated as in $PATH.

    Of entries of one name the first counts. Relative paths start at the file that has them. Raises KubeconfigError, OSError,
    yaml.YAMLError, and what Python says of a value of another kind: AttributeError, LookupError, TypeError and ValueError.
    """
    known: dict[str, dict[str, dict[str, Any]]] = {"context": {}, "cluster": {}, "user": {}}
    chosen = context
    for path in (Path(file).expanduser() for file in files.split(os.pathsep) if file):
        if not path.exists():
            continue
        # Of a stream that is no text, yaml quotes nothing in its errors: there may be a token.
        with path.open("rb") as stream:
            document = yaml.safe_load(stream)
        chosen = chosen or document.get("current-context")
        for kind, entries in known.items():
            for entry in document.get(f"{kind}s") or ():
                entries.setdefault(entry.get("name"), _with_paths(entry.get(kind) or {}, path.parent))
    if not chosen or chosen not in known["context"]:
        what = f"there is no context {chosen}" if chosen else "no context is chosen"
        raise KubeconfigError(f"{what}; choose one with --context NAME; kubectl config get-contexts lists them")
    found = known["context"][chosen]
    return Chosen(found, known["cluster"][found["cluster"]], known["user"][found["user"]] if found.get("user") else {})


def _with_paths(entry: dict[str, Any], base: Path) -> dict[str, Any]:
    return {key: str(base / value) if key in _PATHS and value else value for key, value in entry.items()}


def content_of(entry: Mapping[str, Any], name: str) -> bytes | None:
    """The certificates or the key of an entry, inline or in a file. Raises OSError, and ValueError for what is no base64."""
    if data := entry.get(f"{name}-data"):
        return base64.b64decode(data, validate=True)
    return Path(entry[name]).read_bytes() if entry.get(name) else None


def file_of(entry: Mapping[str, Any], name: str, stack: ExitStack) -> str | None:
    """The same as a file; one of what is inline lasts as long as the `stack`: a file system may be read-only."""
    if not entry.get(f"{name}-data"):
        return entry.get(name) or None
    file = Path(stack.enter_context(TemporaryDirectory())) / name
    file.write_bytes(content_of(entry, name) or b"")
    return str(file)


async def with_credential(user: Mapping[str, Any], environ: Mapping[str, str]) -> Mapping[str, Any]:
    """The user with what its exec plugin gives (client.authentication.k8s.io), and with the `expirationTimestamp` of that.

    Raises as `read_kubeconfig`; the file name of an OSError is that of the plugin.
    """
    if provider := user.get("auth-provider"):
        name = provider.get("name")
        raise KubeconfigError(f"auth-provider {name} is not supported; use an exec plugin, such as kubectl oidc-login")
    if not (plugin := user.get("exec")):
        return user
    info = {"apiVersion": plugin["apiVersion"], "kind": "ExecCredential", "spec": {"interactive": sys.stdin.isatty()}}
    own = {one["name"]: one["value"] for one in plugin.get("env") or ()}
    process = await asyncio.create_subprocess_exec(
        plugin["command"],
        *(plugin.get("args") or ()),
        env={**environ, **own, "KUBERNETES_EXEC_INFO": json.dumps(info)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    if process.returncode:
        raise KubeconfigError(
            f"exec: process returned {process.returncode}. {err.decode(errors='replace').strip()}; {_BY_HAND}"
        )
    try:
        answer = json.loads(out)
        if answer["apiVersion"] != plugin["apiVersion"]:
            raise KubeconfigError(f"exec: the plugin answers in {answer['apiVersion']}, not in {plugin['apiVersion']}")
        given = dict(answer["status"])
        pair = {"client-certificate-data": "clientCertificateData", "client-key-data": "clientKeyData"}
        inline = {name: base64.b64encode(given[field].encode()) for name, field in pair.items() if field in given}
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise KubeconfigError(f"exec: the plugin has not answered with an ExecCredential; {_BY_HAND}") from error
    return {**user, **given, **inline}
