"""The event recorder against an API server that loses requests and replies, refuses, and forgets events.

What was said is counted once: nothing is doubled, nothing is lost but what the limits drop, and what they drop is counted.
"""

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from jobcommon.client.errors import TransportError
from jobcommon.client.request import Request, Response
from jobcommon.reconcile.plan import NORMAL, WARNING, Event
from jobcommon.runtime.recorder import BURST, REFILL_SECONDS, RETRY_DELAY, TRIES, WINDOW, Recorder, Reference
from tests.properties.asynchronous import AsyncMachine
from tests.properties.profile import examples
from tests.runtime.fakes import quiet_log, refusal, turns
from tests.runtime.tap import WithoutStreams

pytestmark = pytest.mark.slow

Said = tuple[str, str, str]


class EventServer(WithoutStreams):
    """Events by name."""

    def __init__(self) -> None:
        self.events: dict[str, dict[str, Any]] = {}
        self.fault = ""

    async def send(self, request: Request) -> Response:
        if self.fault == "request lost":
            raise TransportError("reset")
        if self.fault == "refused":
            return refusal(503, "ServiceUnavailable")
        answer = self.handle(request)
        if self.fault == "reply lost":
            raise TransportError("reset")
        return answer

    def handle(self, request: Request) -> Response:
        body = msgspec.json.decode(request.body or b"")
        name = request.path.rpartition("/")[2] if request.method == "PATCH" else body["metadata"]["name"]
        if request.method == "PATCH":
            if name not in self.events:
                return refusal(404, "NotFound")
            self.events[name] |= body
        elif name in self.events:
            return refusal(409, "AlreadyExists")
        else:
            self.events[name] = body
        return Response(200, b"{}")


class Recording(AsyncMachine):
    def __init__(self) -> None:
        super().__init__()
        self.server = EventServer()
        self.recorder = Recorder(self.server, self.clock, quiet_log(), instance="me")
        self.tokens: dict[str, tuple[float, float]] = {}
        self.said: dict[Said, list[float]] = {}
        self.over_the_limit = 0
        self.forgotten = False
        self.start(self.recorder.run())

    @rule(
        job=st.sampled_from(["a", "b"]),
        kind=st.sampled_from([NORMAL, WARNING]),
        text=st.sampled_from(["x", "y", "z" * 2000]),
        times=st.sampled_from([1, 1, 2, 30]),
    )
    def say(self, job: str, kind: str, text: str, times: int) -> None:
        for _ in range(times):
            now = self.clock.now
            tokens, at = self.tokens.get(job, (BURST, now))
            tokens = min(tokens + (now - at) / REFILL_SECONDS, BURST)
            if tokens >= 1:
                self.said.setdefault((job, kind, text), []).append(now)
                self.tokens[job] = (tokens - 1, now)
            else:
                self.over_the_limit += 1
                self.tokens[job] = (tokens, now)
            about = Reference("kubeflow.org/v1", "TestJob", "default", job, f"uid-{job}")
            self.recorder.emit("test-controller", about, Event(kind, "Said", text))
        self.run(turns())

    @rule(fault=st.sampled_from(["", "", "request lost", "reply lost", "refused"]))
    def network(self, fault: str) -> None:
        self.server.fault = fault

    @rule(seconds=st.sampled_from([1.0, 15.0, REFILL_SECONDS, WINDOW + 1]))
    def wait(self, seconds: float) -> None:
        # With a fault for longer than its tries last, an event may be given up.
        self.advance(min(seconds, RETRY_DELAY * (TRIES - 3)) if self.server.fault else seconds)
        if self.server.fault:
            self.server.fault = ""
            self.advance(2 * RETRY_DELAY)

    @rule()
    def events_expire_on_the_server(self) -> None:
        self.forgotten = self.forgotten or bool(self.server.events)
        self.server.events.clear()

    @invariant()
    def nothing_is_doubled(self) -> None:
        for said, count in self.stored().items():
            assert count <= len(self.said.get(said, ())), "said more often than it was"

    @invariant()
    def what_is_over_the_limit_is_counted(self) -> None:
        assert self.recorder.dropped == self.over_the_limit

    def stored(self) -> dict[Said, int]:
        found: dict[Said, int] = {}
        for event in self.server.events.values():
            message = next(text for text in ("x", "y", "z" * 2000) if text[:1000] == event["message"][:1000])
            key = (event["involvedObject"]["name"], event["type"], message)
            found[key] = found.get(key, 0) + event["count"]
            assert len(event["message"]) <= 1024
        return found

    def in_the_end(self) -> None:
        self.server.fault = ""
        self.advance(4 * RETRY_DELAY)
        if not self.forgotten:
            assert self.stored() == {said: len(times) for said, times in self.said.items()}
        for said, times in self.said.items():
            # A pause of more than ten minutes begins a new Event; within one, the same words are one.
            apart = 1 + sum(later - earlier > WINDOW for earlier, later in pairwise(times))
            held = [e for e in self.server.events.values() if (e["involvedObject"]["name"], e["type"]) == said[:2]]
            assert len([e for e in held if e["message"][:1000] == said[2][:1000]]) <= apart


TestRecording = Recording.TestCase
TestRecording.settings = examples(60)
