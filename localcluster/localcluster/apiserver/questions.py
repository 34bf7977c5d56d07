"""What webhooks are asked about a request, and what they reply."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from localcluster.apiserver.env import Env

Obj = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Question:
    """A request to a webhook: `address` is where to connect, `server_name` what the certificate must be for."""

    address: str
    path: str
    server_name: str
    authority: bytes
    seconds: int
    body: bytes

    @property
    def key(self) -> tuple[str, str, bytes]:
        """What makes two questions the same."""
        return self.address, self.path, self.body


#: The AdmissionResponse, or why there is none.
Reply = Obj | str


class UnansweredError(Exception):
    """Webhooks must be asked before the request can be handled."""

    def __init__(self, questions: Iterable[Question]) -> None:
        super().__init__("webhooks are to be asked")
        self.questions = tuple(questions)


@dataclass
class Replies:
    """The webhooks' replies to one request, which happens at `now` and makes its random choices from `seed`."""

    now: float
    seed: int
    found: dict[tuple[str, str, bytes], Reply] = field(default_factory=dict)

    def env(self) -> Env:
        """The environment of one attempt, the same for each."""
        return Env.seeded(self.seed, lambda: self.now)
