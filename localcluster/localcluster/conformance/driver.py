"""Sends a case to a server, over HTTP, and compares the answers with what they must be."""

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from localcluster.conformance import kinds
from localcluster.conformance.case import Case, Expect, Json, Step, at
from localcluster.conformance.real import Target
from localcluster.errors import StatusError
from localcluster.request import Request

#: What ends a watch carries these, so that the selectors of the suite let it through.
END_LABELS = {"app": "x", "tier": "x"}
_END = "zz-end-"
# The last clause is for responses that have no metadata of their own, such as a Status.
_METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
_PATIENCE = 10.0
_PAUSE = 0.02
_ENDS = {kinds.PODS: kinds.pod, kinds.SERVICES: kinds.service, kinds.WIDGETS: kinds.widget}


@dataclass(slots=True)
class Answer:
    """The answer to one step: a response (`code` and `body`), or a watch (`code` 200 and `events`)."""

    code: int
    body: Any = None
    events: Sequence[Json] = ()


class Driver:
    """Runs cases against one server, each in a new namespace. `prepare` comes first."""

    def __init__(self, target: Target, label: str = "run") -> None:
        self.target = target
        self._label = label
        self._count = itertools.count()

    async def prepare(self) -> None:
        """Define the custom resource. Raises AssertionError when the server does not take it."""
        await self._must("POST", kinds.CRDS.path(), kinds.widget_crd(), (201, 409))
        # It is served a moment later.
        served = await self._settled(Step("GET", kinds.WIDGETS), "default")
        assert served.code == 200, f"{self.target.name}: widgets are not served: {served.code} {served.body}"

    async def run(self, case: Case) -> list[str]:
        """Run every step; gives what was expected and has not come."""
        space = f"{self._label}-{next(self._count)}"
        await self._must("POST", kinds.NAMESPACES.path(), kinds.obj(kinds.NAMESPACES, space), (201,))
        # Where a controller makes this account, it may have been faster.
        await self._must("POST", kinds.ACCOUNTS.path(space), kinds.account(), (201, 409))
        problems: list[str] = []
        steps, number = case.steps(), 0
        step = next(steps, None)
        while step is not None:
            number += 1
            answer = await self._settled(step, space) if step.settle else await self._step(step, space)
            where = f"{case.name}: step {number}, {step.method} {step.kind.plural} {step.name}"
            problems += [f"{where}: {problem}" for problem in unmet(step.expect, answer)]
            try:
                step = steps.send(answer.body if isinstance(answer.body, dict) else {})
            except StopIteration:
                break
        return problems

    async def _settled(self, step: Step, space: str) -> Answer:
        deadline = asyncio.get_running_loop().time() + _PATIENCE
        while True:
            answer = await self._step(step, space)
            if not unmet(step.expect, answer) or asyncio.get_running_loop().time() > deadline:
                return answer
            await asyncio.sleep(_PAUSE)

    async def _step(self, step: Step, space: str) -> Answer:
        if step.pause:
            await self.target.wait(step.pause)
        name = space if step.kind == kinds.NAMESPACES else step.name
        path = "/".join(part for part in (step.kind.path(space), name, step.subresource) if part)
        query = tuple((key, str(value)) for key, value in step.query.items())
        if step.method == "WATCH":
            return await self._watch(step, path, query)
        return await self._send(step.method, path, step.body, query=query, media=step.media, brief=step.brief)

    async def _watch(self, step: Step, path: str, asked: tuple[tuple[str, str], ...]) -> Answer:
        """Every event up to one that the driver causes itself."""
        end = f"{_END}{next(self._count)}"
        make = _ENDS.get(step.kind) or partial(kinds.obj, step.kind)
        await self._must("POST", path, make(end, labels=END_LABELS), (201,))
        # A consistent list makes the real server's watch cache catch up, so that a watch "from now" is from now.
        await self._send("GET", path, query=(("limit", "1"),))
        query = {"timeoutSeconds": "10", **dict(asked), "watch": "true"}
        events: list[Json] = []
        lines = self.target.transport.stream(Request("GET", path, tuple(query.items())))
        try:
            async for line in lines:
                event: Json = msgspec.json.decode(line)
                name = str((event["object"].get("metadata") or {}).get("name"))
                if name == end and query.get("sendInitialEvents") != "true":
                    break
                if not name.startswith(_END):
                    events.append(event)
                if event["type"] in ("ERROR", "BOOKMARK"):
                    break
        except StatusError as error:
            return Answer(error.code, {"kind": "Status", "status": "Failure", "reason": error.reason})
        finally:
            await lines.aclose()  # type: ignore[attr-defined]
        if query.get("resourceVersion", "") in ("", "0"):
            # The current state comes first, in an order the server may choose.
            events.sort(key=lambda event: (event["type"] == "BOOKMARK", str(event["object"]["metadata"].get("name"))))
        return Answer(200, events=events)

    async def _must(self, method: str, path: str, body: Any, codes: Sequence[int]) -> None:
        answer = await self._send(method, path, body)
        assert answer.code in codes, f"{self.target.name}: {method} {path}: {answer.code} {answer.body}"

    async def _send(
        self, method: str, path: str, body: Any = None, *, query: tuple[tuple[str, str], ...] = (),
        media: str = "application/json", brief: bool = False,
    ) -> Answer:  # fmt: skip
        encoded = None if body is None else msgspec.json.encode(body)
        headers = {"accept": _METADATA_ONLY} if brief else {}
        response = await self.target.transport.send(Request(method, path, query, encoded, media, headers))
        try:
            decoded = msgspec.json.decode(response.body)
        except msgspec.DecodeError:
            decoded = response.body.decode(errors="replace").strip()
        return Answer(response.status, decoded)


def unmet(expect: Expect, answer: Answer) -> list[str]:
    """What is wrong with `answer`."""
    body = answer.body if isinstance(answer.body, Mapping) else {}
    problems = []
    if answer.code != expect.code:
        problems.append(f"code {answer.code}, not {expect.code}: {body.get('message', answer.body)}")
    if expect.reason is not None and body.get("reason") != expect.reason:
        problems.append(f"reason {body.get('reason')!r}, not {expect.reason!r}")
    text = str(body.get("message", answer.body))
    if expect.message not in text:
        problems.append(f"message {text!r} without {expect.message!r}")
    for path, wanted in expect.fields.items():
        found = at(body, path)
        if not (wanted(found) if callable(wanted) else found == wanted):
            problems.append(f"{path} is {found!r}, not {wanted!r}")
    given = at(body, "details.causes") or ()
    causes = sorted({f"{cause.get('reason', '')} {cause.get('field', '')}" for cause in given})
    if expect.causes is not None and causes != sorted(expect.causes):
        problems.append(f"causes {causes}, not {expect.causes}")
    items = tuple(item["metadata"]["name"] for item in body.get("items") or ())
    if expect.items is not None and items != expect.items:
        problems.append(f"items {items}, not {expect.items}")
    events = tuple(f"{event['type']} {event['object']['metadata'].get('name', '')}".strip() for event in answer.events)
    if expect.events is not None and events != expect.events:
        problems.append(f"events {events}, not {expect.events}")
    return problems
