"""Sends a case to a server, over HTTP, and compares the answers with what they must be."""

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from localcluster.conformance.real import Target
from localcluster.conformance.table import KINDS, Case, Json, at, document, holds, resolved, smallest
from localcluster.request import JSON, JSON_PATCH, MERGE_PATCH, Request, StatusError

#: What ends a watch carries these, so that the selectors of the suite let it through.
_END_LABELS = {"app": "x", "tier": "x"}
_END = "zz-end-"
# The last clause is for responses that have no metadata of their own, such as a Status.
_METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
_ONLY = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "spec": None, "status": None, "data": None}
_PATIENCE = 10.0
_PAUSE = 0.02
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


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
        await self._must("POST", _CRDS, document()["definition"], (201, 409))
        # It is served a moment later.
        served = await self._settled({"do": "GET widgets"}, "default")
        assert served.code == 200, f"{self.target.name}: widgets are not served: {served.code} {served.body}"

    async def run(self, case: Case) -> list[str]:
        """Run every step; gives what was expected and has not come."""
        space = f"{self._label}-{next(self._count)}"
        await self._must("POST", "/api/v1/namespaces", {"metadata": {"name": space}}, (201,))
        # It has no token mounted, which the embedded server never does. Where a controller makes it, it may have been faster.
        account = {"metadata": {"name": "default"}, "automountServiceAccountToken": False}
        await self._must("POST", f"/api/v1/namespaces/{space}/serviceaccounts", account, (201, 409))
        problems: list[str] = []
        answers: list[Json] = []
        for number, row in enumerate(case.steps, 1):
            step = resolved(row, answers)
            answer = await self._settled(step, space) if step.get("settle") else await self._step(step, space)
            problems += [f"{case.name}: step {number}, {step['do']}: {problem}" for problem in unmet(step, answer)]
            answers.append(answer.body if isinstance(answer.body, dict) else {})
        return problems

    async def _settled(self, step: Json, space: str) -> Answer:
        deadline = asyncio.get_running_loop().time() + _PATIENCE
        while True:
            answer = await self._step(step, space)
            if not unmet(step, answer) or asyncio.get_running_loop().time() > deadline:
                return answer
            await asyncio.sleep(_PAUSE)

    async def _step(self, step: Json, space: str) -> Answer:
        if pause := step.get("pause"):
            await self.target.wait(pause)
        method, plural, *names = step["do"].split()
        path = "/".join((f"/api/v1/namespaces/{space}" if plural == "namespaces" else _path(plural, space), *names))
        query = tuple((key, str(value)) for key, value in step.get("query", {}).items())
        if method == "WATCH":
            return await self._watch(plural, path, query)
        body = step.get("body")
        if method == "POST" and not names:
            changed = smallest(plural, "n")
            body = step.get("whole") or resolved({"$1": body or {}}, [changed])
        media = JSON if method != "PATCH" else step.get("media", JSON_PATCH if isinstance(body, list) else MERGE_PATCH)
        return await self._send(method, path, body, query=query, media=media, brief=bool(step.get("brief")))

    async def _watch(self, plural: str, path: str, asked: tuple[tuple[str, str], ...]) -> Answer:
        """Every event up to one that the driver causes itself."""
        end = f"{_END}{next(self._count)}"
        await self._must("POST", path, smallest(plural, end, labels=_END_LABELS), (201,))
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
        media: str = JSON, brief: bool = False,
    ) -> Answer:  # fmt: skip
        encoded = None if body is None else msgspec.json.encode(body)
        headers = {"accept": _METADATA_ONLY} if brief else {}
        response = await self.target.transport.send(Request(method, path, query, encoded, media, headers))
        try:
            decoded = msgspec.json.decode(response.body)
        except msgspec.DecodeError:
            decoded = response.body.decode(errors="replace").strip()
        return Answer(response.status, decoded)


def _path(plural: str, space: str) -> str:
    return f"{KINDS[plural][0]}/namespaces/{space}/{plural}"


def unmet(step: Json, answer: Answer) -> list[str]:
    """What is wrong with `answer`."""
    body = answer.body if isinstance(answer.body, dict) else {}
    text = str(body.get("message", answer.body))
    code = step.get("code", 201 if step["do"].startswith("POST") else 200)
    fields = {**(_ONLY if step.get("brief") == "only" else {}), **step.get("fields", {})}
    causes = sorted({f"{one.get('reason', '')} {one.get('field', '')}" for one in at(body, "details.causes") or ()})
    named = [item["metadata"]["name"] for item in body.get("items") or ()]
    events = [f"{event['type']} {event['object']['metadata'].get('name', '')}".strip() for event in answer.events]
    problems = [f"code {answer.code}, not {code}: {text}"] if answer.code != code else []
    for name, found in (("reason", body.get("reason")), ("causes", causes), ("items", named), ("events", events)):
        if name in step and found != (sorted(step[name]) if name == "causes" else step[name]):
            problems.append(f"{name} {found!r}, not {step[name]!r}")
    if step.get("message", "") not in text:
        problems.append(f"message {text!r} without {step['message']!r}")
    pairs = [(path, wanted, at(body, path)) for path, wanted in fields.items()]
    return problems + [f"{path} is {found!r}, not {wanted!r}" for path, wanted, found in pairs if not holds(wanted, found)]
