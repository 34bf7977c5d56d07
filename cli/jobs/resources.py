"""Applying objects of any kind: where they live is asked of the API server, as kubectl does."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from jobcommon.cli.errors import UserError
from jobcommon.cli.jobs.access import Api
from jobcommon.cli.manifests import Manifest
from jobcommon.client.errors import StatusError
from jobcommon.client.objects import create
from jobcommon.client.request import APPLY_PATCH, Request

MANAGER = "jobcommon"
_SERVER_SET = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink", "deletionTimestamp")


class Cluster:
    """An API server that objects are applied to by server-side apply. Unknown fields are refused, not dropped."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._kinds: dict[str, Mapping[str, tuple[str, bool]]] = {}

    async def apply(self, manifest: Manifest) -> Mapping[str, Any]:
        """Make the object so; its state afterwards. Raises `UserError` naming file, field and fix."""
        try:
            path = await self._path(manifest)
            query = (("fieldManager", MANAGER), ("force", "true"), ("fieldValidation", "Strict"))
            body = json.dumps(as_written(manifest.body)).encode()
            return await self._api.send(Request("PATCH", path, query, body, APPLY_PATCH))
        except StatusError as refusal:
            raise UserError(f"{manifest.place}: {refusal.message}") from None

    async def ensure_namespace(self, name: str) -> bool:
        """Create the namespace if it is missing; whether it was."""
        try:
            await self._api.send(
                create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
            )
        except StatusError as refusal:
            if refusal.code != 409:
                raise UserError(f"namespace {name}: {refusal.message}") from None
            return False
        return True

    async def _path(self, manifest: Manifest) -> str:
        version = str(manifest.body["apiVersion"])
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        kinds = await self._served(root, manifest)
        if manifest.kind not in kinds:
            known = ", ".join(sorted(kinds)) or "none"
            raise StatusError(404, message=f'kind: "{manifest.kind}" is not known in {version}; its kinds are: {known}')
        plural, namespaced = kinds[manifest.kind]
        scope = f"/namespaces/{quote(manifest.namespace or self._api.namespace, safe='')}" if namespaced else ""
        return f"{root}{scope}/{plural}/{quote(manifest.name, safe='')}"

    async def _served(self, root: str, manifest: Manifest) -> Mapping[str, tuple[str, bool]]:
        """By kind, plural and whether it is namespaced."""
        if root not in self._kinds:
            try:
                listing = await self._api.send(Request("GET", root))
            except StatusError as refusal:
                if refusal.code != 404:
                    raise
                text = f'apiVersion: "{manifest.body["apiVersion"]}" is not served here; is it misspelt, or its CRD missing?'
                raise StatusError(404, message=text) from None
            found = [r for r in listing.get("resources", ()) if "/" not in r["name"]]
            self._kinds[root] = {r["kind"]: (r["name"], bool(r["namespaced"])) for r in found}
        return self._kinds[root]


def owner_of(job: Mapping[str, Any]) -> dict[str, Any]:
    """The owner reference of an object that is deleted with `job`."""
    metadata = job["metadata"]
    return {"apiVersion": job["apiVersion"], "kind": job["kind"], "name": metadata["name"], "uid": metadata["uid"]}


def as_written(body: Mapping[str, Any]) -> dict[str, Any]:
    """The object without what another cluster has added to it, so that the output of kubectl get can be applied here."""
    metadata = {key: value for key, value in body["metadata"].items() if key not in _SERVER_SET}
    return {**{key: value for key, value in body.items() if key != "status"}, "metadata": metadata}
