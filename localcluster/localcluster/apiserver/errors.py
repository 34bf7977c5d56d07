"""Errors as the server reports them: a metav1.Status with code, reason, message, details and causes.

Wording follows the real server (k8s.io/apimachinery api/errors and util/validation/field), because clients match on it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from localcluster.request import Response

JSON_HEADERS: Mapping[str, str] = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class Cause:
    """One field error of a 422: `reason` is the machine-readable type, `message` excludes the field."""

    reason: str
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def show(value: Any) -> str:
    """A value as the real server prints it in messages: strings quoted, the rest as JSON."""
    return msgspec.json.encode(value).decode()


def invalid(path: str, value: Any, detail: str) -> Cause:
    """The value breaks a rule that `detail` states."""
    return Cause("FieldValueInvalid", path, f"Invalid value: {show(value)}: {detail}")


def required(path: str, detail: str = "") -> Cause:
    """The field must be given."""
    return Cause("FieldValueRequired", path, f"Required value: {detail}" if detail else "Required value")


def duplicate(path: str, value: Any) -> Cause:
    """The value occurs twice in a list of unique values."""
    return Cause("FieldValueDuplicate", path, f"Duplicate value: {show(value)}")


def forbidden(path: str, detail: str) -> Cause:
    """The field may not be set or changed here."""
    return Cause("FieldValueForbidden", path, f"Forbidden: {detail}")


def not_supported(path: str, value: Any, allowed: Sequence[str]) -> Cause:
    """The value is not one of the enumerated ones."""
    listed = ", ".join(show(one) for one in allowed)
    return Cause("FieldValueNotSupported", path, f"Unsupported value: {show(value)}: supported values: {listed}")


def too_long(path: str, limit: int) -> Cause:
    """The value is longer than `limit` bytes."""
    return Cause("FieldValueTooLong", path, f"Too long: may not be more than {limit} bytes")


def not_found_cause(path: str, value: Any) -> Cause:
    """The value names something that does not exist."""
    return Cause("FieldValueNotFound", path, f"Not found: {show(value)}")


@dataclass
class ApiError(Exception):
    """A refused request. `response()` is what goes over the wire."""

    code: int
    reason: str
    message: str
    details: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.code} {self.reason}: {self.message}"

    def status(self) -> dict[str, Any]:
        """The metav1.Status object."""
        status = _status("Failure") | {"message": self.message}
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = dict(self.details)
        status["code"] = self.code
        return status

    def response(self) -> Response:
        """The HTTP response."""
        return Response(self.code, msgspec.json.encode(self.status()) + b"\n", {**JSON_HEADERS, **self.headers})


def _status(status: str) -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": status}


def qualified(resource: str, group: str) -> str:
    """`deployments.apps`; a core resource has no suffix."""
    return f"{resource}.{group}" if group else resource


def _details(name: str, group: str, kind: str, **more: Any) -> dict[str, Any]:
    found = {"name": name, "group": group, "kind": kind, **more}
    return {key: value for key, value in found.items() if value not in ("", None)}


def not_found(resource: str, group: str, name: str) -> ApiError:
    """404 for a missing object."""
    message = f'{qualified(resource, group)} "{name}" not found'
    return ApiError(404, "NotFound", message, _details(name, group, resource))


def path_not_found() -> ApiError:
    """404 for a path that no resource serves."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(resource: str, group: str, name: str, being_deleted: bool = False) -> ApiError:
    """409 for a name that is taken, also by a terminating object."""
    message = f'{qualified(resource, group)} "{name}" already exists'
    if being_deleted:
        message = f"object is being deleted: {message}"
    return ApiError(409, "AlreadyExists", message, _details(name, group, resource))


def conflict(resource: str, group: str, name: str, why: str) -> ApiError:
    """409 for a failed precondition or a stale resourceVersion."""
    message = f'Operation cannot be fulfilled on {qualified(resource, group)} "{name}": {why}'
    return ApiError(409, "Conflict", message, _details(name, group, resource))


STALE = "the object has been modified; please apply your changes to the latest version and try again"


def invalid_object(kind: str, group: str, name: str, causes: Sequence[Cause]) -> ApiError:
    """422 with one cause per broken field."""
    listed = [str(cause) for cause in causes]
    text = listed[0] if len(listed) == 1 else f"[{', '.join(listed)}]"
    rows = [{"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes]
    qualified_kind = qualified(kind, group)
    return ApiError(422, "Invalid", f'{qualified_kind} "{name}" is invalid: {text}', _details(name, group, kind, causes=rows))


def bad_request(message: str) -> ApiError:
    """400: the request itself cannot be understood."""
    return ApiError(400, "BadRequest", message)


def forbidden_error(resource: str, group: str, name: str, why: str, causes: Sequence[Mapping[str, str]] = ()) -> ApiError:
    """403 by authorisation or admission."""
    what = f'{qualified(resource, group)} "{name}"' if name else qualified(resource, group)
    details = _details(name, group, resource)
    if causes:
        details["causes"] = [dict(cause) for cause in causes]
    return ApiError(403, "Forbidden", f"{what} is forbidden: {why}", details)


def expired(message: str) -> ApiError:
    """410: the requested history is compacted; list again."""
    return ApiError(410, "Expired", message)


def too_large_version(asked: int, current: int) -> ApiError:
    """504: the resourceVersion is from the future (another cluster, or a store restored from a backup)."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    details = {"causes": [cause], "retryAfterSeconds": 1}
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    return ApiError(504, "Timeout", message, details, {"Retry-After": "1"})


def unauthorized() -> ApiError:
    """401: no credentials, or wrong ones."""
    return ApiError(401, "Unauthorized", "Unauthorized")


def unsupported_media_type(message: str) -> ApiError:
    """415: the server does not accept this Content-Type here."""
    return ApiError(415, "UnsupportedMediaType", message)


def success_status(name: str, group: str, resource: str, uid: str) -> dict[str, Any]:
    """The Status that answers the deletion of an object whose kind does not return the object."""
    return _status("Success") | {"details": _details(name, group, resource, uid=uid)}
