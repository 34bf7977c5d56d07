"""``python -m benchmarks.posting``: the client's CPU time for a POST over TLS, by http1 and by a tuned aiohttp in turn."""

import asyncio
import json
import time

from benchmarks.ablation import AiohttpTransport
from benchmarks.apiserver import EMBEDDED, cluster, prepare
from benchmarks.sending import send_all
from benchmarks.workloads import Workload, baseline_writes
from jobcommon.client.request import Request
from jobcommon.client.transport import HttpTransport

REQUESTS, ROUNDS = 300, 7
NAMESPACE = "posting"


async def _measured() -> dict[type[HttpTransport], float]:
    pod = next(one for one in baseline_writes(Workload(1, 1), NAMESPACE) if one.path.endswith("/pods"))
    body = json.loads(pod.body or b"")
    body["metadata"].pop("ownerReferences", None)
    wanted = [Request("POST", pod.path, (("dryRun", "All"),), json.dumps(body).encode(), headers=pod.headers)] * REQUESTS
    least = dict.fromkeys((HttpTransport, AiohttpTransport), float("inf"))
    async with cluster(EMBEDDED) as server:
        async with server.connected() as user:
            await prepare(user, NAMESPACE)
        for kind in list(least) * ROUNDS:
            client = kind(server.endpoint)
            await send_all(client, wanted[:40])
            before = time.process_time()
            await send_all(client, wanted)
            least[kind] = min(least[kind], (time.process_time() - before) / REQUESTS)
            await client.close()
    return least


if __name__ == "__main__":
    ours, theirs = asyncio.run(_measured()).values()
    print(f"http1 {ours * 1e6:.0f} µs a POST, aiohttp {theirs * 1e6:.0f} µs: {theirs / ours:.2f} ×")
