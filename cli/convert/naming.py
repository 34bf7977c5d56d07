"""The job's name, and what else says who it is."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from jobcommon.cli.convert.finding import Notes
from jobcommon.cli.convert.section import Section

PREFIX = "polyaxon.com/"
MAX_NAME = 63
_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Identity:
    """Name, annotations, and Polyaxon's own account of the experiment."""

    name: str
    annotations: Mapping[str, str]
    info: Mapping[str, str]


def identity(top: Section, *, name: str | None, fallback: str) -> Identity:
    """Who the experiment is: `name` as given, else its own name, its project's, or `fallback` made to fit."""
    own, project = top.text("name"), _project(top)
    path = "name" if own else "project.name" if project else "--name"
    chosen = job_name(name or own or project or fallback, path, top.notes, exact=name is not None)
    tags, description = top.words("tags"), top.text("description")
    annotations = {PREFIX + "description": description, PREFIX + "tags": ", ".join(tags), PREFIX + "project": project}
    info = {"project_name": project, "experiment_name": own or chosen}
    return Identity(
        chosen,
        {key: value for key, value in annotations.items() if value},
        {key: value for key, value in info.items() if value},
    )


def job_name(text: str, path: str, notes: Notes, *, exact: bool) -> str:
    """`text` as a name that Kubernetes takes (RFC 1035); an `exact` one is not changed but refused."""
    fitting = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    fitting = fitting if fitting[:1].isalpha() else f"job-{fitting}".strip("-")
    fitting = fitting[:MAX_NAME].rstrip("-")
    if _NAME.fullmatch(text) and len(text) <= MAX_NAME:
        return text
    if exact:
        form = f'use up to {MAX_NAME} of a-z, 0-9 and "-", beginning with a letter'
        notes.error(path, f'"{text[:70]}" is not a valid job name: {form}')
    elif path != "--name":
        notes.warn(path, f'"{text[:70]}" is not a valid name in Kubernetes; the job is called {fitting}')
    return fitting


def _project(top: Section) -> str | None:
    if isinstance(top.peek("project"), Mapping):
        section = top.section("project")
        name = section.text("name")
        section.close()
        return name
    return top.text("project")
