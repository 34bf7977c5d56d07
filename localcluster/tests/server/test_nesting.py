"""Objects nested beyond any sense get an answer from the embedded server, not an internal error."""

import msgspec
import pytest

from localcluster.apiserver import ADMIN, ApiServer, Env
from localcluster.request import MERGE_PATCH, Request

MAPS = "/api/v1/namespaces/default/configmaps"


def nested(levels: int) -> bytes:
    """A body whose metadata is so deep."""
    return b'{"metadata":{"name":"deep"},"data":{"a":"b"},"x":' + b'{"a":' * levels + b"1" + b"}" * (levels + 1)


@pytest.mark.parametrize("levels", [10, 400, 900, 5_000, 100_000])
@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [("POST", MAPS, "application/json"), ("PATCH", f"{MAPS}/kept", MERGE_PATCH), ("PUT", f"{MAPS}/kept", "application/json"),
     ("PATCH", f"{MAPS}/kept", "application/strategic-merge-patch+json"),
     ("PATCH", f"{MAPS}/kept?fieldManager=me", "application/apply-patch+yaml")],
)  # fmt: skip
def test_a_nested_body_is_answered(levels: int, method: str, path: str, kind: str) -> None:
    server = ApiServer(Env.seeded(1, lambda: 1.7e9))
    kept = msgspec.json.encode({"metadata": {"name": "kept"}, "data": {"a": "b"}})
    assert server.handle(Request("POST", MAPS, body=kept), ADMIN).status == 201
    path, _, query = path.partition("?")
    pairs = tuple((part.partition("=")[0], part.partition("=")[2]) for part in query.split("&") if part)
    body = nested(levels) if "kept" not in path else nested(levels).replace(b"deep", b"kept")
    answer = server.handle(Request(method, path, pairs, body, kind), ADMIN)
    assert answer.status < 500, answer.body
    after = server.handle(Request("GET", f"{MAPS}/kept"), ADMIN)
    assert msgspec.json.decode(after.body)["data"] == {"a": "b"}
