"""An API server that answers some requests with an error, as a busy or restarting one does."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from localcluster.apiserver import ApiError, ApiServer, User
from localcluster.apiserver.questions import Replies
from localcluster.apiserver.watch import WatchStream
from localcluster.request import Request, Response

_REASONS = {409: "Conflict", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout"}


@dataclass
class Fault:
    """The next `count` requests of clients with one of these `methods`, or watches if it says so, in whose path the expression
    `path` occurs, and in whose query `query`.

    They are answered with `code`; with `stored` only after they have been carried out.
    """

    code: int
    methods: tuple[str, ...]
    path: str
    query: str
    watch: bool
    count: int
    stored: bool
    retry_after: int | None
    happened: int = 0

    def concerns(self, request: Request, *, watch: bool) -> bool:
        """Whether it is one of them."""
        kind = watch if self.watch else not watch and request.method in self.methods
        query = urlencode(request.query, safe="/:,=!()")
        wanted = re.search(self.path, request.path) and re.search(self.query, query)
        return kind and self.happened < self.count and wanted is not None

    def error(self) -> ApiError:
        """The answer, which is given now."""
        self.happened += 1
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        return ApiError(self.code, _REASONS.get(self.code, ""), "a fault that a test has asked for", headers=headers)

    def __str__(self) -> str:
        what = "watches" if self.watch else "/".join(self.methods)
        where = "".join(f" with {name} {value!r}" for name in ("path", "query") if (value := getattr(self, name)))
        return f"{self.code} for {what}{where}"


class FaultyServer(ApiServer):
    """Its own controllers, which name their user, are spared."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        self.faults: list[Fault] = []
        super().__init__(*arguments, **more)

    def handle(self, request: Request, user: User | None = None, replies: Replies | None = None) -> Response:
        """See `ApiServer.handle`."""
        fault = self._fault(request, user, watch=False)
        if fault is None:
            return super().handle(request, user, replies)
        if fault.stored:
            super().handle(request, user, replies)
        return fault.error().response()

    def watch(self, request: Request, wake: Callable[[], None], user: User | None = None) -> WatchStream:
        """See `ApiServer.watch`."""
        if (fault := self._fault(request, user, watch=True)) is not None:
            raise fault.error()
        return super().watch(request, wake, user)

    def end_faults(self) -> list[str]:
        """Forget all faults; gives those that have not happened once."""
        asked, self.faults = self.faults, []
        return [str(fault) for fault in asked if not fault.happened]

    def _fault(self, request: Request, user: User | None, *, watch: bool) -> Fault | None:
        return None if user is not None else next((one for one in self.faults if one.concerns(request, watch=watch)), None)
