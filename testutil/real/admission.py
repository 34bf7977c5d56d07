"""Admission webhooks of a row: what they answer, and how often they were asked."""

import asyncio
import base64
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from localcluster.client import Api, self_signed
from localcluster.conformance import LOOPBACK

Object = dict[str, Any]
Answer = Callable[[Object], Object]
#: Gives an answer for a cluster, whose images the function it is given puts into an object.
Making = Callable[[Callable[[Object], Object]], Answer]
_GROUP = "admissionregistration.k8s.io"
NAMESPACE_LABEL = "kubernetes.io/metadata.name"


@dataclass
class Webhook:
    """Answers as `answer` says after `seconds`. `asked` counts the requests for each pod."""

    answer: Answer
    seconds: float = 0.0
    asked: Counter[str] = field(default_factory=Counter)
    calls: int = 0

    async def handle(self, request: web.Request) -> web.Response:
        review = await request.json()
        asked = review["request"]
        self.calls += 1
        if not asked.get("dryRun"):
            self.asked[asked["object"]["metadata"]["name"]] += 1
        await asyncio.sleep(self.seconds)
        response = {**self.answer(asked["object"]), "uid": asked["uid"]}
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})


def allow() -> Making:
    """Admit every pod as it is."""
    return lambda _: lambda _pod: {"allowed": True}


def deny(code: int | None) -> Making:
    """Refuse every pod with `code`, or with none."""
    status = {"message": "not now"} if code is None else {"message": "not now", "code": code}
    return lambda _: lambda _pod: {"allowed": False, "status": status}


def mutate(change: Callable[[Object], None]) -> Making:
    """Admit every pod as `change` makes it."""

    def making(with_image: Callable[[Object], Object]) -> Answer:
        def answer(pod: Object) -> Object:
            new = json.loads(json.dumps(pod))
            change(new)
            new = with_image(new)
            patch = [{"op": "replace", "path": f"/{part}", "value": new[part]} for part in ("metadata", "spec")]
            return {"allowed": True, "patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}

        return answer

    return making


@asynccontextmanager
async def webhook(api: Api, namespace: str, hook: Webhook, *, mutating: bool = False) -> AsyncIterator[None]:
    """Have the API server ask `hook` about every pod that is made in `namespace`."""
    certificate = self_signed()
    app = web.Application()
    app.router.add_post("/", hook.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, LOOPBACK, 0, ssl_context=certificate.server_context())
        await site.start()
        port = runner.addresses[0][1]
        async with configured(api, namespace, f"https://{LOOPBACK}:{port}/", certificate.pem, mutating=mutating):
            yield
    finally:
        await runner.cleanup()


@asynccontextmanager
async def configured(api: Api, namespace: str, url: str, ca: bytes, *, mutating: bool = False) -> AsyncIterator[None]:
    """A webhook at `url`, whether anything answers there or not."""
    kind = "MutatingWebhookConfiguration" if mutating else "ValidatingWebhookConfiguration"
    client = {"url": url, "caBundle": base64.b64encode(ca).decode()}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    hook = {
        "name": "row.jobcommon.test", "clientConfig": client, "rules": [rule], "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "namespaceSelector": _only(namespace),
    }  # fmt: skip
    body = {"apiVersion": f"{_GROUP}/v1", "kind": kind, "metadata": {"name": namespace}, "webhooks": [hook]}
    async with _object(api, f"/apis/{_GROUP}/v1/{kind.lower()}s", body):
        yield


@asynccontextmanager
async def policy(api: Api, namespace: str, expression: str, reason: str) -> AsyncIterator[None]:
    """A ValidatingAdmissionPolicy for the pods that are made in `namespace`."""
    root = f"/apis/{_GROUP}/v1"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    constraints = {"resourceRules": [rule], "namespaceSelector": _only(namespace)}
    spec = {"matchConstraints": constraints, "validations": [{"expression": expression, "reason": reason}]}
    binding = {"policyName": namespace, "validationActions": ["Deny"]}
    meta = {"name": namespace}
    async with (
        _object(api, f"{root}/validatingadmissionpolicies", {"metadata": meta, "spec": spec}),
        _object(api, f"{root}/validatingadmissionpolicybindings", {"metadata": meta, "spec": binding}),
    ):
        yield


def _only(namespace: str) -> Mapping[str, Any]:
    return {"matchLabels": {NAMESPACE_LABEL: namespace}}


@asynccontextmanager
async def _object(api: Api, path: str, body: Object) -> AsyncIterator[None]:
    await api.call("POST", path, body)
    try:
        yield
    finally:
        await api.call("DELETE", f"{path}/{body['metadata']['name']}")
