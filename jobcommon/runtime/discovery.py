"""What a cluster has: a gang scheduler, by the discovery API, which every client may read; and Kueue's own integrations."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from jobcommon.api import kueue
from jobcommon.api.gang import POD_GROUPS, GangScheduler
from jobcommon.api.template import mapping_of, mappings_in
from jobcommon.api.timestamp import parse_time
from jobcommon.client.errors import ClientError
from jobcommon.client.request import Request, Transport
from jobcommon.client.responses import answered
from jobcommon.framework import Framework
from jobcommon.runtime.clock import Clock
from jobcommon.runtime.logging import Log

T = TypeVar("T")
FIRST_DELAY = 1.0
MAX_RETRY_SECONDS = 30.0


async def find_gang_scheduler(
    transport: Transport, clock: Clock, log: Log, candidates: Sequence[GangScheduler]
) -> GangScheduler | None:
    """The first of `candidates` whose PodGroups the API server serves; None without one.

    Retries until there is a response; cancel it to give up.
    """
    found = await asked_until_answered(lambda: _first(transport, candidates), clock, log, "which gang scheduler there is")
    if found is not None:
        log.info("gang scheduler found", scheduler=found.name, api_version=found.api_version)
        return found
    log.warning("no gang scheduler found: pods are scheduled one by one", asked=[s.api_version for s in candidates])
    return None


async def refuse_to_queue_twice(transport: Transport, clock: Clock, log: Log, frameworks: Sequence[Framework]) -> None:
    """Raises ValueError if Kueue's configuration says that it queues one of the kinds itself.

    A configuration that is not where Kueue's manifests put it, or that may not be read, says nothing. Retries until there is a
    response; cancel it to give up.
    """
    found = await asked_until_answered(
        lambda: read_object(transport, kueue.CONFIGURATION_PATH), clock, log, "which kinds Kueue queues itself"
    )
    integrations = kueue.integrations(found) if found is not None else None
    if integrations is None:
        log.info("Kueue's configuration is not known; jobcommon doctor checks it", path=kueue.CONFIGURATION_PATH)
        return
    names = {framework.kind: kueue.integration_of(framework.api_version, framework.kind) for framework in frameworks}
    twice = {framework.kind: framework for framework in frameworks if names[framework.kind] in integrations.frameworks}
    if twice:
        external = ", ".join(kueue.external_name_of(one.api_version, kind) for kind, one in twice.items())
        raise ValueError(
            f"kueue own: Kueue itself queues {', '.join(twice)}, so each job would be queued twice; in ConfigMap "
            f"{kueue.CONFIGURATION} of namespace {kueue.NAMESPACE} remove {', '.join(names[kind] for kind in twice)} from "
            f"integrations.frameworks, add {external} to integrations.externalFrameworks, and restart Kueue; or run the "
            "operator without --kueue"
        )


async def asked_until_answered(ask: Callable[[], Awaitable[T]], clock: Clock, log: Log, what: str) -> T:
    """The answer to `ask`, which is repeated while it raises ClientError."""
    delay = FIRST_DELAY
    while True:
        try:
            return await ask()
        except ClientError as error:
            log.warning(f"cannot find out {what}", error=str(error))
            await clock.sleep(delay)
            delay = min(delay * 2.0, MAX_RETRY_SECONDS)


async def holder_of(transport: Transport, lease: str, now: float) -> str:
    """What is held at `now`, in words, if a lease of that name is, in whatever namespace; "" if none is, or none may be read.

    Raises ClientError.
    """
    query = (("fieldSelector", f"metadata.name={lease}"),)
    response = await transport.send(Request("GET", "/apis/coordination.k8s.io/v1/leases", query))
    if response.status in (403, 404):
        return ""
    for found in mappings_in(answered(response).get("items")):
        metadata, spec = mapping_of(found.get("metadata")), mapping_of(found.get("spec"))
        holder, renewed = spec.get("holderIdentity"), parse_time(spec.get("renewTime"))
        if holder and renewed is not None and now < renewed + (spec.get("leaseDurationSeconds") or 0):
            lease = f"{metadata.get('namespace')}/{metadata.get('name')}"
            return f"another controller of the kind, {holder}, holds lease {lease}"
    return ""


async def read_object(transport: Transport, path: str) -> dict[str, Any] | None:
    """An object; None for one that is not there or may not be read."""
    response = await transport.send(Request("GET", path))
    if response.status in (401, 403, 404):
        return None
    return answered(response)


async def _first(transport: Transport, candidates: Sequence[GangScheduler]) -> GangScheduler | None:
    for scheduler in candidates:
        response = await transport.send(Request("GET", f"/apis/{scheduler.api_version}"))
        found = answered(response).get("resources") if response.status != 404 else ()
        if any(resource.get("name") == POD_GROUPS for resource in mappings_in(found)):
            return scheduler
    return None
