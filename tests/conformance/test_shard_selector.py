"""A real API server with ShardedListAndWatch sends the jobs of a shard only, by our hash; others ignore the parameter."""

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from jobcommon.api.shard import Shard
from jobcommon.client.request import Request
from jobcommon.client.transport import HttpTransport
from jobcommon.testutil.conformance.envtest import assets, servers

COUNT = 30
PATH = "/api/v1/namespaces/default/configmaps"


@pytest.mark.slow
@pytest.mark.skipif(assets() is None, reason="KUBEBUILDER_ASSETS is not set")
@pytest.mark.parametrize("extra", [["--feature-gates=ShardedListAndWatch=true"], []], ids=["honoured", "ignored"])
async def test_a_server_that_honours_the_selector_sends_the_shard_only(extra: Sequence[str]) -> None:
    async with servers(Path(os.environ["KUBEBUILDER_ASSETS"]), extra) as real:
        transport = HttpTransport(real.endpoint)
        try:
            uids = []
            for number in range(COUNT):
                body = msgspec.json.encode({"metadata": {"name": f"m-{number}"}})
                created = await transport.send(Request("POST", PATH, body=body))
                uids.append(msgspec.json.decode(created.body)["metadata"]["uid"])
            for shard in (Shard(index, 3) for index in range(3)):
                response = await transport.send(Request("GET", PATH, (("shardSelector", shard.shard_selector),)))
                assert response.status == 200, response.body
                found = msgspec.json.decode(response.body)
                wanted = {uid for uid in uids if shard.has_job(uid) or not extra}
                assert {item["metadata"]["uid"] for item in found["items"]} & set(uids) == wanted
                assert ("shardInfo" in found["metadata"]) == bool(extra)
        finally:
            await transport.close()
