"""Sends a case to a server, over HTTP."""

import asyncio
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from localcluster.conformance.case import Case, Expect, Json, Kind, Space, Step
from localcluster.conformance.expectation import Answer, unmet
from localcluster.conformance.kinds import (
    ACCOUNTS,
    CONFIG_MAPS,
    CRDS,
    NAMESPACES,
    PODS,
    SERVICES,
    WIDGETS,
    account,
    obj,
    pod,
    service,
    widget,
    widget_crd,
)
from localcluster.conformance.memory import Memory, at
from localcluster.conformance.target import Target
from localcluster.errors import StatusError
from localcluster.request import Request

SPACES = ("a", "b")
#: What ends a watch carries these, so that the selectors of the suite let it through.
END_LABELS = {"app": "x", "tier": "x"}
_END = "zz-end-"
# The last clause is for responses that have no metadata of their own, such as a Status.
_METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
_PATIENCE = 10.0
_PAUSE = 0.02
_ENDS = {
    PODS.plural: lambda name: pod(name, labels=END_LABELS),
    SERVICES.plural: lambda name: service(name, labels=END_LABELS),
    WIDGETS.plural: lambda name: widget(name, labels=END_LABELS),
}


class Driver:
    """Runs cases against one server, each in two new namespaces. `prepare` comes first."""

    def __init__(self, target: Target, label: str = "run") -> None:
        self.target = target
        self._label = label
        self._count = itertools.count()

    async def prepare(self) -> None:
        """Define the custom resource. Raises AssertionError when the server does not take it."""
        await self._must("POST", f"{CRDS.prefix}/{CRDS.plural}", widget_crd(), (201, 409))
        # It is served a moment later.
        served = await self._settled(Step("GET", WIDGETS, space="", expect=Expect(200)), Memory({}))
        assert served.code == 200, f"{self.target.name}: widgets are not served: {served.code} {served.body}"

    async def run(self, case: Case) -> tuple[list[Answer], list[str]]:
        """Run every step; gives the answers, and what was expected and has not come."""
        number = next(self._count)
        spaces = {key: f"{self._label}-{number}-{key}" for key in SPACES}
        for name in spaces.values():
            await self._must("POST", f"{NAMESPACES.prefix}/namespaces", obj(NAMESPACES, name), (201,))
            # Where a controller makes this account, it may have been faster.
            await self._must("POST", f"{ACCOUNTS.prefix}/namespaces/{name}/{ACCOUNTS.plural}", account(), (201, 409))
        memory = Memory(spaces)
        answers: list[Answer] = []
        problems: list[str] = []
        for step in case.steps:
            # What is expected may speak of the versions before this step.
            before = None if step.expect is None else memory.resolve(step.expect.fields)
            answer = await self._settled(step, memory) if step.settle else await self._step(step, memory)
            answers.append(answer)
            if step.expect is not None:
                problems += [f"{case.name}: {step}: {problem}" for problem in unmet(step.expect, before or {}, answer)]
        await self._clear(spaces.values())
        return answers, problems

    async def _clear(self, spaces: Iterable[str]) -> None:
        """Take away what may go at once: other cases list the whole cluster, and thousands would fill more than a page."""
        for space in spaces:
            for kind in (PODS, SERVICES, CONFIG_MAPS, WIDGETS):
                path = f"{kind.prefix}/namespaces/{space}/{kind.plural}"
                await self._send("DELETE", path, query=(("gracePeriodSeconds", "0"),))

    async def _settled(self, step: Step, memory: Memory) -> Answer:
        deadline = asyncio.get_running_loop().time() + _PATIENCE
        while True:
            answer = await self._step(step, memory)
            done = step.expect is None or not unmet(step.expect, memory.resolve(step.expect.fields), answer)
            if done or asyncio.get_running_loop().time() > deadline:
                return answer
            await asyncio.sleep(_PAUSE)

    async def _step(self, step: Step, memory: Memory) -> Answer:
        if step.pause:
            await self.target.wait(step.pause)
        if step.method == "WATCH":
            return await self._watch(step, memory)
        query = _query(step, memory)
        answer = await self._send(
            step.method, _path(step, memory), memory.resolve(step.body), query=query, media=step.media, brief=step.brief
        )
        if step.kind.namespaced and not step.space and at(answer.body, "items"):
            # A list of the whole cluster holds what other cases and the server itself have made.
            answer.body["items"] = [
                item for item in answer.body["items"] if item["metadata"]["namespace"] in memory.spaces.values()
            ]
        if answer.code < 300 and isinstance(answer.body, dict) and not step.query.get("dryRun"):
            self._remember(step, memory, answer.body)
        return answer

    def _remember(self, step: Step, memory: Memory, body: Json) -> None:
        if "items" in body:
            memory.remember(f"list/{step.kind.plural}", body)
            if memory.version(f"list/{step.kind.plural}/start") is None:
                memory.remember(f"list/{step.kind.plural}/start", body)
            return
        meta = body.get("metadata") or {}
        if body.get("kind") in (step.kind.kind, "PartialObjectMetadata") and meta.get("uid") and meta.get("resourceVersion"):
            space = {name: key for key, name in memory.spaces.items()}.get(meta.get("namespace", ""), "")
            name = step.name.key if isinstance(step.name, Space) else meta["name"]
            memory.remember("/".join(part for part in (step.kind.plural, space, name) if part), body)

    async def _watch(self, step: Step, memory: Memory) -> Answer:
        """Every event up to one that the driver causes itself."""
        end = f"{_END}{next(memory.watches)}"
        space = memory.spaces[step.space or "a"]
        collection = f"{step.kind.prefix}/namespaces/{space}/{step.kind.plural}"
        await self._must("POST", collection, _ending(step.kind, end), (201,))
        # A consistent list makes the real server's watch cache catch up, so that a watch "from now" is from now.
        await self._send("GET", collection, query=(("limit", "1"),))
        query = {"timeoutSeconds": "10", **dict(_query(step, memory)), "watch": "true"}
        request = Request("GET", _path(step, memory), tuple(query.items()))
        try:
            events = await self._events(request, (space, end), memory)
        except StatusError as error:
            return Answer(error.code, {"kind": "Status", "status": "Failure", "reason": error.reason})
        if query.get("resourceVersion", "") in ("", "0"):
            # The current state comes first, in an order the server may choose.
            events.sort(
                key=lambda event: (
                    event["type"] == "BOOKMARK",
                    str(event["object"]["metadata"].get("namespace")),
                    str(event["object"]["metadata"].get("name")),
                )
            )
        return Answer(200, events=events)

    async def _events(self, request: Request, end: tuple[str, str], memory: Memory) -> list[Json]:
        wanted = (*memory.spaces.values(), None)
        whole = dict(request.query).get("sendInitialEvents") == "true"
        events: list[Json] = []
        lines = self.target.transport.stream(request)
        try:
            async for line in lines:
                event: Json = msgspec.json.decode(line)
                meta = event["object"].get("metadata") or {}
                if (meta.get("namespace"), meta.get("name")) == end:
                    if whole:
                        continue
                    break
                if meta.get("namespace") in wanted and not str(meta.get("name")).startswith(_END):
                    events.append(event)
                if event["type"] in ("ERROR", "BOOKMARK"):
                    break
        finally:
            await lines.aclose()  # type: ignore[attr-defined]
        return events

    async def _must(self, method: str, path: str, body: Any, codes: Sequence[int]) -> None:
        answer = await self._send(method, path, body)
        assert answer.code in codes, f"{self.target.name}: {method} {path}: {answer.code} {answer.body}"

    async def _send(
        self, method: str, path: str, body: Any = None, *, query: tuple[tuple[str, str], ...] = (),
        media: str = "application/json", brief: bool = False,
    ) -> Answer:  # fmt: skip
        encoded = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
        headers = {"accept": _METADATA_ONLY} if brief else {}
        response = await self.target.transport.send(Request(method, path, query, encoded, media, headers))
        try:
            decoded = msgspec.json.decode(response.body)
        except msgspec.DecodeError:
            decoded = response.body.decode(errors="replace").strip()
        return Answer(response.status, decoded)


def _ending(kind: Kind, name: str) -> Json:
    make = _ENDS.get(kind.plural)
    return make(name) if make else obj(CONFIG_MAPS if kind == CONFIG_MAPS else kind, name, labels=END_LABELS)


def _path(step: Step, memory: Memory) -> str:
    kind = step.kind
    space = f"/namespaces/{memory.spaces.get(step.space, step.space)}" if kind.namespaced and step.space else ""
    name = memory.resolve(step.name)
    return "/".join(part for part in (f"{kind.prefix}{space}", kind.plural, name, step.subresource) if part)


def _query(step: Step, memory: Memory) -> tuple[tuple[str, str], ...]:
    return tuple((key, str(memory.resolve(value))) for key, value in step.query.items())
