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
from jobcommon.client.responses import response_error
from jobcommon.controller.orphans import is_made_by
from jobcommon.framework import Framework
from jobcommon.reconcile.plan import RemoveFinalizer
from jobcommon.runtime.writes import request_for


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
    """Remove our finalizer from a pod. Raises `UserError` if others change its finalizers meanwhile."""
    metadata = pod["metadata"]
    namespace, name = metadata["namespace"], metadata["name"]
    removal = RemoveFinalizer(name, metadata["uid"], tuple(metadata.get("finalizers") or ()))
    answer = await transport.send(request_for(removal, namespace))
    if answer.status == 422:
        raise UserError(f"pod/{name} in {namespace}: its finalizers have changed; run this again", JOB_FAILED)
    if answer.status < 400:
        typer.echo(f"pod/{name} in {namespace}")
    elif answer.status != 404:
        raise response_error(answer)
