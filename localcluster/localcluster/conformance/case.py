"""A case: the steps that it yields, each a request with what its answer must be. It is given the answer to each."""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from localcluster.request import JSON, JSON_PATCH, MERGE_PATCH
from localcluster.timestamps import parse_time

Json = dict[str, Any]
UID, VERSION = "metadata.uid", "metadata.resourceVersion"
UNKNOWN_UID = "00000000-0000-4000-8000-000000000000"


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

    def path(self, space: str = "") -> str:
        """The path of the collection, in a namespace."""
        return f"{self.prefix}/namespaces/{space}/{self.plural}" if self.namespaced else f"{self.prefix}/{self.plural}"

    def create(self, body: Any, code: int = 201, query: Json | None = None, **expect: Any) -> "Step":
        """POST."""
        return Step("POST", self, body=body, expect=Expect(code, **expect), query=query or {})

    def act(self, name: str, subresource: str, body: Any, code: int = 201, **expect: Any) -> "Step":
        """POST to a subresource."""
        return Step("POST", self, name, body, Expect(code, **expect), subresource=subresource)

    def get(self, name: str, code: int = 200, query: Json | None = None, subresource: str = "", **expect: Any) -> "Step":
        """GET of an object."""
        return Step("GET", self, name, expect=Expect(code, **expect), query=query or {}, subresource=subresource)

    def listed(self, code: int = 200, query: Json | None = None, **expect: Any) -> "Step":
        """GET of a collection."""
        return Step("GET", self, expect=Expect(code, **expect), query=query or {})

    def put(self, name: str, body: Any, code: int = 200, subresource: str = "", **expect: Any) -> "Step":
        """PUT."""
        return Step("PUT", self, name, body, Expect(code, **expect), subresource=subresource)

    def patch(
        self, name: str, body: Any, code: int = 200, media: str = MERGE_PATCH, subresource: str = "", **expect: Any
    ) -> "Step":
        """PATCH, a merge patch unless `media` says otherwise or `body` is a list: a JSON patch."""
        media = JSON_PATCH if isinstance(body, list) else media
        return Step("PATCH", self, name, body, Expect(code, **expect), media=media, subresource=subresource)

    def delete(self, name: str, options: Json | None = None, code: int = 200, pause: float = 0, **expect: Any) -> "Step":
        """DELETE of an object."""
        body = None if options is None else {"apiVersion": "v1", "kind": "DeleteOptions", **options}
        return Step("DELETE", self, name, body, Expect(code, **expect), pause=pause)

    def watch(self, since: Json | str | None, *events: str, query: Json | None = None) -> "Step":
        """WATCH from the version of an answer; `events` are all there must be."""
        start = {} if since is None else {"resourceVersion": since if isinstance(since, str) else at(since, VERSION)}
        return Step("WATCH", self, query={**start, **(query or {})}, expect=Expect(200, events=events))


@dataclass(frozen=True, slots=True)
class Expect:
    """What an answer must be. What is not given is not checked.

    `fields` maps dotted paths of the body to values (None: absent) or to what must hold of them; `causes` are ``reason field``
    of details.causes; `items` the names in a list in order; `events` ``TYPE name`` of a watch, in order.
    """

    code: int
    reason: str | None = None
    message: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    causes: tuple[str, ...] | None = None
    items: tuple[str, ...] | None = None
    events: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One request in the namespace of the case. `method` is an HTTP method or ``WATCH``, which reads every event up to now.

    `settle` repeats it until it is answered as expected, for what a server does asynchronously (at most 10 s). `brief` asks to
    be answered with metadata only. `pause` are seconds that pass before it.
    """

    method: str
    kind: Kind
    name: str = ""
    body: Any = None
    expect: Expect = field(default_factory=lambda: Expect(200))
    media: str = JSON
    query: Mapping[str, Any] = field(default_factory=dict)
    subresource: str = ""
    settle: bool = False
    brief: bool = False
    pause: float = 0


Steps = Generator[Step, Json, None]


@dataclass(frozen=True, slots=True)
class Case:
    """Named steps."""

    name: str
    steps: Callable[[], Steps]


#: Every case, in the order of the modules.
TABLE: list[Case] = []


def case(name: str) -> Callable[[Callable[[], Steps]], Callable[[], Steps]]:
    """Put the steps into the table."""

    def added(steps: Callable[[], Steps]) -> Callable[[], Steps]:
        TABLE.append(Case(name, steps))
        return steps

    return added


def at(value: Any, path: str) -> Any:
    """The value at a dotted path (list indices are numbers); None when there is none."""
    for part in path.split("."):
        if isinstance(value, list) and part.isdigit():
            value = value[int(part)] if int(part) < len(value) else None
        elif isinstance(value, Mapping):
            value = value.get(part)
        else:
            return None
    return value


def same(body: Json) -> Json:
    """The fields of an answer that shows the version of this one."""
    return {VERSION: at(body, VERSION)}


def after(start: Any, seconds: float) -> Callable[[Any], bool]:
    """That a time is at least `seconds` after `start`."""
    return lambda found: bool(found) and parse_time(found) >= parse_time(start) + seconds
