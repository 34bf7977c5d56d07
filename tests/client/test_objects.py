"""Requests on objects."""

from dataclasses import replace

from jobcommon.client import objects
from jobcommon.client.request import JSON_PATCH, Request


def test_metadata_only_changes_nothing_else_of_a_request() -> None:
    request = Request("PATCH", "/p", (("dryRun", "All"),), b"[]", JSON_PATCH, {"impersonate-user": "eve"})
    brief = objects.metadata_only(request)
    assert brief.headers.keys() == {"impersonate-user", "accept"}
    assert replace(brief, headers=request.headers) == request
