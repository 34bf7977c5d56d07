"""Pods at the edge of what a server takes, as changes of one pod, with the recorded answers of a real server.

``python -m localcluster.conformance.edge_pods`` records the answers anew from a real server: for rows that were added to
the file, or for another release.
"""

import asyncio
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jsonpatch

from localcluster.conformance import real
from localcluster.conformance.case import Case, Expect, Json, Step
from localcluster.conformance.driver import Driver
from localcluster.conformance.expectation import Answer
from localcluster.conformance.kinds import PODS
from localcluster.conformance.steps import create
from localcluster.request import JSON_PATCH

FILE = Path(__file__).with_name("edge_pods.json")
#: The real server shows its internal types and a difference of texts, which are no part of the API.
_INTERNAL = re.compile(r"Invalid value: [\[{]|.*\n", re.DOTALL)
_DRY_RUN = {"dryRun": "All"}
_BATCH = 20


def cases() -> Iterator[Case]:
    """The rows of the file, some of them in each case. Only what is to be updated is stored."""
    document = json.loads(FILE.read_text())
    rows = document["cases"]
    for first in range(0, len(rows), _BATCH):
        found = rows[first : first + _BATCH]
        steps = [step for row in found for step in _steps(document, row, _expected(document, row))]
        yield Case(f"pods at the edge, {first + 1} to {first + len(found)}", tuple(steps))


def _steps(document: Json, row: Json, expect: Expect | None) -> Sequence[Step]:
    """The last of them is the one that matters. The pod is named as the row, so that a report says which it is."""
    name = re.sub(r"[^a-z0-9]+", "-", row["name"].lower())
    body = _changed(document["base"], [{"op": "replace", "path": "/metadata/name", "value": name}])
    if "of" not in row:
        return [Step("POST", PODS, body=_changed(body, row["change"]), query=_DRY_RUN, expect=expect)]
    return [create(PODS, _changed(body, row["of"])), Step("PATCH", PODS, name, row["change"], expect, JSON_PATCH, _DRY_RUN)]


def _expected(document: Json, row: Json) -> Expect | None:
    if "code" not in row:
        return None
    causes = row.get("causes", ())
    return Expect(
        row["code"],
        causes=tuple(sorted({f"{reason} {path}" for reason, path, _ in causes})) if row["code"] == 422 else None,
        fields=_changed(document["answer"], row["answer"]) if "answer" in row else {},
        messages=tuple(message for *_, message in causes if not _INTERNAL.match(message)),
    )


def _changed(value: Json, operations: list[Json]) -> Json:
    changed: Json = jsonpatch.apply_patch(value, operations)
    return changed


def _shown(body: Mapping[str, Any]) -> Json:
    """What is compared of a pod that was taken."""
    return {"spec": body["spec"], "status.qosClass": body["status"]["qosClass"]}


def _recorded(document: Json, row: Json, answer: Answer) -> Json:
    kept: Json = {key: row[key] for key in ("name", "of", "change") if key in row}
    if answer.code < 300:
        return {**kept, "code": answer.code, "answer": jsonpatch.make_patch(document["answer"], _shown(answer.body)).patch}
    causes = (answer.body.get("details") or {}).get("causes") or ()
    found = {(cause.get("reason", ""), cause.get("field", ""), cause.get("message", "").partition("\n")[0]) for cause in causes}
    return {**kept, "code": answer.code, **({"causes": sorted(found)} if causes else {})}


async def _record() -> None:
    document = json.loads(FILE.read_text())
    async with real.real() as target:
        if target is None:
            sys.exit(real.WHY_NOT)
        driver = Driver(target, "edge")
        await driver.prepare()
        base, _ = await driver.run(Case("base", (Step("POST", PODS, body=document["base"], query=_DRY_RUN),)))
        document["answer"] = _shown(base[0].body)
        steps = [_steps(document, row, None) for row in document["cases"]]
        record, problems = await driver.run(Case("edge", tuple(step for found in steps for step in found)))
        assert not problems, problems
        answers = iter(record)
        last = [[next(answers) for _ in found][-1] for found in steps]
        recorded = [_recorded(document, row, answer) for row, answer in zip(document["cases"], last, strict=True)]
    rows = [json.dumps(row, ensure_ascii=False) for row in recorded]
    head = "".join(f'"{key}": {json.dumps(document[key])},\n' for key in ("base", "answer"))
    FILE.write_text(f'{{{head}"cases": [\n' + ",\n".join(rows) + "\n]}\n")


if __name__ == "__main__":
    asyncio.run(_record())
