"""Workload and PodGroup of scheduling.k8s.io: the definitions of the embedded cluster refuse what kube-apiserver refuses."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from jobcommon.api.workload import V1ALPHA2, V1BETA1
from jobcommon.cli.embedded import endpoint
from jobcommon.client.request import MERGE_PATCH, Request, Response
from jobcommon.client.transport import HttpTransport, Timeouts
from jobcommon.testutil.native_definitions import definitions
from localcluster.conformance import envtest
from tests.runtime.world import world_with_testjobs

Obj = dict[str, Any]
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TEMPLATE: Obj = {"name": "a", "schedulingPolicy": {"gang": {"minCount": 2}}}
WORKLOAD: Obj = {"podGroupTemplates": [TEMPLATE]}
LONG = "x" * 64


def _templates(*changes: Obj) -> Obj:
    return {"podGroupTemplates": [{**TEMPLATE, **change} for change in changes]}


def _policy(policy: Any) -> Obj:
    return {"schedulingPolicy": policy}


POLICIES = {
    "gang": ({"gang": {"minCount": 1}}, 201),
    "basic": ({"basic": {}}, 201),
    "both": ({"basic": {}, "gang": {"minCount": 1}}, 422),
    "neither": ({}, 422),
    "minCount 0": ({"gang": {"minCount": 0}}, 422),
    "minCount below 0": ({"gang": {"minCount": -1}}, 422),
    "no minCount": ({"gang": {}}, 422),
    "minCount as text": ({"gang": {"minCount": "two"}}, (400, 422)),
}
WORKLOADS = {
    "one template": (WORKLOAD, 201),
    "eight templates": (_templates(*({"name": f"t{i}"} for i in range(8))), 201),
    "nine templates": (_templates(*({"name": f"t{i}"} for i in range(9))), 422),
    "two of one name": (_templates({}, {}), 422),
    "no name": (_templates({"name": ""}), 422),
    "name in upper case": (_templates({"name": "A"}), 422),
    "name with a dot": (_templates({"name": "a.b"}), 422),
    "long name": (_templates({"name": LONG}), 422),
    "name of 63": (_templates({"name": LONG[1:]}), 201),
    "a controller": ({**WORKLOAD, "controllerRef": {"apiGroup": "kubeflow.org", "kind": "TFJob", "name": "x"}}, 201),
    "a controller without kind": ({**WORKLOAD, "controllerRef": {"apiGroup": "kubeflow.org", "name": "x"}}, 422),
    "a controller without name": ({**WORKLOAD, "controllerRef": {"apiGroup": "kubeflow.org", "kind": "TFJob"}}, 422),
    **{f"template, {name}": (_templates(_policy(policy)), code) for name, (policy, code) in POLICIES.items()},
}
GROUPS = {f"group, {name}": (_policy(policy), code) for name, (policy, code) in POLICIES.items()}
REFERENCES = {
    "a template": ("w", "a", 201),
    "no such workload": ("no", "a", 403),
    "no such template": ("w", "no", 403),
    "no template": ("w", "", 422),
    "no workload": ("", "a", 422),
}
GANG = {"schedulingPolicy": {"gang": {"minCount": 2}}}
# By version, as a change of a PodGroup with the reference to a template: what comes of it.
UPDATES: dict[str, tuple[Obj, int, int]] = {
    "nothing": ({}, 200, 200),
    "minCount": (_policy({"gang": {"minCount": 1}}), 422, 200),
    "minCount 0": (_policy({"gang": {"minCount": 0}}), 422, 422),
    "basic instead": (_policy({"gang": None, "basic": {}}), 422, 422),
}
TEMPLATE_UPDATES: dict[str, tuple[Obj, int, int]] = {
    "nothing": (WORKLOAD, 200, 200),
    "minCount": (_templates(_policy({"gang": {"minCount": 1}})), 422, 200),
    "a controller": ({**WORKLOAD, "controllerRef": {"apiGroup": "g.io", "kind": "K", "name": "x"}}, 422, 422),
}


class Server:
    """One API server and one version of the group."""

    def __init__(self, send: Callable[[Request], Awaitable[Response]], version: str) -> None:
        self.send, self.version = send, version
        self._count = 0

    def path(self, plural: str) -> str:
        return f"/apis/{self.version}/namespaces/default/{plural}"

    async def create(self, kind: str, spec: Obj, name: str = "") -> int:
        self._count += 1
        manifest = {"apiVersion": self.version, "kind": kind, "metadata": {"name": name or f"n{self._count}"}, "spec": spec}
        return (await self.send(Request("POST", self.path(f"{kind.lower()}s"), body=json.dumps(manifest).encode()))).status

    async def change(self, kind: str, name: str, spec: Obj) -> int:
        path, body = f"{self.path(f'{kind.lower()}s')}/{name}", json.dumps({"spec": spec}).encode()
        return (await self.send(Request("PATCH", path, body=body, content_type=MERGE_PATCH))).status

    def reference(self, workload: str, template: str) -> Obj:
        if self.version == V1ALPHA2:
            return {"podGroupTemplateRef": {"workload": {"workloadName": workload, "podGroupTemplateName": template}}}
        return {"workloadRef": {"workloadName": workload, "templateName": template}}


async def outcomes(server: Server) -> AsyncIterator[tuple[str, int, int | tuple[int, ...]]]:
    """Each case with the code that was answered, and the one that is expected."""
    for name, (spec, code) in WORKLOADS.items():
        yield f"workload: {name}", await server.create("Workload", spec), code
    for name, (spec, code) in GROUPS.items():
        yield name, await server.create("PodGroup", spec), code
    assert await server.create("Workload", WORKLOAD, "w") == 201
    for name, (workload, template, code) in REFERENCES.items():
        yield f"reference: {name}", await server.create("PodGroup", {**server.reference(workload, template), **GANG}), code
    assert await server.create("PodGroup", {**server.reference("w", "a"), **GANG}, "g") == 201
    beta = server.version == V1BETA1
    for name, (spec, alpha_code, beta_code) in UPDATES.items():
        yield f"update: {name}", await server.change("PodGroup", "g", spec), beta_code if beta else alpha_code
    other = server.reference("w2", "a")
    yield "update: the reference", await server.change("PodGroup", "g", other), 422
    for name, (spec, alpha_code, beta_code) in TEMPLATE_UPDATES.items():
        yield f"update of a workload: {name}", await server.change("Workload", "w", spec), beta_code if beta else alpha_code


async def differences(server: Server) -> list[str]:
    found = [(name, code, wanted if isinstance(wanted, tuple) else (wanted,)) async for name, code, wanted in outcomes(server)]
    assert len(found) > 40
    return [f"{name}: {code} instead of {wanted}" for name, code, wanted in found if code not in wanted]


@pytest.mark.parametrize("version", [V1BETA1, V1ALPHA2])
async def test_the_embedded_server(version: str) -> None:
    world = world_with_testjobs()
    for definition in definitions(version):
        world.ok("POST", DEFINITIONS, definition)
    assert await differences(Server(world.transport.send, version)) == []


@pytest.mark.skipif(envtest.assets() is None, reason=f"no real API server: set {envtest.ASSETS}")
@pytest.mark.timeout(120)
async def test_kube_apiserver() -> None:
    """Of 1.36, which has v1alpha2."""
    found = envtest.assets()
    assert found is not None
    gates = ("--feature-gates=GenericWorkload=true,GangScheduling=true", "--runtime-config=scheduling.k8s.io/v1alpha2=true")
    async with envtest.servers(found, gates) as servers:
        transport = HttpTransport(endpoint(servers.endpoint), timeouts=Timeouts())
        try:
            assert await differences(Server(transport.send, V1ALPHA2)) == []
        finally:
            await transport.close()
