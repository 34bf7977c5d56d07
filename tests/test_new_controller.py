"""docs/new-controller.md is true: its controller runs."""

import asyncio
import json
import re
from contextlib import aclosing
from typing import Any

from jobcommon.cli.embedded import InProcessTransport
from jobcommon.client.list_watch import list_and_watch
from jobcommon.client.request import Request
from localcluster import ApiServer, Env
from localcluster.client import background
from tests.architecture.source import ROOT

SNIPPETS = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/new-controller.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)


async def test_the_controller_of_the_page_does_what_it_says() -> None:
    names: dict[str, Any] = {}
    for snippet in SNIPPETS:
        exec(compile(snippet, "docs/new-controller.md", "exec"), names)
    transport = InProcessTransport(ApiServer(Env.system()))

    async def create(name: str, **labels: str) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        response = await transport.send(Request("POST", "/api/v1/namespaces", body=json.dumps(body).encode()))
        assert response.status == 201, response.body

    await create("before", team="blue")
    found: dict[str, str] = {}
    async with background(names["Teams"](transport).run()):
        await create("none")
        await create("after", team="red")
        async with asyncio.timeout(60), aclosing(list_and_watch(transport, "/api/v1/configmaps")) as seen:
            async for one in seen:
                if one.body["metadata"]["name"] == "team":
                    found[one.body["metadata"]["namespace"]] = one.body["data"]["name"]
                if len(found) == 2:
                    break
    assert found == {"before": "blue", "after": "red"}
