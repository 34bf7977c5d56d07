"""With shards the operators work with the roles of `jobcommon rbac` and of a chart, on a server that enforces them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest
import yaml
from typer.testing import CliRunner

from jobcommon.cli.main import app
from jobcommon.client.request import Request, Response
from jobcommon.crd import custom_resource_definition
from jobcommon.localcluster.apiserver.inprocess import InProcessTransport
from jobcommon.localcluster.apiserver.users import service_account
from jobcommon.operators.tf import TF
from jobcommon.runtime.manager import Env, Manager
from jobcommon.runtime.settings import Settings
from jobcommon.testutil.builders import job_manifest
from tests.charts.charts import NAMESPACE, Json, render
from tests.runtime.fakes import quiet_log
from tests.runtime.world import World

LEASE = "demo-tf-operator"
SHARDS = 3
SETTINGS = Settings(metrics_port=None, shards=SHARDS, lease_namespace=NAMESPACE, lease_name=LEASE)
RBAC = "/apis/rbac.authorization.k8s.io/v1"
JOBS = f"/apis/{TF.api_version}/namespaces/default/{TF.plural}"


def printed(*arguments: str) -> list[Json]:
    result = CliRunner().invoke(app, ["rbac", TF.name, "--lease-name", LEASE, *arguments])
    assert result.exit_code == 0, result.exception
    return [*yaml.safe_load_all(result.output)]


def of_the_chart() -> list[Json]:
    return [found for found in render("tf-operator", shards=SHARDS) if found["kind"] in ("ClusterRole", "Role")]


class Operator(InProcessTransport):
    """The operator's account, and what it was refused."""

    refused: list[str]

    async def send(self, request: Request) -> Response:
        response = await super().send(request)
        if response.status == 403:
            self.refused.append(f"{request.method} {request.path}")
        return response


class Cluster(World):
    """A server where the operator's account holds `roles`."""

    def __init__(self, roles: list[Json]) -> None:
        super().__init__()
        self.ok("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", custom_resource_definition(TF))
        self.ok("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        self.ok("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": "tf"}})
        for role in roles:
            kind, name = role["kind"], role["metadata"]["name"]
            # A ClusterRole with labels is one of users.
            if kind == "ClusterRole" and "aggregate" in str(role["metadata"].get("labels")):
                continue
            where = RBAC if kind == "ClusterRole" else f"{RBAC}/namespaces/{NAMESPACE}"
            subject = {"kind": "ServiceAccount", "name": "tf", "namespace": NAMESPACE}
            reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
            binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
            self.ok("POST", f"{where}/{kind.lower()}s", role)
            self.ok("POST", f"{where}/{kind.lower()}bindings", binding)
        self.operator = Operator(self.server, service_account(NAMESPACE, "tf"))
        self.operator.refused = []

    @asynccontextmanager
    async def replicas(self) -> AsyncIterator[list[Manager]]:
        """As many as there are shards."""
        started = [
            Manager(
                self.operator, (TF,), SETTINGS, election_transport=self.operator,
                env=Env(self.clock, Random(name).random, name), log=quiet_log(),
            )
            for name in "abc"
        ]  # fmt: skip
        tasks = [asyncio.create_task(manager.run()) for manager in started]
        try:
            yield started
        finally:
            for manager in started:
                manager.stop()
            for task in tasks:
                await self.clock.until(task.done, step=0.1)
                task.result()


def held(manager: Manager) -> list[int]:
    return [one.shard.index for one in manager.shards if one.shard and one.fence.held() and one.ready]


@pytest.mark.parametrize("roles", [printed("--shards", str(SHARDS)), of_the_chart()], ids=["printed", "chart"])
async def test_the_roles_suffice(roles: list[Json]) -> None:
    cluster = Cluster(roles)
    async with cluster.replicas() as managers:
        await cluster.clock.until(lambda: sorted(map(held, managers)) == [[0], [1], [2]], step=0.1)
        for number in range(6):
            job = job_manifest(TF, {"Worker": {"template": {"spec": {"containers": [{"name": "tensorflow", "image": "any"}]}}}})
            cluster.ok("POST", JOBS, {**job, "metadata": {"name": f"job-{number}"}})
        await cluster.clock.until(lambda: len(cluster.pods()) == 6, step=0.1)
    assert cluster.operator.refused == []


async def test_the_roles_of_a_single_leader_do_not_suffice() -> None:
    cluster = Cluster(printed())
    async with cluster.replicas() as managers:
        await cluster.clock.advance(30)
        assert [*map(held, managers)] == [[], [], []]
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
    assert {f"GET {leases}/{LEASE}-candidate", f"GET {leases}/{LEASE}-shard-0"} <= set(cluster.operator.refused)
