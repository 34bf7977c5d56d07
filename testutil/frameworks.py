"""Frameworks for tests, and where their jobs are.

`TEST_JOB` is the sample of the reference operators: a Master and Workers, container `test-container`, port `job-port` 2222,
everything else by default. It is also the smallest example of a framework of one's own.
"""

from collections.abc import Sequence
from dataclasses import replace

from jobcommon.api.replica import Replica
from jobcommon.framework import EnvVar, Framework, Job, ReplicaType, ScalePaths


def path_of(of: Framework | str, name: str = "", namespace: str = "default", version: str = "") -> str:
    """The path of a framework's jobs or of a plural of core/v1, or of one object among them."""
    group = f"/apis/{of.group}/{version or of.storage_version}" if isinstance(of, Framework) else "/api/v1"
    plural = of.plural if isinstance(of, Framework) else of
    return f"{group}/namespaces/{namespace}/{plural}" + (f"/{name}" if name else "")


def _env(job: Job, replica: Replica) -> Sequence[EnvVar]:
    return (
        EnvVar("REPLICA_TYPE", replica.type),
        EnvVar("REPLICA_INDEX", str(replica.index)),
        EnvVar("REPLICAS", str(job.total_replicas)),
    )


TEST_JOB = Framework(
    kind="TestJob",
    plural="testjobs",
    name="test",
    replica_specs="testReplicaSpecs",
    replica_types=(ReplicaType("Master"), ReplicaType("Worker")),
    container="test-container",
    port_name="job-port",
    port=2222,
    env=_env,
)
SCALED_JOB = replace(TEST_JOB, scale=ScalePaths.of_type("testReplicaSpecs"))
"""The same with workers that `kubectl scale` changes."""
