"""Completion of jobs' names, from the cluster of the usual kubeconfig."""

import asyncio

from jobcommon.cli.errors import UserError
from jobcommon.cli.frameworks import installed
from jobcommon.cli.jobs.access import Place, connected
from jobcommon.cli.jobs.lookup import all_jobs
from jobcommon.client.config import ConfigError

# A shell waits for the answer.
SECONDS = 3.0


def job_names(incomplete: str) -> list[str]:
    """The jobs of the context's namespace that begin so; none when the cluster cannot be asked."""
    try:
        return asyncio.run(_names(incomplete))
    except (UserError, ConfigError, TimeoutError):
        return []


async def _names(incomplete: str) -> list[str]:
    kind, slash, _ = incomplete.partition("/")
    async with asyncio.timeout(SECONDS), connected(Place()) as api:
        jobs, _ = await all_jobs(api, installed().values(), api.namespace)
    names = (job.title if slash else job.name for job in jobs)
    return sorted({name for name in names if name.startswith(incomplete if slash else kind)})
