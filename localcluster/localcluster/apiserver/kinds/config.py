"""Config maps and secrets."""

import base64
from collections.abc import Sequence
from typing import Any

from localcluster.apiserver.errors import Cause, forbidden, invalid, required, too_long
from localcluster.apiserver.names import check, config_key

Obj = dict[str, Any]

#: Of the values of a config map together.
_SIZE_LIMIT = 1024 * 1024
_IMMUTABLE = "field is immutable when `immutable` is set"


def validate_config_map(obj: Obj) -> Sequence[Cause]:
    """Keys are valid file names, each in one of data and binaryData."""
    causes: list[Cause] = []
    for part in ("data", "binaryData"):
        for key in obj.get(part) or {}:
            causes += check(config_key, f"{part}[{key}]", key)
    for key in (obj.get("data") or {}).keys() & (obj.get("binaryData") or {}).keys():
        causes.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
    binary = sum(len(value) * 3 // 4 for value in (obj.get("binaryData") or {}).values())
    if binary + sum(len(value.encode()) for value in (obj.get("data") or {}).values()) > _SIZE_LIMIT:
        causes.append(too_long("[]", _SIZE_LIMIT))
    return causes


def immutable(new: Obj, old: Obj) -> Sequence[Cause]:
    """Nothing changes once `immutable` is set."""
    if not old.get("immutable"):
        return []
    causes = [] if new.get("immutable") else [forbidden("immutable", _IMMUTABLE)]
    return causes + [forbidden(part, _IMMUTABLE) for part in ("data", "binaryData") if new.get(part) != old.get(part)]


def default_secret(obj: Obj) -> None:
    """`type: Opaque`; stringData becomes data."""
    obj.setdefault("type", "Opaque")
    given = obj.pop("stringData", None)
    if given:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in given.items()}
        obj["data"] = {**(obj.get("data") or {}), **encoded}


def validate_secret(obj: Obj) -> Sequence[Cause]:
    """Keys are valid file names; a TLS secret has both of its own."""
    causes: list[Cause] = []
    for key in obj.get("data") or {}:
        causes += check(config_key, f"data[{key}]", key)
    if obj["type"] == "kubernetes.io/tls":
        data = obj.get("data") or {}
        causes += [required(f"data[{key}]") for key in ("tls.crt", "tls.key") if key not in data]
    return causes


def secret_immutable(new: Obj, old: Obj) -> Sequence[Cause]:
    """As for config maps; the type never changes."""
    causes = list(immutable(new, old))
    if new.get("type") != old.get("type"):
        causes.append(invalid("type", new.get("type"), "field is immutable"))
    return causes
