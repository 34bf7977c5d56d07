"""A job's pods, and what a diagnosis needs, read from any cluster."""

from collections.abc import Sequence

from jobcommon.cli.jobs.access import Api, Object, together
from jobcommon.cli.jobs.lookup import FoundJob
from jobcommon.client.request import Request, Response
from jobcommon.diagnosis import Found
from jobcommon.diagnosis.reading import owned_by, pods_request, read_found


async def pods_of(api: Api, job: FoundJob) -> list[Object]:
    """The pods of a job."""
    request = pods_request(job.namespace, job.name)
    return owned_by(job.uid, await api.items(request.path, request.query))


async def surroundings(api: Api, job: FoundJob) -> Found:
    """All that can be read of a job's situation; what is missing for lack of rights is named in `Found.unread`."""

    async def send(requests: Sequence[Request]) -> list[Response]:
        return await together(*map(api.transport.send, requests))

    return await read_found(job.framework, job.body, send)
