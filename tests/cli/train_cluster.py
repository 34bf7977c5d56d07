"""An embedded cluster as a client of `kubectl train` has it: by HTTP, with a token."""

import io
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from jobcommon.cli.jobs.access import Api
from jobcommon.client.transport import HttpTransport, StaticEndpoint
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.testutil.builders import Manifest, job_manifest
from localcluster import Cluster


def endpoint(cluster: Cluster, token: str | None = None) -> StaticEndpoint:
    """The cluster for a user with this token; without one, for the administrator."""
    context = ssl.create_default_context(cadata=cluster.credentials.certificate.pem.decode())
    return StaticEndpoint(cluster.url, token or cluster.credentials.token, context)


@asynccontextmanager
async def api_for(cluster: Cluster, token: str | None = None, namespace: str = "default") -> AsyncIterator[Api]:
    """Requests to the cluster by HTTP."""
    transport = HttpTransport(endpoint(cluster, token))
    try:
        yield Api(transport, namespace)
    finally:
        await transport.close()


async def reader(cluster: Any, *verbs: str) -> str:
    """The token of a service account that may do this with jobs, pods, their logs and events."""
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    rules = [
        {"apiGroups": ["kubeflow.org"], "resources": ["pytorchjobs"], "verbs": list(verbs)},
        {"apiGroups": [""], "resources": ["pods", "pods/log", "events"], "verbs": list(verbs)},
    ]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "reader"}, "rules": rules}
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": "default"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
    binding = {**role, "kind": "RoleBinding", "subjects": [subject], "roleRef": reference}
    binding.pop("rules")
    await cluster.create("serviceaccounts", {"metadata": {"name": "reader"}})
    await cluster.call("POST", f"{rbac}/roles", role)
    await cluster.call("POST", f"{rbac}/rolebindings", binding)
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    made = await cluster.call("POST", cluster.path("serviceaccounts", "reader/token"), asked)
    return str(made["status"]["token"])


@dataclass
class Output:
    """A console whose output is kept."""

    console: Console

    @classmethod
    def make(cls) -> "Output":
        return cls(Console(file=io.StringIO(), width=240, highlight=False, markup=False, emoji=False))

    @property
    def text(self) -> str:
        """What was printed."""
        assert isinstance(self.console.file, io.StringIO)
        return self.console.file.getvalue()


# -- PyTorchJobs of a shell command, for tests on the embedded cluster


def shell_job(command: str, *, workers: int = 1, policy: str = "Never", name: str = "demo", **run_policy: Any) -> Manifest:
    """A job whose workers run `command`; further arguments are fields of its run policy, in the manifest's spelling."""
    container = {"name": "pytorch", "image": "any", "command": ["sh", "-c", command]}
    template = {"spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}}
    spec = {"replicas": workers, "restartPolicy": policy, "template": template}
    return job_manifest(PYTORCH, {"Worker": spec}, name=name, run_policy=run_policy)
