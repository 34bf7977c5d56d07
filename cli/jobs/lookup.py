"""Finding jobs by what a user calls them: ``digits``, ``pytorchjob/digits``, or all of a namespace."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from jobcommon.cli.errors import UserError
from jobcommon.cli.frameworks import installed
from jobcommon.cli.jobs.access import Api, Object
from jobcommon.client.errors import StatusError
from jobcommon.client.objects import collection_path, object_path
from jobcommon.client.refusal import explained
from jobcommon.framework import Framework


@dataclass(frozen=True)
class FoundJob:
    """A job as the API server has it."""

    framework: Framework
    body: Object

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
    def title(self) -> str:
        """``pytorchjob/digits``."""
        return f"{self.framework.singular}/{self.name}"

    @property
    def path(self) -> str:
        """Its path at the API server."""
        return object_path(self.framework.api_version, self.framework.plural, self.namespace, self.name)


async def find_job(api: Api, reference: str) -> FoundJob:
    """The job that `reference` names. Raises `UserError` when there is none, or more than one kind has it."""
    frameworks, name = _referenced(reference)
    found = [job for job in await asyncio.gather(*(_job(api, framework, name) for framework in frameworks)) if job is not None]
    if len(found) > 1:
        raise UserError(f"{name}: there are {', '.join(job.title for job in found)}; name one of them")
    if found:
        return found[0]
    there = sorted(job.name for job in (await all_jobs(api, frameworks, api.namespace))[0])
    close = get_close_matches(name, there, n=3)
    hint = (
        f"; did you mean {' or '.join(close)}?"
        if close
        else f"; there are {', '.join([*there[:8], *(('…',) if len(there) > 8 else ())])}"
        if there
        else "; it has no jobs"
    )
    raise UserError(f"{reference}: there is no such job in namespace {api.namespace}{hint}")


async def all_jobs(api: Api, frameworks: Iterable[Framework], namespace: str | None) -> tuple[list[FoundJob], dict[str, str]]:
    """The jobs of a namespace (None: of all), and by kind why some could not be read. Kinds that are not served have none."""
    unread: dict[str, str] = {}

    async def of(framework: Framework) -> list[FoundJob]:
        path = collection_path(framework.api_version, framework.plural, namespace)
        try:
            items = await api.items(path)
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
        raise UserError(f'"{reference}" names no job; write its name, as in digits or pytorchjob/digits')
    return frameworks, name


async def _job(api: Api, framework: Framework, name: str) -> FoundJob | None:
    path = object_path(framework.api_version, framework.plural, api.namespace, name)
    try:
        return FoundJob(framework, await api.get(path))
    except StatusError as error:
        if error.code == 404:
            return None
        raise
