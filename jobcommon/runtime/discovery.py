"""Which gang scheduler a cluster has, by the discovery API, which every client may read."""

import msgspec

from jobcommon.api.decoding import decoder
from jobcommon.api.gang import COSCHEDULING, POD_GROUPS, VOLCANO, GangScheduler
from jobcommon.client.errors import ClientError
from jobcommon.client.request import Request, Transport
from jobcommon.client.status import response_error
from jobcommon.runtime.clock import Clock
from jobcommon.runtime.logging import Log

FIRST_DELAY = 1.0
MAX_DELAY = 30.0


async def find_gang_scheduler(transport: Transport, clock: Clock, log: Log) -> GangScheduler | None:
    """The gang scheduler whose PodGroups the API server serves, Volcano before the coscheduling plugin; None without one.

    Retries until there is a response; cancel it to give up.
    """
    delay = FIRST_DELAY
    while True:
        try:
            found = [s for s in (VOLCANO, COSCHEDULING) if await _serves_pod_groups(transport, s.api_version)]
        except (ClientError, msgspec.DecodeError) as error:
            log.warning("cannot find out which gang scheduler there is", error=str(error))
            await clock.sleep(delay)
            delay = min(delay * 2.0, MAX_DELAY)
            continue
        if found:
            log.info("gang scheduler found", scheduler=found[0].name, api_version=found[0].api_version)
            return found[0]
        log.warning(
            "no gang scheduler found: pods are scheduled one by one", asked=[VOLCANO.api_version, COSCHEDULING.api_version]
        )
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
