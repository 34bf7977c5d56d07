"""Reads what the checks need. Every request is a read or an access review; what is refused is noted and left out."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import msgspec

from jobcommon.api.gang import gang_scheduler
from jobcommon.api.kueue import ACCOUNT, CONFIGURATION, NAMESPACE
from jobcommon.cli import rbac
from jobcommon.cli.doctor.definitions import definition_name
from jobcommon.cli.doctor.operators import OwnOperator, own_operators
from jobcommon.cli.doctor.platform import KUEUE, KUEUE_DEPLOYMENT
from jobcommon.cli.doctor.state import ClusterState, Denied, Json, Right, names
from jobcommon.cli.jobs.access import Query, pages
from jobcommon.client.request import Request, Transport
from jobcommon.client.responses import response_error
from jobcommon.framework import Framework

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_REVIEWS = "/apis/authorization.k8s.io/v1"
_ACCOUNT = "system:serviceaccount:{}:{}"


class Reader:
    """Sends the requests, and collects why some were refused."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.unread: dict[str, str] = {}

    async def document(self, what: str, path: str, query: Query = ()) -> dict[str, Any] | None:
        """The answer; None if there is no such object, or if it cannot be read, which is then noted under `what`.

        Raises TransportError when there is no answer, StatusError for 401: with wrong credentials nothing can be read.
        """
        response = await self.transport.send(Request("GET", path, query))
        if response.status < 400:
            found: dict[str, Any] = msgspec.json.decode(response.body)
            return found
        error = response_error(response)
        if response.status == 401:
            raise error
        if response.status != 404:
            self.unread[what] = error.message or f"the API server answered {response.status}"
        return None

    async def items(self, what: str, path: str) -> list[Json]:
        """The objects of a collection, with their kind."""
        found: list[Json] = []
        async for page in pages(lambda more: self.document(what, path, more)):
            kind = str(page.get("kind", "")).removesuffix("List")
            found += [{"kind": kind, **item} for item in page.get("items") or ()]
        return found

    async def denied(self, account: str, namespace: str, rights: Iterable[Right]) -> Denied | None:
        """Those of `rights` that the account lacks, "" for the user who asks; None if the API server does not say."""
        plural = "subjectaccessreviews" if account else "selfsubjectaccessreviews"
        lacking = []
        for right in rights:
            resource, _, subresource = right.resource.partition("/")
            wanted = {
                "group": right.group, "resource": resource, "subresource": subresource, "verb": right.verb,
                "namespace": namespace,
            }  # fmt: skip
            spec = {"resourceAttributes": wanted, **({"user": account} if account else {})}
            body = msgspec.json.encode({"apiVersion": "authorization.k8s.io/v1", "kind": _KINDS[plural], "spec": spec})
            response = await self.transport.send(Request("POST", f"{_REVIEWS}/{plural}", body=body))
            if response.status >= 400:
                self.unread[f"rights of {account or 'this user'}"] = response_error(response).message
                return None
            if not msgspec.json.decode(response.body)["status"].get("allowed"):
                lacking.append(right)
        return Denied(account, namespace, tuple(lacking)) if lacking else None


_KINDS = {"subjectaccessreviews": "SubjectAccessReview", "selfsubjectaccessreviews": "SelfSubjectAccessReview"}


async def read_state(transport: Transport, frameworks: Sequence[Framework]) -> ClusterState:
    """The state of the cluster, as far as this user may read it. Raises ClientError when the API server cannot be asked."""
    reader = Reader(transport)
    version = await reader.document("version", "/version") or {}
    groups = await reader.document("API groups", "/apis") or {}
    served = frozenset(str(group.get("name")) for group in groups.get("groups") or ())
    definitions: dict[str, Json | None] = {}
    for framework in frameworks:
        name = definition_name(framework)
        what = f"CustomResourceDefinition {name}"
        definitions[name] = await reader.document(what, f"{_DEFINITIONS}/{quote(name)}")
        if what in reader.unread:
            del definitions[name]
    state = ClusterState(
        version=str(version.get("gitVersion", "")),
        groups=served,
        definitions=definitions,
        webhooks=[
            *await reader.items("ValidatingWebhookConfigurations", f"{_ADMISSION}/validatingwebhookconfigurations"),
            *await reader.items("MutatingWebhookConfigurations", f"{_ADMISSION}/mutatingwebhookconfigurations"),
        ],
        leases=await reader.items("Leases", "/apis/coordination.k8s.io/v1/leases"),
        deployments=await reader.items("Deployments", "/apis/apps/v1/deployments"),
        batch_jobs=await reader.items("batch Jobs", "/apis/batch/v1/jobs"),
    )
    denied = await _denied(reader, state, frameworks)
    if KUEUE in served:
        kueue = await _kueue(reader, state)
        reads = _rights(rbac.Rule(f.group, f.plural, ("get", "list", "watch")) for f in frameworks)
        state = replace(state, kueue_configuration=kueue, kueue_denied=await reader.denied(_kueue_account(state), "", reads))
    return replace(state, denied=denied, unread=dict(reader.unread))


async def _denied(reader: Reader, state: ClusterState, frameworks: Sequence[Framework]) -> list[Denied]:
    """What our installed operators lack; without any, what one would lack that runs with these credentials."""
    own = own_operators(state.deployments, frameworks)
    found: list[Denied | None] = []
    if not own:
        found.append(await reader.denied("", "", _rights(rbac.operator_rules(frameworks))))
    for operator in own:
        account = _ACCOUNT.format(operator.namespace, operator.account)
        rights = _rights(_rules(operator, frameworks))
        found += [await reader.denied(account, namespace, rights) for namespace in sorted(operator.watched) or [""]]
        leases = [rbac.Rule("coordination.k8s.io", "leases", ("create",))]
        found.append(await reader.denied(account, operator.namespace, _rights(leases)))
    return [one for one in found if one is not None]


def _rules(operator: OwnOperator, frameworks: Sequence[Framework]) -> list[rbac.Rule]:
    handled = [framework for framework in frameworks if framework.kind in operator.kinds]
    rules = list(rbac.operator_rules(handled, grants=operator.mpi_exec))
    try:
        scheduler = gang_scheduler(operator.gang)
    except ValueError:
        scheduler = None
    inside, beyond = rbac.kueue_rules(operator.kueue)
    return [*rules, *(rbac.gang_rules(scheduler) if scheduler else ()), *inside, *beyond]


def _rights(rules: Iterable[rbac.Rule]) -> list[Right]:
    return list(
        dict.fromkeys(Right(rule.group, rule.resource, verb) for rule in rules if not rule.names for verb in rule.verbs)
    )


async def _kueue(reader: Reader, state: ClusterState) -> Json | None:
    """The configuration of Kueue, in the namespace of its Deployment."""
    place, what = names(_kueue_deployment(state))[0], f"ConfigMap {CONFIGURATION} of Kueue"
    found = await reader.document(what, f"/api/v1/namespaces/{quote(place)}/configmaps/{CONFIGURATION}")
    if found is None:
        reader.unread.setdefault(what, f"it does not exist in namespace {place}")
    return found


def _kueue_account(state: ClusterState) -> str:
    """The user of Kueue's manager."""
    deployment = _kueue_deployment(state)
    pod = ((deployment.get("spec") or {}).get("template") or {}).get("spec") or {}
    return _ACCOUNT.format(names(deployment)[0], pod.get("serviceAccountName") or ACCOUNT)


def _kueue_deployment(state: ClusterState) -> Json:
    """That of Kueue's manager; where it cannot be found, what its manifests would make."""
    found = (one for one in state.deployments if names(one)[1].endswith(KUEUE_DEPLOYMENT))
    return next(found, {"metadata": {"namespace": NAMESPACE, "name": KUEUE_DEPLOYMENT}})
