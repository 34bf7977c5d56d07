"""Whether an answer is what a case says it must be."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from localcluster.conformance.case import After, Expect, Json
from localcluster.conformance.memory import at
from localcluster.timestamps import parse_time


@dataclass(slots=True)
class Answer:
    """The answer to one step: a response (`code` and `body`), or a watch (`code` 200 and `events`)."""

    code: int
    body: Any = None
    events: list[Json] | None = None

    @property
    def reason(self) -> str:
        """Of a Status body."""
        return str(self.body.get("reason", "")) if isinstance(self.body, Mapping) else ""


def unmet(expect: Expect, fields: Mapping[str, Any], answer: Answer) -> list[str]:
    """What is wrong with `answer`; `fields` are those of `expect` with their references resolved."""
    body = answer.body if isinstance(answer.body, Mapping) else {}
    problems = []
    if answer.code != expect.code:
        problems.append(f"code {answer.code}, not {expect.code}: {body.get('message', answer.body)}")
    if expect.reason is not None and answer.reason != expect.reason:
        problems.append(f"reason {answer.reason!r}, not {expect.reason!r}")
    text = str(body.get("message", answer.body))
    if expect.message not in text:
        problems.append(f"message {text!r} without {expect.message!r}")
    for path, wanted in fields.items():
        found = at(body, path)
        if isinstance(wanted, After):
            if not found or parse_time(found) < parse_time(wanted.start) + wanted.seconds:
                problems.append(f"{path} is {found!r}, not {wanted.seconds:g} s after {wanted.start}")
        elif found != wanted:
            problems.append(f"{path} is {found!r}, not {wanted!r}")
    if expect.causes is not None:
        given = at(body, "details.causes") or ()
        causes = sorted({f"{cause.get('reason', '')} {cause.get('field', '')}" for cause in given})
        if causes != sorted(expect.causes):
            problems.append(f"causes {causes}, not {expect.causes}")
    # A real server may add lines that show its internal types.
    said = {cause.get("message", "").partition("\n")[0] for cause in at(body, "details.causes") or ()}
    problems += [f"cause {message!r} is not among {sorted(said)}" for message in expect.messages if message not in said]
    if expect.items is not None:
        items = tuple(item["metadata"]["name"] for item in body.get("items") or ())
        if items != expect.items:
            problems.append(f"items {items}, not {expect.items}")
    if expect.events is not None:
        events = tuple(_event(event) for event in answer.events or ())
        if events != expect.events:
            problems.append(f"events {events}, not {expect.events}")
    return problems


def _event(event: Mapping[str, Any]) -> str:
    shown = event["object"]
    if event["type"] == "ERROR":
        return f"ERROR {shown.get('code')} {shown.get('reason')}"
    return f"{event['type']} {shown['metadata'].get('name', '')}".strip()
