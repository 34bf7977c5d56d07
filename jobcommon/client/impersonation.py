"""The headers by which a kubeconfig's user acts as another (`as`, `as-uid`, `as-groups`, `as-user-extra`)."""

from collections.abc import Iterable, Mapping
from string import ascii_letters, digits
from typing import Any

Headers = tuple[tuple[str, str], ...]

#: The characters allowed in the name of a header (RFC 9110, 5.6.2), except the escape itself.
_TOKEN = frozenset(ascii_letters + digits + "!#$&'*+-.^_`|~")


def impersonation(user: Mapping[str, Any]) -> Headers:
    """The headers for a user of a kubeconfig; none for most. A header may occur several times. Raises ValueError."""
    groups, extra = _list(user, "as-groups"), user.get("as-user-extra") or {}
    if not isinstance(extra, Mapping):
        raise ValueError("as-user-extra must be a map of lists")
    name, uid = str(user.get("as") or ""), str(user.get("as-uid") or "")
    if not name:
        if uid or groups or extra:
            raise ValueError("as-uid, as-groups and as-user-extra need `as`, the name of the user to act as")
        return ()
    found = [("Impersonate-User", name)]
    if uid:
        found.append(("Impersonate-Uid", uid))
    found += [("Impersonate-Group", group) for group in groups]
    found += [(f"Impersonate-Extra-{_escaped(str(key))}", value) for key in extra for value in _list(extra, key)]
    return tuple(found)


def _list(fields: Mapping[Any, Any], name: Any) -> Iterable[str]:
    values = fields.get(name) or []
    if not isinstance(values, list):
        raise ValueError(f"{name} must be a list")
    return [str(value) for value in values]


def _escaped(key: str) -> str:
    """The key as part of a header's name, in which the API server reads percent signs."""
    return "".join(c if c in _TOKEN else "".join(f"%{byte:02X}" for byte in c.encode()) for c in key)
