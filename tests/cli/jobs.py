"""PyTorchJobs of a shell command, for tests on the embedded cluster."""

from typing import Any

from jobcommon.operators.pytorch import PYTORCH
from jobcommon.testutil.builders import Manifest, job_manifest


def shell_job(command: str, *, workers: int = 1, policy: str = "Never", name: str = "demo", **run_policy: Any) -> Manifest:
    """A job whose workers run `command`; further arguments are fields of its run policy, in the manifest's spelling."""
    container = {"name": "pytorch", "image": "any", "command": ["sh", "-c", command]}
    template = {"spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}}
    spec = {"replicas": workers, "restartPolicy": policy, "template": template}
    return job_manifest(PYTORCH, {"Worker": spec}, name=name, run_policy=run_policy)
