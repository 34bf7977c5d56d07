"""Finding jobs by what a user calls them: ``digits``, ``pytorchjob/digits``, or all of a namespace."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from jobcommon.api.status import JobStatus, read_status
from jobcommon.cli.errors import UserError
from jobcommon.cli.frameworks import installed
from jobcommon.cli.jobs.access import Api, Object, Query
from jobcommon.client.errors import StatusError
from jobcommon.client.forbidden import explained
from jobcommon.client.objects import collection_path
from jobcommon.diagnosis.found import Found
from jobcommon.diagnosis.reading import owned_by, pods_request, read_found, read_related
from jobcommon.framework import Framework, Job, Related
from jobcommon.sdk.following import Target
from jobcommon.spec import read_job

# A name is suggested only if it is that similar.
SIMILAR = 0.75


@dataclass(frozen=True)
class FoundJob:
    """A job as the API server has it."""

    framework: Framework
    body: Object
    related: Related = field(default_factory=dict)

    @cached_property
    def specialized(self) -> tuple[Framework, Mapping[str, Any]]:
        """The framework and the manifest by which it is read (see `Framework`)."""
        related = self.related or self.framework.related_to(self.framework.shipped())
        return self.framework.specialized(self.body, related)

    @cached_property
    def read(self) -> Job:
        """The job as the operator reads it."""
        return read_job(*self.specialized)

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return str(self.body["metadata"]["namespace"])

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.body["metadata"]["name"])

    @property
    def uid(self) -> str:
        """Its UID."""
        return str(self.body["metadata"].get("uid") or "")

    @property
    def status(self) -> JobStatus:
        """Its status."""
        return read_status(self.body.get("status"))

    @property
    def state(self) -> str:
        """The type of its current condition, "" without one."""
        conditions = self.status.conditions
        return conditions[-1].type if conditions else ""

    @property
    def target(self) -> Target:
        """Where it is."""
        return Target(self.framework, self.namespace, self.name)

    @property
    def title(self) -> str:
        """``pytorchjob/digits``."""
        return self.target.title


class NoJobError(UserError):
    """No job has that name."""


async def find_job(api: Api, reference: str) -> FoundJob:
    """The job that `reference` names, among the kinds that may be read.

    Raises `NoJobError` when there is none, `UserError` if more than one kind has it, and what refuses to say whether one has.
    """
    frameworks, name = _referenced(reference)
    answers = await asyncio.gather(*(_job(api, framework, name) for framework in frameworks))
    found = [job for job in answers if isinstance(job, FoundJob)]
    if len(found) > 1:
        raise UserError(f"{name}: there are {', '.join(job.title for job in found)}; name one of them")
    if found:
        return found[0]
    for refused in answers:
        if isinstance(refused, StatusError) and refused.code != 404:
            raise refused
    there = sorted(job.name for job in (await all_jobs(api, frameworks, api.namespace))[0])
    # `run` adds a suffix to the name of a script.
    close = get_close_matches(name, there, n=3, cutoff=SIMILAR) or [one for one in there if one.startswith(f"{name}-")][:3]
    hint = f"did you mean {' or '.join(close)}?" if close else "see kubectl train list"
    raise NoJobError(f"{reference}: there is no such job in namespace {api.namespace}; {hint}")


async def all_jobs(
    api: Api, frameworks: Iterable[Framework], namespace: str | None, query: Query = ()
) -> tuple[list[FoundJob], dict[str, str]]:
    """The jobs of a namespace (None: of all) that the query chooses, and by kind why some could not be read. Kinds that are
    not served have none.
    """
    unread: dict[str, str] = {}

    async def of(framework: Framework) -> list[FoundJob]:
        path = collection_path(framework.api_version, framework.plural, namespace)
        try:
            items = await api.items(path, query)
        except StatusError as error:
            if error.code == 403:
                unread[framework.kind] = explained(error)
            elif error.code != 404:
                raise
            return []
        return [FoundJob(framework, {"apiVersion": framework.api_version, "kind": framework.kind, **item}) for item in items]

    found = await asyncio.gather(*map(of, frameworks))
    return [job for jobs in found for job in jobs], unread


def _referenced(reference: str) -> tuple[list[Framework], str]:
    """The frameworks that a reference may mean, and the name."""
    kind, slash, name = reference.rpartition("/")
    frameworks = list(installed().values())
    if slash:
        wanted = kind.lower().partition(".")[0]
        named = [f for f in frameworks if wanted in (f.singular, f.plural, f.name)]
        if not named:
            known = ", ".join(framework.singular for framework in frameworks)
            raise UserError(f'{reference}: "{kind}" is not a kind of job; use one of {known}')
        frameworks = named
    if not name:
        raise UserError(f'"{reference}" names no job; write its name, such as digits or pytorchjob/digits')
    return frameworks, name


async def _job(api: Api, framework: Framework, name: str) -> FoundJob | StatusError:
    try:
        body = await api.get(Target(framework, api.namespace, name).path)
        return FoundJob(framework, body, await read_related(framework, body, api.send_all))
    except StatusError as error:
        return error


async def pods_of(api: Api, job: FoundJob) -> list[Object]:
    """The pods of a job."""
    request = pods_request(job.namespace, job.name)
    return owned_by(job.uid, await api.items(request.path, request.query))


async def surroundings(api: Api, job: FoundJob) -> Found:
    """All that can be read of a job's situation; what is missing for lack of rights is named in `Found.unread`."""
    return await read_found(job.framework, job.body, api.send_all)
