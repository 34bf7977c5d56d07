"""``list`` and ``top``: jobs, and the replicas of jobs, as tables."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from jobcommon.api import labels
from jobcommon.api.pod import PodView, Running, Terminated, Waiting
from jobcommon.api.status import ConditionType
from jobcommon.api.text import clean
from jobcommon.api.timestamp import human_duration, parse_time
from jobcommon.causes.cause import in_short
from jobcommon.cli.display import duration_of, style_of, time_spent
from jobcommon.cli.errors import JOB_FAILED, UserError
from jobcommon.cli.frameworks import installed
from jobcommon.cli.jobs.access import Api, Object, together
from jobcommon.cli.jobs.lookup import FoundJob, all_jobs, surroundings
from jobcommon.cli.pod_state import describe
from jobcommon.client.errors import StatusError
from jobcommon.client.forbidden import explained
from jobcommon.client.objects import collection_path
from jobcommon.diagnosis import Diagnosis, Found, Reason, diagnose
from jobcommon.diagnosis.diagnosis import reported
from jobcommon.diagnosis.pods import cause_of
from jobcommon.diagnosis.reading import owned_by

# Nothing is wrong with such pods, but it may take long.
_SLOW = (Reason.PULLING_IMAGE, Reason.INIT_CONTAINER_RUNNING)
# Of a cause, so much is shown in a list; `why` has the rest.
CAUSE_WIDTH = 160
# Of so many jobs all is read that `why` reads.
MOST_READ = 200


async def jobs_of(api: Api, *, everywhere: bool, console: Console, selector: str = "") -> list[FoundJob]:
    """The jobs of the namespace or of all, the latest last. Kinds that may not be read are named; raises if all are."""
    where, query = None if everywhere else api.namespace, (("labelSelector", selector),) if selector else ()
    found, unread = await all_jobs(api, installed().values(), where, query)
    if unread and not found:
        raise UserError(next(iter(unread.values())), JOB_FAILED)
    for kind, reason in unread.items():
        console.print(Text(clean(f"{kind}: {reason}"), style="yellow"), soft_wrap=True)
    return sorted(found, key=lambda job: (str(job.body["metadata"].get("creationTimestamp")), job.name))


async def surroundings_of(
    api: Api, jobs: Sequence[FoundJob], *, everywhere: bool, console: Console | None = None
) -> list[Found]:
    """What explains jobs in a list. One request shows with which something is wrong."""
    namespace = None if everywhere else api.namespace
    unread: dict[str, str] = {}
    pods: list[Object] = []
    try:
        if any(not job.status.finished for job in jobs):
            pods = await api.items(collection_path("v1", "pods", namespace), (("labelSelector", labels.JOB_NAME),))
    except StatusError as error:
        unread["pods"] = explained(error)
    by_job: dict[tuple[str, str], list[Object]] = {}
    for pod in pods:
        metadata = pod["metadata"]
        by_job.setdefault((metadata["namespace"], metadata["labels"][labels.JOB_NAME]), []).append(pod)
    named = ((job, by_job.get((job.namespace, job.name), ())) for job in jobs)
    found = [Found(job.framework, job.body, owned_by(job.uid, its), unread=unread) for job, its in named]
    # What `why` reads, of the latest that are not well or not over.
    unwell = [at for at, one in enumerate(found) if not one.status.has(ConditionType.SUCCEEDED) or one.read.deleting]
    chosen_at = unwell[-MOST_READ:]
    if console is not None and len(unwell) > MOST_READ:
        text = f"for {len(unwell) - MOST_READ} older jobs the cause is taken from the status; jobcommon why reads more"
        console.print(Text(text, style="yellow"), soft_wrap=True)
    for at, one in zip(chosen_at, await together(*(surroundings(api, jobs[at]) for at in chosen_at)), strict=True):
        found[at] = one
    return found


def show_jobs(console: Console, jobs: Sequence[Found], now: float, *, everywhere: bool, wide: bool = False) -> None:
    """Print one row a job, first those with which something is wrong; with the cause, as `why` says it.

    A `wide` table has the whole cause, the node of the replica, and what to do.
    """
    progress = ["PROGRESS"] if any(found.status.reported_progress for found in jobs) else []
    columns = "NAME", "STATE", "PODS", *progress, "RESTARTS", "AGE", "REASON", *(["NODE"] if wide else []), "CAUSE"
    table = _table(*(["NAMESPACE"] if everywhere else []), *columns, *(["DO"] if wide else []))
    for job, found, made in _unwell_first(jobs, now):
        status = found.status
        current = status.conditions[-1] if status.conditions else None
        state = Text(clean(current.type), style=style_of(current)) if current else Text("-")
        created = parse_time(job.body["metadata"].get("creationTimestamp")) or now
        unwell = worth_telling(made)
        reason = str(unwell.reason) if unwell else current.reason.removeprefix(job.framework.kind) if current else ""
        sentence = "" if unwell is None else unwell.sentence if wide else in_short(unwell.sentence, CAUSE_WIDTH)
        row: list[str | Text] = [
            job.title,
            state,
            pod_count(found),
            *(clean(status.reported_progress) for _ in progress),
            str(status.restarts or 0),
            human_duration(now - created),
            clean(reason),
            *([clean(unwell.node if unwell else "") or "-"] if wide else []),
            Text(clean(sentence), style="yellow"),
            *([clean(unwell.advice if unwell else "")] if wide else []),
        ]
        table.add_row(*([job.namespace] if everywhere else []), *row)
    _print(console, table)


def jobs_as_json(jobs: Sequence[Found], now: float) -> str:
    """The same for programs: a list of objects, each with the diagnosis as ``why -o json`` has it."""
    return json.dumps([_as_json(*one) for one in _unwell_first(jobs, now)], indent=2)


def _as_json(job: FoundJob, found: Found, made: Diagnosis | None) -> dict[str, Any]:
    status = found.status
    running, _, wanted = pod_count(found).partition("/")
    return {
        "job": job.title,
        "namespace": job.namespace,
        "kind": job.framework.kind,
        "created": job.body["metadata"].get("creationTimestamp"),
        "pods": {"running": int(running), "wanted": int(wanted)},
        "restarts": status.restarts or 0,
        "progress": status.reported_progress,
        "state": job.state,
        **({"well": made.well, **msgspec.to_builtins(made)} if made is not None else {}),
    }


def _unwell_first(jobs: Sequence[Found], now: float) -> list[tuple[FoundJob, Found, Diagnosis | None]]:
    """The jobs with their diagnoses, None where pods may not be read: first the unwell ones, then those that go on."""
    made = [diagnose(found, now) if "pods" not in found.unread else None for found in jobs]
    rows = [(FoundJob(found.framework, {**found.job}), found, one) for found, one in zip(jobs, made, strict=True)]
    return sorted(rows, key=lambda row: (row[2] is None or row[2].well, row[1].status.finished))


def worth_telling(made: Diagnosis | None) -> Diagnosis | None:
    """The diagnosis, if a list is to say what it says."""
    return made if made is not None and (not made.well or made.reason in _SLOW) else None


def pod_count(found: Found) -> str:
    """``46/60``: of the replicas that are wanted, those that run or have succeeded, by the pods where they can be read."""
    job, status = found.read, found.status
    wanted = sum(map(job.asked_of, job.replica_specs))
    there = sum((of_type.active or 0) + (of_type.succeeded or 0) for of_type in status.replica_statuses.values())
    if found.pods and not status.finished:
        gone = sum(of_type.succeeded or 0 for of_type in status.replica_statuses.values())
        done = sum(member.pod.phase == "Succeeded" for member in found.members)
        there = sum(_runs(member.pod) for member in found.members) + max(done, gone)
    # A TrainJob that is not read further has no replica types: its runtime has them.
    return f"{there}/{wanted or there}"


def _runs(pod: PodView) -> bool:
    """Whether it runs, and is not between two runs."""
    waits = any(isinstance(c.state, Waiting) or (isinstance(c.state, Terminated) and c.state.exit_code) for c in pod.containers)
    return pod.phase == "Running" and pod.deletion_time is None and not waits


def show_replicas(console: Console, found: Found, now: float) -> None:
    """Print one row a replica: how it is, how often it restarted, and how long it took to start."""
    table = _table("REPLICA", "STATE", "RESTARTS", "AGE", "START", "NODE", "CAUSE")
    for member in (*found.members, *found.spare):
        pod, cause = member.pod, cause_of(member, found, now)
        restarts = sum(container.restart_count for container in pod.containers)
        age = now - pod.creation_time if pod.creation_time is not None else 0.0
        start = start_seconds(pod, now)
        started = "-" if start is None else duration_of(start) + ("" if _first_start(pod) is not None else " …")
        text = Text(clean(cause.text) if cause is not None else "", style="yellow")
        state = clean(describe(member.raw))
        table.add_row(member.replica, state, str(restarts), human_duration(age), started, pod.node_name or "-", text)
    _print(console, table)
    there = "the job has finished" if found.status.finished else f"{pod_count(found)} Running"
    lines = [f"{there}; restarts: {found.status.restarts or 0}"]
    lines += [f"progress: {progress}"] if (progress := reported(found.status, now)) else []
    lines += [spent] if (spent := time_spent(found.status, now)) else []
    for line in lines:
        console.print(Text(clean(line)), soft_wrap=True)


def start_seconds(pod: PodView, now: float) -> float | None:
    """How long the pod took from its creation until its containers ran, or has taken so far; None if that is not known."""
    if pod.creation_time is None:
        return 0.0
    if any(container.restart_count > 1 for container in pod.containers):
        # Its status has the last two runs.
        return None
    first = _first_start(pod)
    return max((now if first is None else first) - pod.creation_time, 0.0)


def _first_start(pod: PodView) -> float | None:
    """When its containers ran first; each has been restarted once at most."""
    starts = []
    for container in pod.containers:
        run = container.last or container.state
        if isinstance(run, Running | Terminated) and run.started_at is not None:
            starts.append(run.started_at)
    return max(starts) if starts and len(starts) == len(pod.containers) else None


def _table(*titles: str) -> Table:
    columns = [Column(title, no_wrap=title not in ("CAUSE", "DO"), overflow="fold") for title in titles]
    return Table(*columns, box=None, pad_edge=False, header_style="bold")


def _print(console: Console, table: Table) -> None:
    """Without the blanks with which rich fills the last column."""
    with console.capture() as printed:
        console.print(table)
    for line in Text.from_ansi(printed.get().rstrip()).split():
        line.rstrip()
        console.print(line, soft_wrap=True)
