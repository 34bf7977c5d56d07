"""A small client of a server core, and the objects the API server tests are about."""

import json
from dataclasses import dataclass, field
from typing import Any

from localcluster.apiserver.authentication import ADMIN, User
from localcluster.apiserver.env import Env
from localcluster.apiserver.server import ApiServer
from localcluster.apiserver.watch import WatchStream
from localcluster.request import JSON, MERGE_PATCH, Request, Response

Json = dict[str, Any]
CRS = "/apis/ex.com/v1/namespaces/default/foos"
START = 1_800_000_000.0


@dataclass
class Answer:
    """A decoded response."""

    response: Response

    @property
    def code(self) -> int:
        return self.response.status

    @property
    def headers(self) -> dict[str, str]:
        return dict(self.response.headers)

    @property
    def body(self) -> Json:
        decoded: Json = json.loads(self.response.body)
        return decoded

    @property
    def reason(self) -> str:
        return str(self.body.get("reason", ""))

    @property
    def message(self) -> str:
        return str(self.body["message"])

    @property
    def rv(self) -> str:
        return str(self.body["metadata"]["resourceVersion"])

    @property
    def causes(self) -> list[str]:
        return [cause["field"] for cause in self.body.get("details", {}).get("causes", ())]

    @property
    def names(self) -> list[str]:
        return [item["metadata"]["name"] for item in self.body["items"]]


@dataclass
class Watch:
    """An open watch."""

    stream: WatchStream
    woken: list[None] = field(default_factory=list)

    def events(self) -> list[Json]:
        return [json.loads(line) for line in self.stream.drain().splitlines()]

    def seen(self) -> list[tuple[str, str]]:
        return [(event["type"], event["object"]["metadata"]["name"]) for event in self.events()]


class Api:
    """A server with a virtual clock, spoken to in process."""

    def __init__(self, *, history: int = 4096, tokens: dict[str, User] | None = None) -> None:
        self.now = START
        self.server = ApiServer(Env.seeded(1, lambda: self.now), history=history, tokens=tokens)

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = JSON,
        headers: dict[str, str] | None = None,
        user: User | None = ADMIN,
        **query: str,
    ) -> Answer:
        encoded = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        request = Request(method, path, tuple(query.items()), encoded, content_type, headers or {})
        return Answer(self.server.handle(request, user))

    def get(self, path: str, **query: str) -> Answer:
        return self.send("GET", path, **query)

    def post(self, path: str, body: Json, **query: str) -> Answer:
        return self.send("POST", path, body, **query)

    def patch(self, path: str, body: Any, content_type: str = MERGE_PATCH, **query: str) -> Answer:
        return self.send("PATCH", path, body, content_type=content_type, **query)

    def delete(self, path: str, options: Json | None = None, **query: str) -> Answer:
        return self.send("DELETE", path, options, **query)

    def bind(self, name: str, node: str = "n1") -> Answer:
        return self.post(f"/api/v1/namespaces/default/pods/{name}/binding", {"target": {"kind": "Node", "name": node}})

    def watch(self, path: str, user: User | None = ADMIN, **query: str) -> Watch:
        woken: list[None] = []
        query.setdefault("resourceVersion", str(self.server.storage.rv))
        request = Request("GET", path, (("watch", "true"), *query.items()))
        return Watch(self.server.watch(request, lambda: woken.append(None), user), woken)


def pod(name: str, *, spec: Json | None = None, container: Json | None = None, **meta: Any) -> Json:
    containers = [{"name": "c", "image": "i", **(container or {})}]
    return {"metadata": {"name": name, **meta}, "spec": {"containers": containers, **(spec or {})}}


def service(name: str, *, ports: list[Json] | None = None, **meta: Any) -> Json:
    return {"metadata": {"name": name, **meta}, "spec": {"ports": ports or [{"port": 80}], "selector": {"app": name}}}


def cr(name: str, *, spec: Json | None = None, **meta: Any) -> Json:
    return {"apiVersion": "ex.com/v1", "kind": "Foo", "metadata": {"name": name, **meta}, "spec": spec or {"replicas": 1}}


def crd() -> Json:
    integer, text = {"type": "integer"}, {"type": "string"}
    spec = {"replicas": {**integer, "minimum": 0, "default": 1}, "text": text, "paused": {"type": "boolean"}}
    status = {"phase": text, "replicas": integer, "selector": text}
    fields = {name: {"type": "object", "properties": part} for name, part in (("spec", spec), ("status", status))}
    scale = {
        "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }  # fmt: skip
    version = {
        "name": "v1", "served": True, "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": fields}},
        "subresources": {"status": {}, "scale": scale},
        "additionalPrinterColumns": [{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}],
        "selectableFields": [{"jsonPath": ".spec.text"}],
    }  # fmt: skip
    old = {**version, "name": "v1beta1", "storage": False, "deprecated": True}
    names = {"plural": "foos", "kind": "Foo", "shortNames": ["fo"]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "foos.ex.com"},
        "spec": {"group": "ex.com", "scope": "Namespaced", "names": names, "versions": [version, old]},
    }  # fmt: skip
