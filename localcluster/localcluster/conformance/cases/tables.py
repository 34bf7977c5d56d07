"""Forms to answer in: what the rows of Tables carry of the objects, by which kubectl sorts and watches; and keys of tokens."""

from typing import Any

from localcluster.conformance.case import Case, Expect, Json, Kind, Step
from localcluster.conformance.kinds import CONFIG_MAPS, PODS, WIDGETS, config_map, pod, widget
from localcluster.conformance.steps import create

_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
_MAKERS = ((PODS, pod), (CONFIG_MAPS, config_map), (WIDGETS, widget))
_BRIEF: Json = {"rows.0.object.kind": "PartialObjectMetadata", "rows.0.object.apiVersion": "meta.k8s.io/v1"}


def _table(kind: Kind, include: str | None, name: str = "", code: int = 200, **expect: Any) -> Step:
    query = {} if name else {"fieldSelector": "metadata.name=n"}
    if include is not None:
        query["includeObject"] = include
    return Step("GET", kind, name, query=query, accept=_TABLE, expect=Expect(code, **expect))


_KEYS, _KEY_SET = Kind("/openid/v1", "jwks", "", namespaced=False), "application/jwk-set+json"
_KEY_CASE = Case("the keys of tokens are no plain JSON", (
    Step("GET", _KEYS, accept="application/json", expect=Expect(406, reason="NotAcceptable",
        message="406: Not Acceptable\n\nAvailable representations: application/jwk-set+json")),
    *(Step("GET", _KEYS, accept=accept, expect=Expect(200, fields={"keys.0.use": "sig", "keys.0.alg": "ES256"}))
        for accept in (_KEY_SET, f"{_KEY_SET},application/json", "*/*")),
), comparable=False)  # fmt: skip

# Not comparable: a row holds an age, and columns have descriptions that change between releases.
CASES = (_KEY_CASE, *(
    Case(f"what a table's rows carry: {kind.plural}", (
        create(kind, make("n")), _table(kind, None, fields={"kind": "Table", **_BRIEF}), _table(kind, "", fields=_BRIEF),
        _table(kind, "Metadata", fields={**_BRIEF, "rows.0.object.spec": None}),
        _table(kind, "Object",
            fields={"rows.0.object.kind": kind.kind, "rows.0.object.apiVersion": kind.api_version,
                "rows.0.object.metadata.name": "n"}),
        _table(kind, "Object", "n", fields={"kind": "Table", "rows.0.object.kind": kind.kind}),
        _table(kind, "None", fields={"kind": "Table", "rows.0.cells.0": "n", "rows.0.object": None}),
        _table(kind, "Everything", code=400, reason="BadRequest",
            message='Unable to convert to Table as requested: includeObject: Invalid value: "Everything"'),
    ), comparable=False)
    for kind, make in _MAKERS
))  # fmt: skip
