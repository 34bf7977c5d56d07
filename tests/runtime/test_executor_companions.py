"""What pods need beside them: created first, completed by chance where asked for, and no pods without it."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from typing import Any

import msgspec
import pytest

from jobcommon.client.request import Response
from jobcommon.controller.result import Effect, Result, Work
from jobcommon.reconcile import Action, Create, Plan, read_job
from jobcommon.reconcile.plan import Get
from jobcommon.runtime.executor import Executor
from jobcommon.runtime.flow_control import FlowController
from tests.runtime.fakes import TESTJOB, ScriptedTransport, a_job, refusal, reply

SECRETS, PODS = "/api/v1/namespaces/default/secrets", "/api/v1/namespaces/default/pods"
SECRET = Create("v1", "secrets", "train-ssh", {"metadata": {"name": "train-ssh"}, "type": "kubernetes.io/ssh-auth"})
POD = Create("v1", "pods", "p", {"metadata": {"name": "p", "labels": {"training.kubeflow.org/replica-type": "worker"}}})


async def run(transport: ScriptedTransport, *actions: Action) -> Result:
    raw = a_job()
    raw["metadata"] |= {"uid": "job-uid", "resourceVersion": "7"}
    work = Work("default", "train", "job-uid", Plan(actions), read_job(TESTJOB, raw), raw)
    return await Executor(TESTJOB, transport, FlowController(10)).execute(work)


async def test_generated_data_is_made_anew_for_each_create() -> None:
    numbers = count(1)

    def key() -> Mapping[str, Any]:
        return {"data": {"key": str(next(numbers))}}

    action = replace(SECRET, generate=key)
    transport = ScriptedTransport().on("POST", SECRETS, reply({}, 201))
    results = [await run(transport, action) for _ in range(2)]
    sent = [msgspec.json.decode(request.body or b"") for request in transport.made("POST")]
    assert sent == [{**SECRET.manifest, "data": {"key": number}} for number in ("1", "2")]
    assert [outcome.action for result in results for outcome in result.outcomes] == [action, action]


STRANGERS = reply(
    {
        "metadata": {
            "name": "train-ssh",
            "uid": "u",
            "resourceVersion": "5",
            "ownerReferences": [{"uid": "other", "controller": True}],
        }
    }
)
OURS = reply(
    {
        "metadata": {
            "name": "train-ssh",
            "uid": "u",
            "resourceVersion": "5",
            "ownerReferences": [{"uid": "job-uid", "controller": True}],
        }
    }
)


@pytest.mark.parametrize(
    ("answer", "there", "required", "pod"),
    [
        pytest.param(reply({}, 201), OURS, True, Effect.APPLIED, id="created"),
        pytest.param(refusal(409, "AlreadyExists"), OURS, True, Effect.APPLIED, id="there already"),
        pytest.param(refusal(409, "AlreadyExists"), STRANGERS, True, Effect.SKIPPED, id="another owner's"),
        pytest.param(refusal(403, "Forbidden"), OURS, True, Effect.SKIPPED, id="refused"),
        pytest.param(refusal(403, "Forbidden"), OURS, False, Effect.APPLIED, id="refused, not required"),
    ],
)
async def test_no_pods_without_what_they_need(answer: Response, there: Response, required: bool, pod: Effect) -> None:
    transport = ScriptedTransport().on("POST", SECRETS, answer).on("GET", SECRETS, there).on("POST", PODS, reply({}, 201))
    result = await run(transport, replace(SECRET, required=required), POD)
    assert result.outcomes[1].effect is pod
    assert any(request.path == PODS for request in transport.made("POST")) == (pod is Effect.APPLIED)


_RBAC = "rbac.authorization.k8s.io/v1"
ROLES, BINDINGS = (f"/apis/{_RBAC}/namespaces/default/{plural}" for plural in ("roles", "rolebindings"))
ROLE = Create(_RBAC, "roles", "train-ssh", {"metadata": {"name": "train-ssh"}, "rules": []})
BINDING = Create(_RBAC, "rolebindings", "train-ssh", {"metadata": {"name": "train-ssh"}}, after=("roles", "train-ssh"))
LOOK = Get(_RBAC, "roles", "train-ssh", known=True)


@pytest.mark.parametrize(
    ("role", "answer", "there", "binding"),
    [
        pytest.param(ROLE, reply({}, 201), OURS, Effect.APPLIED, id="created"),
        pytest.param(ROLE, refusal(409, "AlreadyExists"), OURS, Effect.APPLIED, id="there already"),
        pytest.param(ROLE, refusal(409, "AlreadyExists"), STRANGERS, Effect.SKIPPED, id="another's"),
        pytest.param(LOOK, reply({}, 201), STRANGERS, Effect.SKIPPED, id="another's by now"),
        pytest.param(None, reply({}, 201), STRANGERS, Effect.APPLIED, id="known to be there"),
    ],
)
async def test_rights_are_bound_only_when_they_are_the_jobs_own(
    role: Action | None, answer: Response, there: Response, binding: Effect
) -> None:
    """A Role of that name that another client made may allow anything."""
    transport = ScriptedTransport().on("POST", ROLES, answer).on("GET", ROLES, there).on("POST", BINDINGS, reply({}, 201))
    transport.on("POST", PODS, reply({}, 201))
    result = await run(transport, *([BINDING, role] if role is not None else [BINDING]), POD)
    assert result.outcomes[0].effect is binding
    assert [request.path for request in transport.made("POST")].count(BINDINGS) == (binding is Effect.APPLIED)
