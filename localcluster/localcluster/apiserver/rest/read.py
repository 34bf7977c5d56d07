"""get, list and watch, with the resourceVersion semantics of the real server (Kubernetes API concepts, "Resource versions")."""

import base64
from collections.abc import Callable
from typing import Any

import msgspec

from localcluster.apiserver.call import Call
from localcluster.apiserver.errors import bad_request, forbidden, invalid_object, not_supported
from localcluster.apiserver.representation import transform
from localcluster.apiserver.route import truth
from localcluster.apiserver.selectors import parse_fields, parse_labels
from localcluster.apiserver.storage import Item, Table
from localcluster.apiserver.watch import Encode, Scope, WatchOptions, WatchStream
from localcluster.request import Response

_MATCHES = ("Exact", "NotOlderThan")


def scope_of(call: Call) -> Scope:
    """The objects that the path and the selectors match. Raises a 400 ApiError."""
    labels = parse_labels(call.query.get("labelSelector", ""))
    fields, name = parse_fields(call.query.get("fieldSelector", ""), call.resource.selectable)
    return Scope(call.namespace, labels, fields, name)


def get(call: Call) -> Response:
    """GET of one object."""
    version = _version(call.query.get("resourceVersion", ""))
    call.storage.check_version(version or 0)
    item = call.live()
    resource = call.resource
    if call.media == "json":
        return call.respond(resource.head + item.body)
    return call.answer(resource.typed(item.obj))


def list_objects(call: Call) -> Response:
    """GET of a collection."""
    items, meta = select(call, scope_of(call))
    resource = call.resource
    if call.media != "json":
        shown = [resource.typed(item.obj) for item in items]
        answer = transform(call.media, resource, shown, meta, now=call.env.now(), single=False, include=call.included)
        return call.respond(msgspec.json.encode(answer))
    # Items of built-in lists come without kind and apiVersion, as from the real server; custom ones with them.
    head = resource.head if resource.custom else b"{"
    encoded = [head + item.body for item in items]
    opening = f'{{"kind":"{resource.list_name}","apiVersion":"{resource.api_version}","metadata":'.encode()
    return call.respond(b"".join((opening, msgspec.json.encode(meta), b',"items":[', b",".join(encoded), b"]}")))


def select(call: Call, scope: Scope) -> tuple[list[Item], dict[str, Any]]:
    """The items of a list request and its ListMeta."""
    storage, table = call.storage, call.storage.table(call.resource.storage_key)
    limit = _natural(call.query.get("limit", "0"), "limit")
    token = call.query.get("continue", "")
    rv, start = _list_version(call, limit, token)
    storage.check_version(rv or 0)
    if rv is not None:
        candidates = [item for item in table.snapshot(rv, scope.namespace or None) if _place(item, scope) > start]
    else:
        candidates = _candidates(table, scope)
    shown_rv = storage.rv if rv is None else rv
    found = [item for item in candidates if scope.matches(item)]
    meta: dict[str, Any] = {"resourceVersion": str(shown_rv)}
    # There is more if objects are left, matching or not: the next page may be empty.
    if limit and len(found) >= limit and candidates[-1] is not found[limit - 1] and call.query.get("resourceVersion") != "0":
        meta["continue"] = _token(shown_rv, _place(found[limit - 1], scope))
        if not scope.selective:
            meta["remainingItemCount"] = len(found) - limit
        found = found[:limit]
    return found, meta


def _place(item: Item, scope: Scope) -> str:
    """Where the next page begins, relative to the listed collection, so that a token works in another namespace too."""
    return item.name if scope.namespace else f"{item.namespace}/{item.name}"


def _candidates(table: Table, scope: Scope) -> list[Item]:
    if scope.name is not None and scope.namespace:
        item = table.get(scope.namespace, scope.name)
        return [item] if item else []
    return table.sorted(scope.namespace or None)


def _list_version(call: Call, limit: int, token: str) -> tuple[int | None, str]:
    """The exact version to list at (None: the current one) and the key to start after."""
    text = call.query.get("resourceVersion", "")
    match = call.query.get("resourceVersionMatch", "")
    version = _version(text)
    if call.query.get("sendInitialEvents"):
        causes = [forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")]
        raise invalid_object("ListOptions", "meta.k8s.io", "", causes)
    _check_match(match, text, token)
    if token:
        if text not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        return _parse_token(token)
    if version is None or version == 0:
        return None, ""
    call.storage.check_version(version)
    # Without a match rule, a paginated list at a version means exactly that version (the rule of etcd's own pagination).
    exact = match == "Exact" or (not match and limit > 0)
    return (version if exact else None), ""


def _check_match(match: str, version: str, token: str) -> None:
    path, cause = "resourceVersionMatch", None
    if match and (token or not version):
        cause = forbidden(path, "resourceVersionMatch is forbidden unless resourceVersion is provided, and with continue")
    elif match and match not in _MATCHES:
        cause = not_supported(path, match, (*_MATCHES, ""))
    elif match == "Exact" and version == "0":
        cause = forbidden(path, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
    if cause is not None:
        raise invalid_object("ListOptions", "meta.k8s.io", "", [cause])


def _version(text: str) -> int | None:
    if not text:
        return None
    return _natural(text, "resourceVersion")


def _natural(text: str, name: str) -> int:
    if not text.isdecimal():
        raise bad_request(f"{name}: Invalid value: {text!r}: must be a whole number")
    return int(text)


def _token(rv: int, start: str) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode({"v": "meta.k8s.io/v1", "rv": rv, "start": start})).decode().rstrip("=")


def _parse_token(token: str) -> tuple[int, str]:
    try:
        decoded = msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        return int(decoded["rv"]), str(decoded["start"])
    except (ValueError, KeyError, TypeError, msgspec.DecodeError):
        raise bad_request("continue key is not valid") from None


def watch(call: Call, wake: Callable[[], None]) -> WatchStream:
    """Open a watch. Raises an ApiError when the request is refused."""
    query = call.query
    initial = query.get("sendInitialEvents", "")
    bookmarks = truth(query.get("allowWatchBookmarks", ""))
    start = _version(query.get("resourceVersion", "")) or None
    if initial and query.get("resourceVersionMatch", "") != "NotOlderThan":
        causes = [forbidden("resourceVersionMatch", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")]
        raise invalid_object("ListOptions", "meta.k8s.io", "", causes)
    streaming_list = truth(initial)
    if streaming_list:
        call.storage.check_version(start or 0)
        start = None
    # Without sendInitialEvents, no version (or 0) means: the current objects first, without a mark at their end.
    synthetic = streaming_list or (start is None and not initial)
    env = call.env
    timeout = _natural(query.get("timeoutSeconds", "0"), "timeoutSeconds")
    # As the real server: between 30 and 60 minutes when the client does not say, so that watches do not end all at once.
    seconds = timeout or 1800 * (1 + env.random.random())
    scope = scope_of(call)
    options = WatchOptions(start, bookmarks, synthetic, streaming_list and bookmarks, env.now() + seconds)
    table = call.storage.table(call.resource.storage_key)
    return WatchStream(
        table, call.resource, scope, options, _encode(call), env.now, lambda: call.storage.rv, wake
    )  # fmt: skip


def _encode(call: Call) -> Encode:
    resource, media, env = call.resource, call.media, call.env
    if media != "json":
        first, include = True, call.included

        def transformed(item: Item) -> bytes:
            nonlocal first
            shown = resource.typed(item.obj)
            body = transform(media, resource, [shown], shown["metadata"], now=env.now(), single=True, include=include)
            if media == "table" and not first:
                body["columnDefinitions"] = None
            first = False
            return msgspec.json.encode(body)

        return transformed
    head = resource.head
    return lambda item: head + item.body
