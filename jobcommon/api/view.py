"""Views of API objects: small frozen values read from the API's JSON, never written back.

A view is total: whatever sits in single fields, every JSON object that has a `metadata.name` gives a view, and a field
that cannot be read counts as absent (rule R14: any input from the cluster is untrusted). Times are seconds since the
epoch, as floats.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from datetime import datetime
from sys import intern
from types import MappingProxyType
from typing import Annotated, Any, TypeVar, get_args, get_origin

import msgspec

from jobcommon.api import labels as job_labels

T = TypeVar("T")


def decoder(kind: type[T]) -> Callable[[bytes | msgspec.Raw], T]:
    """A function that decodes JSON to `kind` and raises `msgspec.DecodeError` for whatever it cannot decode."""
    decode = msgspec.json.Decoder(kind).decode

    def decoded(data: bytes | msgspec.Raw) -> T:
        try:
            return decode(data)
        except (UnicodeDecodeError, RecursionError) as error:
            raise unreadable(error) from None

    return decoded


def unreadable(error: UnicodeDecodeError | RecursionError) -> msgspec.DecodeError:
    """The error that msgspec should have raised."""
    return msgspec.DecodeError("the text is not UTF-8" if isinstance(error, UnicodeDecodeError) else "nested too deeply")


S = TypeVar("S", bound=msgspec.Struct)
H = TypeVar("H", bound=Hashable)

# A time without an offset would be read in the zone of this machine, so it counts as unreadable.
WireTime = Annotated[datetime, msgspec.Meta(tz=True)]

# The API's integer types. A decoder would let through larger ones, with which later arithmetic or encoding fails.
WireInt32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
WireInt64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

# No longer image reference can be pulled, and no longer annotation is ours.
MAX_WORD = 1024

NO_LABELS: Mapping[str, str] = MappingProxyType({})


class Owner(msgspec.Struct, frozen=True, gc=False):
    """The controller among an object's ownerReferences. Ownership is decided by `uid` alone (rule R6)."""

    kind: str
    name: str
    uid: str


class Identity(msgspec.Struct, frozen=True, gc=False):
    """What names one object at one version, also when the rest of it cannot be read."""

    namespace: str
    name: str
    uid: str
    resource_version: str


class ObjectView(msgspec.Struct, frozen=True, gc=False):
    """Any API object: its identity, and the whole of it but `metadata.managedFields` in `data`.

    `labels` holds the job labels only. `raw` decodes `data` afresh at each access, so that no caller can change the
    cached object through it (rule R17).
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    creation_time: float | None
    deletion_time: float | None
    owner: Owner | None
    labels: Mapping[str, str]
    data: bytes

    @property
    def deleting(self) -> bool:
        """Whether it is being deleted."""
        return self.deletion_time is not None

    @property
    def raw(self) -> dict[str, Any]:
        """The object as a new dict that the caller may change."""
        return msgspec.json.decode(self.data, type=dict[str, Any])


class WireOwner(msgspec.Struct, gc=False):
    """One ownerReference as the API writes it."""

    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None


class WireMetadata(msgspec.Struct, rename="camel", gc=False):
    """The part of ObjectMeta that views are made of, as the API writes it."""

    namespace: str | None = None
    name: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: WireInt64 | None = None
    creation_timestamp: WireTime | None = None
    deletion_timestamp: WireTime | None = None
    deletion_grace_period_seconds: WireInt64 | None = None
    finalizers: list[str] | None = None
    owner_references: list[WireOwner] | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class WireObject(msgspec.Struct, gc=False):
    """An API object of which only the metadata is read."""

    metadata: WireMetadata | None = None


_decoder = msgspec.json.Decoder(WireObject)
_any = decoder(object)
_parts = decoder(dict[str, msgspec.Raw])


def object_view(data: bytes) -> ObjectView:
    """The view of one object in JSON. Raises `msgspec.DecodeError` when `data` is not JSON or has no metadata.name."""
    metadata = named_metadata(decode_leniently(_decoder, data).metadata)
    return ObjectView(
        namespace=intern(metadata.namespace or ""),
        name=metadata.name or "",
        uid=metadata.uid or "",
        resource_version=metadata.resource_version or "",
        creation_time=epoch(metadata.creation_timestamp),
        deletion_time=epoch(metadata.deletion_timestamp),
        owner=controller_of(metadata),
        labels=selected(metadata.labels, job_labels.JOB_LABELS),
        data=_without_managed_fields(data),
    )


def _without_managed_fields(data: bytes) -> bytes:
    """The object without what only the API server needs: two fifths of a typical job. An update may leave it out."""
    if b'"managedFields"' not in data:
        return data
    try:
        whole = _parts(data)
        metadata = _parts(whole["metadata"])
    except msgspec.DecodeError:
        return data
    metadata.pop("managedFields", None)
    return msgspec.json.encode({**whole, "metadata": metadata})


def identity(data: bytes) -> Identity:
    """The identity of one object in JSON. Raises `msgspec.DecodeError` like `object_view`."""
    metadata = named_metadata(decode_leniently(_decoder, data).metadata)
    return Identity(metadata.namespace or "", metadata.name or "", metadata.uid or "", metadata.resource_version or "")


def named_metadata(metadata: WireMetadata | None) -> WireMetadata:
    """`metadata` itself. Raises `msgspec.ValidationError` when it names no object."""
    if metadata is None or not metadata.name:
        raise msgspec.ValidationError("the object has no metadata.name")
    return metadata


def controller_of(metadata: WireMetadata) -> Owner | None:
    """The owner marked as controller; the API server allows at most one."""
    for owner in metadata.owner_references or ():
        if owner.controller and owner.uid:
            return shared(Owner(intern(owner.kind or ""), intern(owner.name or ""), intern(owner.uid)))
    return None


def selected(values: Mapping[str, str] | None, keys: Iterable[str]) -> Mapping[str, str]:
    """The entries of `values` under `keys` that are no longer than a word, read-only."""
    kept = {key: intern(values[key]) for key in keys if key in values and len(values[key]) <= MAX_WORD} if values else None
    return MappingProxyType(kept) if kept else NO_LABELS


def epoch(time: datetime | None) -> float | None:
    """Seconds since the epoch."""
    return shared(time.timestamp()) if time is not None else None


# Enough for what the pods of the jobs that start together have in common.
SHARED_MOST = 4096
_shared: dict[Hashable, Any] = {}


def shared(value: H) -> H:
    """`value`, or an equal one that was seen before: the pods of a job have their owner and many times in common.

    For small frozen values of one type, which are interchangeable when they are equal.
    """
    if len(_shared) >= SHARED_MOST:
        _shared.clear()
    found: H = _shared.setdefault(value, value)
    return found


def decode_leniently(decoder: "msgspec.json.Decoder[S]", data: bytes) -> S:
    """Decode `data`, treating each field of a wrong type as absent.

    Every field of the decoder's type must be nullable with a default. Raises `msgspec.DecodeError` when `data` is not a
    JSON object.
    """
    try:
        return decoder.decode(data)
    except msgspec.ValidationError:
        pass
    except (UnicodeDecodeError, RecursionError) as error:
        raise unreadable(error) from None
    return msgspec.convert(_readable(decoder.type, _any(data)), decoder.type)


def _readable(kind: Any, value: Any) -> Any:
    """The part of `value` that converts to `kind`; None when nothing of it does."""
    kind = next((part for part in get_args(kind) if part is not type(None)), kind) if _is_optional(kind) else kind
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        if not isinstance(value, dict):
            return None
        fields = msgspec.structs.fields(kind)
        return {f.encode_name: _readable(f.type, value[f.encode_name]) for f in fields if f.encode_name in value}
    if get_origin(kind) is list:
        (element,) = get_args(kind)
        found = (_readable(element, item) for item in (value if isinstance(value, list) else ()))
        return [item for item in found if item is not None]
    if get_origin(kind) is dict:
        (_, element) = get_args(kind)
        pairs = value.items() if isinstance(value, dict) else ()
        return {key: item for key, item in pairs if _readable(element, item) is not None}
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return None
    return value


def _is_optional(kind: Any) -> bool:
    return type(None) in get_args(kind)
