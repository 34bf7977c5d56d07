"""What the requests of a small job cost the API server."""

import pytest

from benchmarks import server_cost
from benchmarks.apiserver import EMBEDDED


@pytest.mark.slow
async def test_each_request_is_measured_with_each_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    """`measure` goes on only if the server shows by its responses that it uses the definition."""
    monkeypatch.setattr(server_cost, "SETTLE_SECONDS", 0.0)

    _, found = await server_cost.measure(EMBEDDED, 2)

    definitions = [variant.name for variant in server_cost.variants()]
    requests = ("job: POST", "job: PUT of the status", "job: GET", "job: DELETE")
    assert [(cost.request, cost.definition) for cost in found[: len(definitions) * len(requests)]] == [
        (request, definition) for definition in definitions for request in requests
    ]
    assert [cost.request for cost in found[len(definitions) * len(requests) :]] == [
        "Service: POST",
        "Service: DELETE",
        "pod: POST",
        "pod: PATCH of the status",
        "pod: PATCH of the finalizers",
        "pod: DELETE",
    ]
