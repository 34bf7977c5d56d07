"""The fifth framework on the embedded cluster: its operator is the library's."""

import sys

import pytest

from jobcommon.testutil.builders import job_manifest, replica_spec
from jobcommon.testutil.cluster import cluster_for, succeeded
from tests.frameworks.jax import JAX

# What jax.distributed.initialize does first: all processes connect to the coordinator.
SCRIPT = """
import os, socket, time
address = os.environ["COORDINATOR_ADDRESS"], int(os.environ["COORDINATOR_PORT"])
number, of = int(os.environ["PROCESS_ID"]), int(os.environ["NUM_PROCESSES"])
if number == 0:
    with socket.create_server(address) as server:
        peers = [server.accept()[0] for _ in range(1, of)]
    for peer in peers:
        peer.sendall(b"all here")
else:
    while True:
        try:
            connection = socket.create_connection(address)
            break
        except OSError:
            time.sleep(0.02)
    print(connection.recv(100).decode())
print(number, "of", of)
"""


@pytest.mark.cluster
async def test_a_job_of_a_new_framework_runs_to_its_end() -> None:
    template = {"spec": {"containers": [{"name": "jax", "image": "any", "command": [sys.executable, "-c", SCRIPT]}]}}
    spec = replica_spec(JAX, 2) | {"template": template}
    async with cluster_for(JAX) as cluster:
        await cluster.create(JAX, job_manifest(JAX, {"Worker": spec}))
        job = await cluster.until(JAX, "demo", succeeded)
        logs = [await cluster.logs(pod) for pod in sorted(await cluster.pods(), key=lambda pod: pod["metadata"]["name"])]
    assert logs == ["0 of 2\n", "all here\n1 of 2\n"]
    assert job["status"]["replicaStatuses"]["Worker"]["succeeded"] == 2
