"""An API server that answers some requests with an error, as a busy or restarting one does."""

import re
from dataclasses import dataclass
from typing import Any

from localcluster.apiserver import ApiError, ApiServer, User
from localcluster.apiserver.questions import Replies
from localcluster.request import Request, Response

_REASONS = {409: "Conflict", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout"}


@dataclass
class Fault:
    """The next `count` requests of clients with one of these `methods` and a path in which the expression `path` occurs.

    They are answered with `code`; with `stored` only after they have been carried out.
    """

    code: int
    methods: tuple[str, ...]
    path: str
    count: int
    stored: bool
    retry_after: int | None

    def concerns(self, request: Request) -> bool:
        """Whether it is one of them."""
        return self.count > 0 and request.method in self.methods and re.search(self.path, request.path) is not None

    def response(self) -> Response:
        """The answer."""
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        error = ApiError(self.code, _REASONS.get(self.code, ""), "a fault that a test has asked for", headers=headers)
        return error.response()


class FaultyServer(ApiServer):
    """Its own controllers, which name their user, are spared."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        self.faults: list[Fault] = []
        super().__init__(*arguments, **more)

    def handle(self, request: Request, user: User | None = None, replies: Replies | None = None) -> Response:
        """See `ApiServer.handle`."""
        fault = None if user is not None else next((fault for fault in self.faults if fault.concerns(request)), None)
        if fault is None:
            return super().handle(request, user, replies)
        if fault.stored:
            super().handle(request, user, replies)
        fault.count -= 1
        return fault.response()
