"""A case as data: steps, and values in them that are only known while it runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from localcluster.request import JSON

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """A resource as requests name it. `prefix` is its group's path, such as ``/api/v1``."""

    prefix: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """As objects carry it."""
        return self.prefix.removeprefix("/apis/").removeprefix("/api/")

    @property
    def group(self) -> str:
        """Empty for the core group."""
        return self.api_version.rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class Ref:
    """A field of an answer seen earlier.

    `key` is ``plural/space/name`` for an object and ``list/plural`` for a list; `back` counts its distinct versions backwards
    from the newest. `otherwise` is used if there was none.
    """

    key: str
    path: str
    back: int = 0
    otherwise: Any = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """A whole object seen earlier with `change` merged over it (RFC 7386); `otherwise` when there was none."""

    key: str
    change: Mapping[str, Any] = field(default_factory=dict)
    back: int = 0
    otherwise: Any = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class After:
    """In `Expect.fields`: a time at least `seconds` after `start`, a time or the `Ref` of one."""

    start: Any
    seconds: float


@dataclass(frozen=True, slots=True)
class Space:
    """The name of one of the case's namespaces, which are made afresh for every run."""

    key: str


@dataclass(frozen=True, slots=True)
class Expect:
    """What an answer must be. What is not given is not checked.

    `fields` maps dotted paths of the body to values (None: absent; `Ref` and `After` allowed); `causes` are ``reason field`` of
    details.causes, and `messages` texts of theirs; `items` the names in a list in order; `events` ``TYPE name`` of a watch in
    order.
    """

    code: int
    reason: str | None = None
    message: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    causes: tuple[str, ...] | None = None
    messages: tuple[str, ...] = ()
    items: tuple[str, ...] | None = None
    events: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One request. `method` is an HTTP method or ``WATCH``, which reads every event up to now.

    `space` is a namespace of the case, empty for all of them. `settle` repeats it until it is answered as expected, for what a
    server does asynchronously (at most 10 s). `brief` asks to be answered with metadata only. `pause` are seconds that pass
    before it.
    """

    method: str
    kind: Kind
    name: str | Space = ""
    body: Any = None
    expect: Expect | None = None
    media: str = JSON
    query: Mapping[str, Any] = field(default_factory=dict)
    subresource: str = ""
    space: str = "a"
    settle: bool = False
    brief: bool = False
    pause: float = 0

    def __str__(self) -> str:
        name = f"<namespace {self.name.key}>" if isinstance(self.name, Space) else self.name
        where = "/".join(part for part in (self.kind.plural, self.space, name, self.subresource) if part)
        media = "" if self.media == JSON else f" ({self.media.removeprefix('application/')})"
        query = f" {dict(self.query)}" if self.query else ""
        how = (" briefly" if self.brief else "") + (f" after {self.pause:g} s" if self.pause else "")
        body = "" if self.body is None else f" {str(self.body)[:600]}"
        return f"{self.method} {where}{query}{media}{how}{body}"


@dataclass(frozen=True, slots=True)
class Case:
    """Named steps."""

    name: str
    steps: tuple[Step, ...]
