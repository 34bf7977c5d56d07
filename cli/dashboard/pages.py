"""The pages: what each address answers."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import yaml
from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined

from jobcommon.api.pod import STOPPING_TAG, pod_view
from jobcommon.api.status import read_status
from jobcommon.api.text import clean
from jobcommon.api.timestamp import format_time, human_duration, parse_time
from jobcommon.cli.dashboard.cluster import ClusterReader
from jobcommon.cli.dashboard.job_summary import STATES, JobSummary, in_order, progress_of, read_filter, state_of
from jobcommon.cli.dashboard.log_stream import waiting_for
from jobcommon.cli.dashboard.pod_row import pod_row
from jobcommon.cli.display import plural, time_spent
from jobcommon.client.errors import ClientError, StatusError
from jobcommon.client.lines import shown_lines
from jobcommon.diagnosis import Found, diagnose
from jobcommon.diagnosis.found import Member, event_view
from jobcommon.framework import Framework
from jobcommon.reconcile.rendering import described_failure

PAGE_JOBS = 50
MAX_PODS = 500
MAX_EVENTS = 200
LOG_LINES = 500
# Of the reported numbers, where the program is, which the progress says.
POSITIONS = ("current_step", "total_steps", "current_epoch", "total_epochs", "epoch", "checkpoint")
# What lists leave out and what is of no use to a reader.
_NOISE = ("managedFields",)


class NotFound(Exception):  # noqa: N818  it is an answer
    """There is nothing at this address; the text says what is missing."""


class Pages:
    """The handlers. `now` gives seconds since the epoch."""

    def __init__(self, cluster: ClusterReader, *, where: str, now: Callable[[], float] = time.time) -> None:
        self._cluster = cluster
        self._now = now
        self._templates = Environment(
            loader=PackageLoader("jobcommon.cli.dashboard"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
            lstrip_blocks=True,
        )  # fmt: skip
        self._templates.globals.update(where=where)
        self._templates.filters.update(
            utc=utc, iso=format_time, clock=clock, duration=duration, count=plural, seconds=parse_time
        )

    def routes(self) -> list[web.RouteDef]:
        """What is served where."""
        job = "/jobs/{plural}/{namespace}/{name}"
        return [
            web.get("/", self.jobs),
            web.get(job, self.job),
            web.get(f"{job}/yaml", self.manifest),
            web.get("/pods/{namespace}/{name}/log", self.log),
        ]

    async def jobs(self, request: web.Request) -> web.Response:
        """The list of jobs."""
        listing = await self._cluster.jobs()
        frameworks = {framework.kind: framework for framework in self._cluster.frameworks}
        wanted, wrong = read_filter(request.query, frameworks.values())
        now = self._now()
        found = [JobSummary(frameworks[raw["kind"]], raw, read_status(raw.get("status"))) for raw in listing.items]
        of_any_state = [job for job in found if replace(wanted, state="").admits(job)]
        matching = in_order((job for job in of_any_state if wanted.admits(job)), wanted.order)
        pages = max(-(-len(matching) // PAGE_JOBS), 1)
        page = min(int(wanted.page), pages) if wanted.page.isdecimal() and int(wanted.page) else 1
        counts = Counter(job.state for job in of_any_state)
        shown = matching[(page - 1) * PAGE_JOBS : page * PAGE_JOBS]
        beside = {str(one.job["metadata"].get("uid")): one for one in await self._cluster.beside([job.raw for job in shown])}
        explained = [(job, beside.get(str(job.raw["metadata"].get("uid")))) for job in shown]
        return self._page(
            "jobs.html",
            jobs=[job if one is None else job.explained(one, now) for job, one in explained],
            first=(page - 1) * PAGE_JOBS + 1,
            matching=len(matching),
            total=len(found),
            page=page,
            pages=pages,
            problems=[*wrong, *listing.problems],
            wanted=wanted,
            namespaces=sorted({job.namespace for job in found} | ({wanted.namespace} - {""})),
            kinds=sorted({*frameworks} | ({wanted.kind} - {""})),
            states=[(state, counts[state]) for state in STATES if counts[state] or state == wanted.state],
            of_any_state=len(of_any_state),
        )

    async def job(self, request: web.Request) -> web.Response:
        """One job."""
        framework, raw = await self._read_job(request)
        metadata, status, now = raw["metadata"], read_status(raw.get("status")), self._now()
        found = await self._cluster.found(framework, raw)
        diagnosis, members = diagnose(found, now), (*found.members, *found.spare)
        report, events = status.trainer_status, event_lines(found)
        return self._page(
            "job.html",
            spent=time_spent(status, now),
            framework=framework,
            namespace=str(metadata.get("namespace", "")),
            name=str(metadata.get("name", "")),
            state=state_of(status),
            status=status,
            diagnosis=diagnosis,
            unread=found.unread,
            failures=[(failure, described_failure(failure)) for failure in status.failures],
            progressed=progress_of(status, diagnosis.progress),
            metrics=[metric for metric in (report and report.metrics) or () if metric.name not in POSITIONS],
            resized=parse_time(status.last_resize_time),
            pods=[pod_row(found.framework, member) for member in members[:MAX_PODS]],
            pod_count=len(members),
            events=events[:MAX_EVENTS],
            event_count=len(events),
            created=parse_time(metadata.get("creationTimestamp")),
            started=parse_time(status.start_time),
            ended=parse_time(status.completion_time),
            path=request.path,
        )

    async def manifest(self, request: web.Request) -> web.Response:
        """The job as YAML, without what only the API server uses."""
        framework, raw = await self._read_job(request)
        metadata = {key: value for key, value in raw["metadata"].items() if key not in _NOISE}
        text = yaml.safe_dump({**raw, "metadata": metadata}, sort_keys=False, allow_unicode=True, width=120)
        return self._page("yaml.html", framework=framework, raw=raw, text=text, path=request.path.removesuffix("/yaml"))

    async def log(self, request: web.Request) -> web.Response:
        """The end of a container's log; a script follows it."""
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        try:
            raw = await self._cluster.pod(namespace, name)
        except StatusError as error:
            raise NotFound(f"Pod {namespace}/{name}: {error}") from None
        owner = self._owner(raw)
        framework = owner[0] if owner else self._cluster.frameworks[0]
        pod = pod_row(framework, Member(name, pod_view(msgspec.json.encode(raw)), raw))
        container, previous = request.query.get("container", ""), "previous" in request.query
        if container not in pod.containers:
            container = pod.containers[0] if pod.containers else ""
        text, problem = "", ""
        if previous or not waiting_for(raw, container):
            try:
                text = await self._cluster.log(namespace, name, container, tail=LOG_LINES, previous=previous)
                text = "\n".join(map(clean, shown_lines(text)))
            except ClientError as error:
                problem = str(error)
        job = f"/jobs/{owner[0].plural}/{namespace}/{owner[1]}" if owner else ""
        return self._page(
            "log.html", pod=pod, container=container, previous=previous, text=text, problem=problem, job=job, lines=LOG_LINES,
            path=request.path,
        )  # fmt: skip

    def not_found(self, text: str) -> web.Response:
        """The page of an address that leads nowhere."""
        return self._page("problem.html", code=404, heading="Not found", text=text)

    def problem(self, error: ClientError) -> web.Response:
        """The page for a cluster that does not answer."""
        return self._page("problem.html", code=502, heading="The cluster does not answer", text=str(error))

    async def _read_job(self, request: web.Request) -> tuple[Framework, dict[str, Any]]:
        plural, namespace, name = (request.match_info[key] for key in ("plural", "namespace", "name"))
        framework = self._cluster.framework(plural)
        if framework is None:
            raise NotFound(f"There is no kind {plural} here.")
        try:
            return framework, await self._cluster.job(framework, namespace, name)
        except StatusError as error:
            raise NotFound(f"{framework.kind} {namespace}/{name}: {error}") from None

    def _owner(self, pod: dict[str, Any]) -> tuple[Framework, str] | None:
        """The framework and the name of the job that a pod belongs to."""
        owners = pod["metadata"].get("ownerReferences") or ()
        kinds = {framework.kind: framework for framework in self._cluster.frameworks}
        named = ((kinds.get(str(owner.get("kind"))), str(owner.get("name", ""))) for owner in owners if isinstance(owner, dict))
        return next(((framework, name) for framework, name in named if framework is not None), None)

    def _page(self, template: str, *, code: int = 200, **values: Any) -> web.Response:
        text = self._templates.get_template(template).render(now=self._now(), **values)
        return web.Response(status=code, text=text, content_type="text/html")


def event_lines(found: Found) -> list[dict[str, Any]]:
    """What the page shows of the events, the latest first; without those by which the operator stops programs in place.

    One that was read in the cluster and from what the operator has kept is shown once.
    """
    lines: dict[tuple[str, ...], dict[str, Any]] = {}
    for seen, raw in sorted(((event_view(raw), raw) for raw in found.events), key=lambda pair: -pair[0].at):
        about, count = raw.get("involvedObject") or {}, (raw.get("series") or raw).get("count")
        if STOPPING_TAG in seen.message:
            continue
        line = {
            "at": seen.at, "warning": seen.warning, "reason": seen.reason, "message": seen.message,
            "about": f"{about.get('kind', '')} {about.get('name', '')}".strip(),
            "count": count if isinstance(count, int) else 1,
        }  # fmt: skip
        lines.setdefault((seen.uid, seen.name, seen.reason, seen.message), line)
    return [*lines.values()]


def utc(seconds: float) -> str:
    """A time to read: ``2026-11-23 01:30:58 UTC``."""
    return format_time(seconds).replace("T", " ").replace("Z", " UTC")


def clock(seconds: float, now: float) -> str:
    """A time at `now`, in UTC: with its day only if that is another."""
    day, _, time_of_day = format_time(seconds).removesuffix("Z").partition("T")
    return time_of_day if format_time(now).startswith(day) else f"{day} {time_of_day}"


def duration(seconds: float) -> str:
    """A duration as kubectl prints it. Clocks differ, so one may seem to be negative."""
    return human_duration(max(seconds, 0.0))
