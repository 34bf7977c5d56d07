"""What an MPIJob's first pass creates, as golden files: v2beta1 with ssh, v1 with kubectl exec.

``make golden`` writes them anew; look at the difference before you commit it.
"""

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from jobcommon.api.observed import Observed
from jobcommon.operators.mpi import MPI
from jobcommon.reconcile import Create, plan, read_job
from jobcommon.testutil.builders import START, replica_spec

GOLDEN = Path(__file__).parent.parent / "golden"


def plain(manifest: object) -> object:
    """The same JSON without shared parts, for which YAML would use anchors."""
    return msgspec.json.decode(msgspec.json.encode(manifest))


def horovod(version: str) -> dict[str, Any]:
    launcher, worker = replica_spec(MPI), replica_spec(MPI, 2)
    launcher["template"]["spec"]["containers"][0]["command"] = ["mpirun", "-np", "4", "python", "train.py"]
    worker["template"]["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 2}}
    return {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": "MPIJob",
        "metadata": {"name": "horovod", "namespace": "ns", "uid": "uid-horovod"},
        "spec": {
            "slotsPerWorker": 2,
            "launcherCreationPolicy": "AtStartup",
            "mpiReplicaSpecs": {"Launcher": launcher, "Worker": worker},
        },
    }


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_golden_manifests(version: str) -> None:
    decision = plan(MPI, read_job(MPI, horovod(version)), Observed(), START)
    manifests = [plain(action.manifest) for action in decision.actions if isinstance(action, Create)]
    words = "".join(f"# {line}\n" for line in decision.describe().splitlines())
    found = words + "".join(f"---\n{yaml.safe_dump(manifest, sort_keys=False, width=120)}" for manifest in manifests)
    path = GOLDEN / f"mpi_{version}.yaml"
    if os.environ.get("GOLDEN") == "write":
        path.write_text(found)
    assert found == path.read_text(), "if this is meant: make golden"
