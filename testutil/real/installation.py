"""What the operators are installed with: definitions, rights, the way to the API server, their own pods. Each gives a step."""

import json
import signal
import time
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import quote

from jobcommon.api import labels
from jobcommon.client.request import Request
from jobcommon.crd import custom_resource_definition
from jobcommon.crd.rbac import handed_on, job_rules
from jobcommon.testutil.embedded import DEFINITIONS, install
from jobcommon.testutil.processes import Process
from jobcommon.testutil.real.cluster import ADMINISTRATOR, OPERATORS
from jobcommon.testutil.real.intermediary import Intermediary, intermediary
from jobcommon.testutil.real.run import RowError, Run
from jobcommon.testutil.real.steps import Step, step
from localcluster.timestamps import format_time

_RBAC = "rbac.authorization.k8s.io"
_RULES = "x-kubernetes-validations"

# -- definitions ----------------------------------------------------------------------------------------------------------


def older_definition(job: Mapping[str, Any]) -> Step:
    """The job's kind is defined as it was before there were rules, so that the job can be created."""

    async def do(row: Run) -> None:
        row.stack.push_async_callback(install, row.cluster.transport, (row.framework,))
        found = await row.api.call("GET", _definition(row))
        for version in found["spec"]["versions"]:
            version["schema"]["openAPIV3Schema"].pop(_RULES, None)
        await row.api.call("PUT", _definition(row), found)
        # The server reads its definitions a moment later.
        await row.eventually(lambda: _would_answer(row, job, 201), "the job would be accepted")

    return step("the kind is defined without rules", do, alone=True)


def present_definition(refused: Mapping[str, Any]) -> Step:
    """The job's kind is defined as it is today, so that a job such as `refused` is refused."""

    async def do(row: Run) -> None:
        await install(row.cluster.transport, (row.framework,))
        another = {**refused, "metadata": {"name": refused["metadata"]["name"][::-1]}}
        await row.eventually(lambda: _would_answer(row, another, 422), "another such job would be refused")

    return step("the kind is defined as it is today", do, alone=True)


def definition_goes() -> Step:
    """``kubectl delete crd``; the kind is gone on return."""

    async def do(row: Run) -> None:
        row.stack.push_async_callback(install, row.cluster.transport, (row.framework,))
        await row.api.call("DELETE", _definition(row))

        async def gone() -> bool:
            found = [await row.cluster.transport.send(Request("GET", path)) for path in (_definition(row), row.job_path(""))]
            return all(response.status == 404 for response in found)

        await row.eventually(gone, "the kind is gone")

    return step("the kind's definition is deleted", do, alone=True)


def definition_returns(job: Mapping[str, Any]) -> Step:
    """The kind is defined again, and the job created anew."""

    async def do(row: Run) -> None:
        await install(row.cluster.transport, (row.framework,))
        await row.eventually(lambda: _would_answer(row, job, 201), "the kind is served")
        await row.create(row.job_path(""), {**job})

    return step("the kind is defined again, and the job created", do, alone=True)


def _definition(row: Run) -> str:
    return f"{DEFINITIONS}/{quote(custom_resource_definition(row.framework)['metadata']['name'])}"


async def _would_answer(row: Run, job: Mapping[str, Any], status: int) -> bool:
    """Whether the job's creation would be answered so. What is not served is answered with a text that is no JSON."""
    body = json.dumps(row.with_image({**job})).encode()
    request = Request("POST", row.job_path(""), (("dryRun", "All"),), body)
    return (await row.cluster.transport.send(request)).status == status


# -- rights ---------------------------------------------------------------------------------------------------------------


def rights_to_grant() -> Step:
    """The operators may give rights in the row's namespace, as with the charts' value ``mpiExec``."""

    async def do(row: Run) -> None:
        rules = [rule.to_json() for rule in (*job_rules(row.framework, grants=True), *handed_on(row.framework))]
        await row.create(_rbac(row, "roles"), {"metadata": {"name": OPERATORS}, "rules": rules})
        binding = {
            "metadata": {"name": OPERATORS},
            "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": OPERATORS},
            "subjects": [{"kind": "ServiceAccount", "name": OPERATORS, "namespace": OPERATORS}],
        }
        await row.create(_rbac(row, "rolebindings"), binding)

    return step("the operators may give rights", do)


def role_of_another(name: str) -> Step:
    """A Role under a name that the job's own would have. It allows nothing: who made it may let it allow more later."""
    return step(
        f"another's Role {name}", lambda row: row.create(_rbac(row, "roles"), {"metadata": {"name": name}, "rules": []})
    )


def role_goes(name: str) -> Step:
    """That Role is deleted."""

    async def do(row: Run) -> None:
        await row.api.call("DELETE", _rbac(row, "roles", name))

    return step(f"the Role {name} is deleted", do)


def says(text: str) -> Step:
    """Wait until the job's condition has this text."""

    async def do(row: Run) -> None:
        await row.until(lambda: any(text in one.message for one in row.status.conditions[-1:]), f"the job says {text}")

    return step(f"the job says {text}", do)


def bound(name: str, *, to_own: bool) -> Step:
    """The RoleBinding is there, bound to a Role that is the job's own, or neither is."""

    async def do(row: Run) -> None:
        if not to_own:
            if await row.api.get(_rbac(row, "rolebindings", name)) is not None:
                raise RowError(f"the RoleBinding {name} binds another's Role")
            return

        async def holds() -> bool:
            uid = (row.job or {}).get("metadata", {}).get("uid")
            found = [await row.api.get(_rbac(row, plural, name)) or {} for plural in ("roles", "rolebindings")]
            return all(
                any(owner["uid"] == uid for owner in one.get("metadata", {}).get("ownerReferences") or ()) for one in found
            )

        await row.eventually(holds, f"the Role {name} and its RoleBinding are the job's own")

    return step(f"the RoleBinding {name} is the job's own" if to_own else f"there is no RoleBinding {name}", do)


def _rbac(row: Run, plural: str, name: str = "") -> str:
    path = f"/apis/{_RBAC}/v1/namespaces/{row.namespace}/{plural}"
    return f"{path}/{name}" if name else path


# -- what others have begun -----------------------------------------------------------------------------------------------


def begun_by_another(**replicas: str) -> Step:
    """The pods and the status of a job as the reference operator leaves them: no finalizer, its labels; pods by their type."""

    async def do(row: Run) -> None:
        kind = row.framework.kind
        await row.until(lambda: row.job is not None, "the job is there")
        job = row.job or {}
        owner = {"apiVersion": job["apiVersion"], "kind": kind, "name": row.name, "uid": job["metadata"]["uid"]}
        for pod, replica in replicas.items():
            name = pod.replace("_", "-")
            template = job["spec"][row.framework.replica_specs][replica]["template"]
            number = name.removeprefix(f"{replica.lower()}").removeprefix("-")
            marks = {
                labels.OPERATOR_NAME: f"{kind.lower()}-controller", labels.JOB_NAME: row.name,
                labels.REPLICA_TYPE: replica.lower(), **({labels.REPLICA_INDEX: number} if number else {}),
            }  # fmt: skip
            meta = {
                "name": f"{row.name}-{name}", "labels": marks,
                "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
            }  # fmt: skip
            await row.create(row.path("pods"), {"metadata": meta, "spec": {**template["spec"], "restartPolicy": "Never"}})
        now = format_time(time.time())
        times = {"lastTransitionTime": now, "lastUpdateTime": now, "status": "True"}
        conditions = [
            {"type": what, "reason": f"{kind}{what}", "message": f"{kind} {row.name} is {what.lower()}.", **times}
            for what in ("Created", "Running")
        ]
        status = {"conditions": conditions, "startTime": now, "replicaStatuses": {r: {"active": 1} for r in replicas.values()}}
        found = await row.api.call("GET", row.job_path())
        await row.api.call("PUT", f"{row.job_path()}/status", {**found, "status": status})

    return step("the reference operator has begun the job", do)


# -- the way to the API server --------------------------------------------------------------------------------------------


def foreign_answers(status: int) -> Step:
    """Something between the row's operators and the API server answers the first try of each write with `status` and a page."""

    async def do(row: Run) -> None:
        path = row.cluster.directory / f"{row.namespace}.kubeconfig"
        between = intermediary(row.kubeconfig, path, partial(Intermediary, status=status))
        row.notes["between"] = await row.stack.enter_async_context(between)
        row.kubeconfig = path

    return step(f"the first try of each write is answered with {status} and a page", do)


def answered(method: str, end: str) -> Step:
    """Such a request was among those that got the foreign answer."""

    async def do(row: Run) -> None:
        tried = row.notes["between"].tried
        if not any(what == method and path.endswith(end) for what, path, _ in tried):
            raise RowError(f"no {method} of {end} among {sorted(tried)}")

    return step(f"{method} {end} had the foreign answer", do)


# -- operators that end ---------------------------------------------------------------------------------------------------


def namespace_ends() -> Step:
    """Ask for the namespace's deletion, and do not wait. The operator is stopped until all pods are over: it is slow."""

    async def do(row: Run) -> None:
        row.operators[-1].send(signal.SIGSTOP)
        await row.api.call("DELETE", f"/api/v1/namespaces/{row.namespace}")

    return step("the namespace's deletion is asked for", do)


def operator_is_told_to_end() -> Step:
    """SIGTERM, as to a pod of the namespace, before the operator has seen anything of the deletion. It has ended on return."""

    async def do(row: Run) -> None:
        operator = row.operators[-1]
        operator.send(signal.SIGTERM)
        operator.send(signal.SIGCONT)
        await operator.wait()

    return step("SIGTERM to the operator", do)


def namespace_is_gone() -> Step:
    """Wait until it is."""

    async def do(row: Run) -> None:
        async def gone() -> bool:
            return await row.api.get(f"/api/v1/namespaces/{row.namespace}") is None

        await row.eventually(gone, "the namespace is gone")

    return step("the namespace is gone", do)


def released_by_command() -> Step:
    """``jobcommon release-finalizers`` for the row's namespace."""

    async def do(row: Run) -> None:
        path = str(row.cluster.kubeconfig(ADMINISTRATOR))
        told = ("release-finalizers", "--kubeconfig", path, "--namespace", row.namespace, "--framework", row.framework.name)
        command = Process("release", told, row.cluster.directory / f"{row.namespace}-release.log", row.marker)
        await command.start()
        if code := await command.wait():
            raise RowError(f"release-finalizers ended with {code}: {command.log.read_text()}")

    return step("jobcommon release-finalizers", do)
