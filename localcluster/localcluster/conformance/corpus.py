"""Built-in objects, valid and invalid, and what the real server answers when they are created or changed.

The objects are data in ``objects/``: a file maps names to objects, with the parts that they share under ``common``. Each is
sent as a create that stores nothing; what an update may change is in ``updates.yaml``, as patches of these objects. The answers
that were recorded from a real server let the embedded one be compared without it.
"""

from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path

import msgspec
import yaml

from localcluster.apiserver.builtin import BUILTIN
from localcluster.conformance.case import Case, Json, Kind, Step
from localcluster.conformance.driver import Driver
from localcluster.conformance.record import Record
from localcluster.request import MERGE_PATCH

_FOLDER = Path(__file__).with_name("objects")
_UPDATES = "updates.yaml"
ANSWERS = _FOLDER / "answers.json"
#: The objects whose answers differ from the real server's, with the reason.
DIFFERENT: Mapping[str, str] = {
    "controller-revision/minimal": "the data of a ControllerRevision has a manager; in the real server it has none",
    "node/minimal": "a new node has no taint not-ready: no controller would remove it",
    "node/with-a-status": "the same",
}
_KINDS = {
    (resource.api_version, resource.kind): Kind(
        f"/apis/{resource.api_version}" if resource.group else "/api/v1", resource.plural, resource.kind, resource.namespaced
    )
    for resource in BUILTIN.values()
}


def objects() -> dict[str, Json]:
    """The objects by their names, such as ``deployment/minimal``."""
    found: dict[str, Json] = {}
    for path in sorted(_FOLDER.glob("*.yaml")):
        if path.name != _UPDATES:
            found |= {name: entry for name, entry in yaml.safe_load(path.read_text()).items() if name != "common"}
    return found


def cases() -> tuple[Case, ...]:
    """One case for each kind of object, and one for the updates of each kind."""
    rows = [(name, (_creation(entry),)) for name, entry in objects().items()] + list(_updates())
    alike = groupby(rows, key=lambda row: row[0] if row[0] in DIFFERENT else row[0].rpartition("/")[0])
    return tuple(
        Case(f"object {family}", tuple(step for _, steps in group for step in steps), comparable=family not in DIFFERENT)
        for family, group in alike
    )


def _creation(entry: Json) -> Step:
    return Step("POST", _KINDS[entry["apiVersion"], entry["kind"]], body=entry, query={"dryRun": "All"})


def _updates() -> Iterator[tuple[str, tuple[Step, ...]]]:
    known = objects()
    for name, entry in yaml.safe_load((_FOLDER / _UPDATES).read_text()).items():
        of = known[entry["of"]]
        kind = _KINDS[of["apiVersion"], of["kind"]]
        own = name.rpartition("/")[2]
        made = {**of, "metadata": {**of["metadata"], "name": own}}
        yield f"update {name}", (Step("POST", kind, body=made), Step("PATCH", kind, own, entry["patch"], media=MERGE_PATCH))


async def answers(driver: Driver) -> dict[str, Json]:
    """What a server answers, by the names of the objects and updates."""
    found: dict[str, Json] = {}
    names = iter([*objects(), *(name for name, _ in _updates())])
    for case in cases():
        record, _ = await driver.run(case)
        for step, answer in zip(case.steps, record.answers, strict=True):
            if step.query or step.method == "PATCH":
                found[next(names)] = _shown(Record(record.spaces, [answer]))
    return found


def _shown(record: Record) -> Json:
    """One answer without what only a comparison of two servers looks at."""
    shown = record.normalised()[0]
    meta = (shown.get("body") or {}).get("metadata")
    if isinstance(meta, dict):
        meta.pop("managedFields", None)
    return shown


def recorded() -> dict[str, Json]:
    """The answers of a real server, as `write` has recorded them."""
    found: dict[str, Json] = msgspec.json.decode(ANSWERS.read_bytes())
    return found


def write(found: Mapping[str, Json]) -> None:
    """Record answers: one line each."""
    lines = [
        f"{msgspec.json.encode(name).decode()}: {msgspec.json.encode(one, order='sorted').decode()}"
        for name, one in found.items()
    ]
    ANSWERS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
