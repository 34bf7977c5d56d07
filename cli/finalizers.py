"""``jobcommon release-finalizers``: remove the finalizer of operators that have been uninstalled from their pods."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
import typer

from jobcommon.api.pod import pod_view
from jobcommon.cli.errors import JOB_FAILED, UserError
from jobcommon.cli.jobs.access import Place, connected, pages
from jobcommon.client import objects
from jobcommon.client.request import Transport
from jobcommon.client.responses import answered, response_error
from jobcommon.controller.orphans import is_made_by
from jobcommon.framework import FINALIZER, Framework
from jobcommon.reconcile.plan import RemoveFinalizer
from jobcommon.runtime.writes import request_for

# Between reading a pod and patching it, another client may change its finalizers.
TRIES = 5


async def release_finalizers(
    frameworks: Sequence[Framework], namespace: str | None, kubeconfig: str | None, context: str | None
) -> None:
    """Release the pods of `frameworks` and print each. Raises `UserError` if one cannot be released."""
    async with connected(Place(kubeconfig, context)) as api:
        released = 0
        async for page in pages(partial(api.get, objects.collection_path("v1", "pods", namespace))):
            # By the finalizer: others may have taken away the labels.
            held = [pod for pod in page["items"] if is_made_by(frameworks, pod_view(msgspec.json.encode(pod)))]
            await asyncio.gather(*(release(api.transport, pod) for pod in held))
            released += len(held)
        typer.echo(f"{released} released")


async def release(transport: Transport, pod: dict[str, Any]) -> None:
    """Remove our finalizer from a pod, whatever others do to its finalizers meanwhile."""
    metadata = pod["metadata"]
    namespace, name, uid = metadata["namespace"], metadata["name"], metadata["uid"]
    for _ in range(TRIES):
        finalizers = tuple(metadata.get("finalizers") or ())
        if metadata["uid"] != uid or FINALIZER not in finalizers:
            return
        answer = await transport.send(request_for(RemoveFinalizer(name, uid, finalizers), namespace))
        if answer.status == 404:
            return
        if answer.status < 400:
            typer.echo(f"pod/{name} in {namespace}")
            return
        if answer.status != 422:
            raise response_error(answer)
        seen = await transport.send(objects.get(objects.object_path("v1", "pods", namespace, name)))
        if seen.status == 404:
            return
        metadata = answered(seen)["metadata"]
    raise UserError(f"pod/{name} in {namespace}: its finalizers keep changing; run this again", JOB_FAILED)
