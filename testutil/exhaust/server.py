"""The embedded API server as a function: what is stored and a request give an answer, changes, and what was wrong with them."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

from jobcommon.client.request import Request
from jobcommon.localcluster.apiserver import Env
from jobcommon.localcluster.apiserver.storage import Change
from jobcommon.localcluster.apiserver.users import ADMIN
from jobcommon.testutil.builders import START
from jobcommon.testutil.exhaust.objects import (
    FRAMEWORK,
    NAMESPACE,
    RESOURCES,
    TABLES,
    VERSION,
    Content,
    View,
    cached_version,
    pending_version,
)
from jobcommon.testutil.sim import image
from jobcommon.testutil.sim.ends import Ends
from jobcommon.testutil.sim.oracles import Watchdog
from jobcommon.testutil.sim.scenario import Scenario

_UNKNOWN = 1000
_FIRST = 2000


@dataclass(frozen=True)
class Answer:
    """A response. `body` has the version 0 for `version`, which is one of `resource`; 0: it has none.

    `written`: it is that to a write.
    """

    status: int
    body: bytes
    resource: int = 0
    version: int = 0
    written: bool = False


@dataclass(frozen=True)
class Effect:
    """What a request did: changes (resource, type of the event, object), and violations of the safety oracles."""

    answer: Answer
    changes: tuple[tuple[int, str, Content], ...]
    ends: Ends
    violations: tuple[str, ...]


@dataclass
class Server:
    """One embedded API server that is brought into any state. Equal questions are answered from memory."""

    scenario: Scenario = field(default_factory=lambda: Scenario("exhaust", (FRAMEWORK,), ()))

    def __post_init__(self) -> None:
        self._uid = ""
        self._server = image.boot((FRAMEWORK,), Env(lambda: START, lambda: self._uid, Random(0)))  # noqa: S311
        self._feed: deque[Change] = self._server.storage.feed()
        self._known: dict[object, Effect] = {}

    def apply(self, views: Sequence[View], request: Request, writer: str, ends: Ends, uid: str) -> Effect:
        """The effect of a request on what is stored; `uid` is that of an object that it creates."""
        numbers: dict[int, int] = {}
        contents: list[Content] = []
        for view in views:
            for index, (content, version) in enumerate(view.stored):
                numbers[version] = cached_version(view.resource, index)
                contents.append(content)
        body = request.body and VERSION.sub(lambda m: _version(numbers.get(int(m[1]), _UNKNOWN)), request.body)
        key = (tuple(contents), request.method, request.path, tuple(sorted(request.headers.items())), body, writer, ends, uid)
        found = self._known.get(key)
        if found is None:
            asked = Request(request.method, request.path, request.query, body, request.content_type, request.headers)
            found = self._known[key] = self._apply(contents, asked, writer, ends, uid)
        return self._renumbered(found, views, numbers)

    def _apply(self, contents: Sequence[Content], request: Request, writer: str, ends: Ends, uid: str) -> Effect:
        storage = self._server.storage
        items = {table: [] for table in TABLES}  # type: ignore[var-annotated]
        for content in contents:
            table = TABLES[content.resource]
            items[table].append(content.item(1100 + 100 * content.resource + len(items[table])))
        for table, stored in items.items():
            storage.table(table).spaces.clear()
            for item in stored:
                storage.table(table).set(item)
        storage.rv, self._uid = _FIRST - 1, uid
        self._feed.clear()
        response = self._server.handle(request, ADMIN)
        changes = [change for change in self._feed if change.table in TABLES]
        watchdog = Watchdog(self.scenario, tolerance=float("inf"))
        watchdog.resume(FRAMEWORK, items[TABLES[0]], items["pods"], ends)
        for change in changes:
            watchdog.see(0.0, change, writer)
        found = VERSION.search(response.body) if response.status < 300 else None
        resource = next((i for i, name in enumerate(RESOURCES) if f"/{name}" in request.path), 0)
        answer = Answer(
            response.status,
            VERSION.sub(_version(0), response.body),
            resource,
            int(found[1]) if found else 0,
            request.method != "GET",
        )
        done = tuple((TABLES.index(c.table), c.type, Content.of(TABLES.index(c.table), c.item)) for c in changes)
        return Effect(answer, done, watchdog.ends, tuple(watchdog.violations))

    @staticmethod
    def _renumbered(effect: Effect, views: Sequence[View], numbers: dict[int, int]) -> Effect:
        """With the answer's version as one of the state that was asked about."""
        answer = effect.answer
        if not answer.version:
            return effect
        view = views[answer.resource]
        if answer.version >= _FIRST:
            own = [resource for resource, _, _ in effect.changes[: answer.version - _FIRST]].count(answer.resource)
            version = pending_version(view.resource, len(view.pending) + own)
        else:
            version = next(raw for raw, number in numbers.items() if number == answer.version)
        renumbered = replace(answer, version=version)
        return Effect(renumbered, effect.changes, effect.ends, effect.violations)


def _version(number: int) -> bytes:
    return b'"resourceVersion":"%d"' % number


def collection(resource: int) -> str:
    """The path of a resource's objects."""
    root = f"/apis/{FRAMEWORK.api_version}" if not resource else "/api/v1"
    return f"{root}/namespaces/{NAMESPACE}/{RESOURCES[resource]}"
