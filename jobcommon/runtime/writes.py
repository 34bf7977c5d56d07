"""The requests by which a plan is carried out."""

from collections.abc import Mapping
from typing import Any

from jobcommon.api import labels
from jobcommon.client import objects
from jobcommon.client.objects import collection_path, object_path
from jobcommon.client.request import Request
from jobcommon.framework import FINALIZER, Framework, Job
from jobcommon.manifests.children import CORE, job_selector, owned
from jobcommon.reconcile.failed_logs import config_map_name
from jobcommon.reconcile.plan import Action, Create, Delete, Get, RemoveFinalizer, SetImage, Update


def path_of(action: Action, namespace: str) -> str:
    """The path of the object that the action is about."""
    return object_path(action.api_version, action.plural, namespace, action.name)


def request_for(action: Action, namespace: str) -> Request:
    """The one request of an action."""
    path = path_of(action, namespace)
    match action:
        case Create():
            return objects.create(collection_path(action.api_version, action.plural, namespace), action.manifest)
        case Update():
            return objects.merge(f"{path}/{action.subresource}" if action.subresource else path, action.patch)
        case Delete():
            return objects.delete(path, action.uid, action.resource_version, grace=0 if action.force else None)
        case Get():
            return objects.get(path)
        case RemoveFinalizer():
            return objects.modify(path, _without_finalizer(action))
        case SetImage():
            return objects.modify(path, _with_image(action))


def _without_finalizer(action: RemoveFinalizer) -> list[dict[str, Any]]:
    """The patch that removes our finalizer.

    A JSON patch with tests instead of a resourceVersion: the kubelet writes the pod's status all the time, and those
    writes must not cause conflicts. The list is replaced as a whole because an index could have shifted.
    """
    return [
        {"op": "test", "path": "/metadata/uid", "value": action.uid},
        {"op": "test", "path": "/metadata/finalizers", "value": list(action.finalizers)},
        {"op": "replace", "path": "/metadata/finalizers", "value": [f for f in action.finalizers if f != FINALIZER]},
    ]


def _with_image(action: SetImage) -> list[dict[str, Any]]:
    """The patch that changes the image of the pod's only container, if the pod is as it was when that was decided."""
    tests = {
        "/metadata/uid": action.uid,
        _path_of(labels.ATTEMPT): action.attempt,
        "/spec/containers/0/name": action.container,
        "/spec/containers/0/image": action.before,
    }
    return [
        *({"op": "test", "path": path, "value": value} for path, value in tests.items()),
        {"op": "replace", "path": "/spec/containers/0/image", "value": action.image},
        *({"op": "add", "path": _path_of(name), "value": value} for name, value in action.annotations),
    ]


def _path_of(annotation: str) -> str:
    return f"/metadata/annotations/{annotation.replace('/', '~1')}"


def status_write(raw: Mapping[str, Any], plural: str, status: Mapping[str, Any]) -> Request:
    """The PUT of a status, with the uid and resourceVersion of the object on which the decision is based (rule R2)."""
    metadata = raw["metadata"]
    path = object_path(raw["apiVersion"], plural, metadata["namespace"], metadata["name"])
    return objects.replace(f"{path}/status", {**raw, "status": status})


def addition_of_logs(job: Job, kept: Mapping[str, str]) -> Request:
    """The PATCH that adds logs to the job's ConfigMap. It is refused (422) if the ConfigMap belongs to another."""
    own = {"op": "test", "path": "/metadata/ownerReferences/0/uid", "value": job.uid}
    added = [{"op": "add", "path": f"/data/{key}", "value": text} for key, text in kept.items()]
    return objects.modify(object_path(CORE, "configmaps", job.namespace, config_map_name(job.name)), [own, *added])


def creation_with_logs(framework: Framework, job: Job, kept: Mapping[str, str]) -> Request:
    """The POST of the job's ConfigMap of logs."""
    metadata = owned(job, config_map_name(job.name), job_selector(framework, job))
    manifest = {"apiVersion": CORE, "kind": "ConfigMap", "metadata": metadata, "data": kept}
    return objects.create(collection_path(CORE, "configmaps", job.namespace), manifest)
