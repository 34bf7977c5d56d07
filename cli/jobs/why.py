"""``why``: the diagnosis of a job, in words or as JSON."""

import json
import time

import msgspec
from rich.console import Console
from rich.text import Text

from jobcommon.api.text import clean
from jobcommon.api.timestamp import format_time
from jobcommon.cli.display import duration_of
from jobcommon.cli.jobs.access import Api
from jobcommon.cli.jobs.lookup import FoundJob, surroundings
from jobcommon.diagnosis import Diagnosis, diagnose


async def why(api: Api, job: FoundJob, *, condition: bool = True) -> Diagnosis:
    """The diagnosis of a job, from what can be read at this moment. `condition`: see `diagnose`."""
    return diagnose(await surroundings(api, job), time.time(), condition=condition)


def show(console: Console, title: str, made: Diagnosis, now: float) -> None:
    """Print a diagnosis: the cause first."""
    style = "green" if made.well else "red" if made.state == "Failed" else "yellow"
    state = f"{clean(made.state) or 'no condition'}  " if made.state != str(made.reason) else ""
    head = Text.assemble((title, "bold"), "  ", state, (clean(str(made.reason)), style))
    console.print(head, soft_wrap=True)
    _line(console, "", made.sentence)
    if made.progress:
        _line(console, "progress: ", made.progress)
    if made.lines:
        console.print(f"\n  the last lines of {made.replicas[0] if made.replicas else 'its program'}:")
        for line in made.lines:
            _line(console, "  | ", line)
    if made.evidence:
        console.print()
        for fact in made.evidence:
            _line(console, "  - ", fact)
    if made.advice or made.then:
        console.print()
    if made.advice:
        _line(console, "do:   ", made.advice)
    if made.then:
        _line(console, "next: ", made.then + when(made.at, now))


def when(at: float | None, now: float) -> str:
    """``, at 2026-01-01T12:00:05Z (in 0:20)``, as all times in a diagnosis; "" for an unknown time."""
    if at is None:
        return ""
    return f", at {format_time(at)} (in {duration_of(at - now)})" if at > now else f", due since {format_time(at)}"


def as_json(title: str, made: Diagnosis) -> str:
    """The diagnosis for programs."""
    return json.dumps({"job": title, "well": made.well, **msgspec.to_builtins(made)}, indent=2)


def _line(console: Console, prefix: str, text: str) -> None:
    console.print(Text(prefix + clean(text)), soft_wrap=True)
