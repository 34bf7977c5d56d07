"""A job's pods, and what a diagnosis needs, read from any cluster."""

from jobcommon.cli.jobs.access import Api, Object
from jobcommon.cli.jobs.lookup import FoundJob
from jobcommon.diagnosis import Found
from jobcommon.diagnosis.reading import owned_by, pods_request, read_found


async def pods_of(api: Api, job: FoundJob) -> list[Object]:
    """The pods of a job."""
    request = pods_request(job.namespace, job.name)
    return owned_by(job.uid, await api.items(request.path, request.query))


async def surroundings(api: Api, job: FoundJob) -> Found:
    """All that can be read of a job's situation; what is missing for lack of rights is named in `Found.unread`."""
    return await read_found(job.framework, job.body, api.send_all)
