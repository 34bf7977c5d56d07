"""Which gang scheduler a cluster has, by the discovery API, which every client may read."""

from collections.abc import Sequence

import msgspec

from jobcommon.api.decoding import decoder
from jobcommon.api.gang import POD_GROUPS, GangScheduler
from jobcommon.client.errors import ClientError
from jobcommon.client.request import Request, Transport
from jobcommon.client.status import response_error
from jobcommon.runtime.clock import Clock
from jobcommon.runtime.logging import Log

FIRST_DELAY = 1.0
MAX_DELAY = 30.0


async def find_gang_scheduler(
    transport: Transport, clock: Clock, log: Log, candidates: Sequence[GangScheduler]
) -> GangScheduler | None:
    """The first of `candidates` whose PodGroups the API server serves; None without one.

    Retries until there is a response; cancel it to give up.
    """
    delay = FIRST_DELAY
    while True:
        try:
            found = await _first(transport, candidates)
        except (ClientError, msgspec.DecodeError) as error:
            log.warning("cannot find out which gang scheduler there is", error=str(error))
            await clock.sleep(delay)
            delay = min(delay * 2.0, MAX_DELAY)
            continue
        if found is not None:
            log.info("gang scheduler found", scheduler=found.name, api_version=found.api_version)
            return found
        log.warning("no gang scheduler found: pods are scheduled one by one", asked=[s.api_version for s in candidates])
        return None


async def _first(transport: Transport, candidates: Sequence[GangScheduler]) -> GangScheduler | None:
    for scheduler in candidates:
        if await _serves_pod_groups(transport, scheduler.api_version):
            return scheduler
    return None


async def _serves_pod_groups(transport: Transport, api_version: str) -> bool:
    response = await transport.send(Request("GET", f"/apis/{api_version}"))
    if response.status == 404:
        return False
    if response.status >= 400:
        raise response_error(response)
    return any(resource.name == POD_GROUPS for resource in _resources(response.body).resources)


class _Resource(msgspec.Struct):
    name: str = ""


class _Resources(msgspec.Struct):
    resources: list[_Resource] = []


_resources = decoder(_Resources)
