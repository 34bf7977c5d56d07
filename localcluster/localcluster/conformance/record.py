"""What a server did with a case, without what two right servers may do differently."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from localcluster.conformance.case import Json

_UID = re.compile(r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")
_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")
#: What a server makes of the generateNames of the suite, ``g1-`` and so on.
_GENERATED = re.compile(r"^(g\d+-)[bcdfghjklmnpqrstvwxz2456789]{5}$")
#: Chosen by the server, one as good as another.
_ALLOCATED = ("clusterIP", "nodePort", "healthCheckNodePort")


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


@dataclass(slots=True)
class Record:
    """The answers of one server to the steps of one case. `versions` are the resourceVersions of objects that were seen."""

    spaces: Mapping[str, str]
    answers: list[Answer] = field(default_factory=list)

    def normalised(self) -> list[Json]:
        """One plain value per step; equal for servers that agree."""
        return _Normaliser(self).answers()


class _Normaliser:
    def __init__(self, record: Record) -> None:
        self._record = record
        self._names = {name: f"<namespace {key}>" for key, name in record.spaces.items()}
        self._uids: dict[str, str] = {}
        self._ranks: dict[str, int] = {}

    def answers(self) -> list[Json]:
        versions: set[int] = set()
        for answer in self._record.answers:
            for shown in _objects(answer):
                versions.add(int(shown["metadata"]["resourceVersion"]))
        self._ranks = {str(version): rank for rank, version in enumerate(sorted(versions))}
        return [self._answer(answer) for answer in self._record.answers]

    def _answer(self, answer: Answer) -> Json:
        if answer.events is not None:
            return {"code": answer.code, "events": [self._event(event) for event in answer.events]}
        return {"code": answer.code, "body": self._body(answer.body)}

    def _event(self, event: Json) -> Json:
        shown = event["object"]
        if event["type"] == "BOOKMARK":
            return {"type": "BOOKMARK", "annotations": shown["metadata"].get("annotations")}
        return {"type": event["type"], "object": self._body(shown)}

    def _body(self, body: Any) -> Any:
        if not isinstance(body, Mapping):
            return body
        if body.get("kind") == "Status":
            return self._status(body)
        if "items" in body:
            meta = {key: value for key, value in body["metadata"].items() if key not in ("resourceVersion", "continue")}
            meta["continue"] = bool(body["metadata"].get("continue"))
            return {**body, "metadata": meta, "items": [self._value(item) for item in body["items"] or []]}
        return self._value(body)

    def _status(self, body: Mapping[str, Any]) -> Json:
        # The text is for people and changes between releases; code, reason and causes are what clients act on.
        details = body.get("details") or {}
        causes = sorted({f"{cause.get('reason', '')} {cause.get('field', '')}" for cause in details.get("causes") or ()})
        shown = {key: details[key] for key in ("name", "group", "kind") if key in details}
        return self._value({"status": body.get("status"), "reason": body.get("reason", ""), "details": shown, "causes": causes})  # type: ignore[no-any-return]

    def _value(self, value: Any, key: str = "") -> Any:
        if isinstance(value, Mapping):
            # In the order of their names: uids are numbered as they appear, and the order of fields is not guaranteed.
            return {name: self._value(value[name], name) for name in sorted(value)}
        if isinstance(value, list) and key == "managedFields":
            # Entries are sorted by time, and two writes may or may not fall into one second.
            return sorted((self._value(item) for item in value), key=str)
        if isinstance(value, list):
            return [self._value(item, key) for item in value]
        if key == "resourceVersion" and value in self._ranks:
            return f"version {self._ranks[value]}"
        if key in _ALLOCATED and value not in ("None", ""):
            return "allocated"
        return self._text(value, key) if isinstance(value, str) else value

    def _text(self, value: str, key: str) -> str:
        if key == "clusterIPs" and value != "None":
            return "allocated"
        if _UID.match(value):
            return self._uids.setdefault(value, f"uid {len(self._uids)}")
        if _TIME.match(value):
            return "time"
        if generated := _GENERATED.match(value):
            return f"{generated[1]}generated"
        return self._names.get(value, value)


def _objects(answer: Answer) -> list[Json]:
    """The objects in an answer that carry a version of their own (a list's and a bookmark's are the server's)."""
    bodies: list[Any] = (
        [answer.body] if answer.events is None else [event["object"] for event in answer.events if event["type"] != "BOOKMARK"]
    )
    if answer.events is None and isinstance(answer.body, Mapping) and "items" in answer.body:
        bodies = answer.body["items"] or []
    return [
        body for body in bodies
        if isinstance(body, dict) and body.get("kind") != "Status" and (body.get("metadata") or {}).get("resourceVersion")
    ]  # fmt: skip


def difference(one: Any, other: Any, path: str = "") -> list[str]:
    """The paths at which two plain values differ, with both values."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return [
            text
            for key in sorted({*one, *other})
            for text in difference(one.get(key, "<absent>"), other.get(key, "<absent>"), f"{path}.{key}" if path else str(key))
        ]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [
            text for index, pair in enumerate(zip(one, other, strict=True)) for text in difference(*pair, f"{path}[{index}]")
        ]
    return [] if one == other else [f"{path}: {one!r} / {other!r}"]
