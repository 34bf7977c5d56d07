"""Sequences of edits in the manner of Acto (SOSP'23): whatever a job has been, it must become what its spec says.

From the schema of each CRD follow sequences of edits, the last of which goes back to the first spec. After each step the
cluster must look as if the job had been created with that spec (the differential oracle), or the edit must have been refused
and nothing have changed. A job that has ended is final; the next step then deletes it and creates it with its next spec.

Edits are made in three ways, by turns: while the job runs, when all but the insides of its pods must follow; while it is
suspended, when after the resume the pods must be the new ones, too, every other time with a gang scheduler; and with bad values
under a definition that lets them in, each of which is then corrected, when no pod that runs may be deleted.
"""

import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from random import Random
from typing import Any, TextIO

import msgspec

from jobcommon.framework import Framework
from jobcommon.testutil.sim import user
from jobcommon.testutil.sim.campaign import COMMAND, spread
from jobcommon.testutil.sim.canonical import difference, end_state
from jobcommon.testutil.sim.definitions import loosen, restore
from jobcommon.testutil.sim.job_templates import JOB, MPI_V2, MX, TENSORFLOW, TORCH, JobTemplate
from jobcommon.testutil.sim.pod_groups import VOLCANO_GROUPS
from jobcommon.testutil.sim.scenario import SETTINGS, Scenario, UserStep
from jobcommon.testutil.sim.simulation import simulate
from jobcommon.testutil.sim.spec_edits import Edit, edits, leaves
from jobcommon.testutil.sim.user import RefusedError, ask, job_of
from localcluster.apiserver.server import ApiServer

Obj = dict[str, Any]
JOB_TEMPLATES = (TENSORFLOW, TORCH, MPI_V2, MX)
STEPS = 5
"""Edits in a sequence, before the one that goes back to the first spec."""
REST_SECONDS = 60.0
"""Between steps: time for pods to end, and for what was asked for to come about."""
LIVE, SUSPENDED, GANG, LET_IN = "live", "suspended", "gang", "let in"
_GANG = replace(SETTINGS, gang_scheduler_name="volcano")


@dataclass(frozen=True)
class State:
    """What there was after a step: the spec in force, the canonical dump, and whether the edit was refused."""

    edit: str
    spec: bytes
    end: bytes
    refused: str = ""


@dataclass
class Report:
    """What came of one sequence."""

    name: str
    steps: int = 0
    refused: int = 0
    ended: int = 0
    leaves: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


def base(template: JobTemplate) -> Obj:
    """The first spec: a leader and two workers."""
    spec: Obj = template.job("ExitCode")["spec"]
    return spec


def sequence(template: JobTemplate, number: int) -> tuple[str, list[Edit]]:
    """The mode and the edits of one sequence. All edits of a kind have their turn, one after the other in a drawn order."""
    known = edits(template.framework, base(template))
    order = list(range(len(known)))
    chosen = []
    for position in range(number * STEPS, (number + 1) * STEPS):
        lap, place = divmod(position, len(known))
        Random(f"{template.name}/{lap}").shuffle(order := sorted(order))  # noqa: S311 - reproducibility is the point
        chosen.append(known[order[place]])
    mode = (LIVE, SUSPENDED, LET_IN, GANG)[number % 4]
    return mode, [edit.bad(number // 4 + position) for position, edit in enumerate(chosen)] if mode == LET_IN else chosen


def run_sequence(task: tuple[str, int]) -> Report:
    """Run one sequence, by template and number, and hold each of its states against the job made from scratch."""
    template = next(one for one in JOB_TEMPLATES if one.name == task[0])
    mode, chosen = sequence(template, task[1])
    report = Report(f"{template.name}/{task[1]} ({mode})", leaves=Counter(edit.leaf for edit in chosen))
    states, violations = _live_through(template, mode, chosen)
    report.problems += violations
    for state in states:
        report.steps += 1
        report.refused += bool(state.refused)
        expected = _from_scratch(template.name, mode == GANG, state.spec)
        if expected is None:
            report.problems.append(f"after {state.edit}: from scratch the API server refuses this spec")
            continue
        report.ended += b'"Failed"' in expected
        found = differences(template.framework, expected, state.end, live=mode in (LIVE, LET_IN))
        report.problems += [f"after {state.edit}: {line}" for line in found]
    return report


def differences(framework: Framework, scratch: bytes, migrated: bytes, *, live: bool) -> list[str]:
    """Where the job that was edited differs from the one made from scratch, its history aside."""
    return difference(_essence(framework, scratch, live=live), _essence(framework, migrated, live=live))


def _essence(framework: Framework, end: bytes, *, live: bool) -> bytes:
    objects = [msgspec.json.decode(line, type=Obj) for line in end.splitlines()]
    jobs = f"{framework.plural}.{framework.group}"
    statuses = [obj.get("status") or {} for obj in objects if obj["table"] == jobs]
    ended = any(status.get("completionTime") for status in statuses)
    idle = ended or any(one["type"] == "Suspended" for status in statuses for one in status.get("conditions") or ())
    lines = []
    for obj in objects:
        status = obj.get("status") or {}
        shown = obj
        if obj["table"] == jobs:
            current = [one["type"] for one in status.get("conditions") or ()][-1:]
            if live and current in (["Created"], ["Restarting"]):
                # Running is not taken back when the replica that leads is scaled away: others run on.
                current = ["Running"]
            active = {kind: counts.get("active") for kind, counts in (status.get("replicaStatuses") or {}).items()}
            shown = {**obj, "status": {"current": current, "active": active, "ended": ended}}
        elif obj["table"] == "pods":
            bare = {"table": "pods", "metadata": {"name": obj["metadata"]["name"]}}
            shown = {**(bare if live else obj), "status": {"phase": status.get("phase")}}
        elif idle and obj["table"] == "configmaps":
            # A job that has ended or is suspended keeps its files; one that never ran has none.
            continue
        lines.append(msgspec.json.encode(shown, order="deterministic"))
    return b"\n".join(lines)


def conduct(numbers: Sequence[int], workers: int, *, until: float | None = None, out: TextIO = sys.stdout) -> bool:
    """Run these sequences of every CRD and print the counts; whether every state was reached. `until`: monotonic seconds."""
    tasks = [(template.name, number) for number in numbers for template in JOB_TEMPLATES]
    found: dict[str, list[Report]] = {template.name: [] for template in JOB_TEMPLATES}
    started = time.monotonic()
    for report in spread(run_sequence, _in_time(tasks, until), workers, chunk=1):
        found[report.name.partition("/")[0]].append(report)
        if report.problems:
            print(f"FAILED {COMMAND} acto --only {report.name.partition(' ')[0]}", file=out)
            for problem in report.problems[:5]:
                print(f"    {problem}", file=out)
    well = True
    for template in JOB_TEMPLATES:
        reports = found[template.name]
        changed = {leaf for report in reports for leaf in report.leaves}
        failed = sum(bool(report.problems) for report in reports)
        well = well and not failed
        print(
            f"acto {template.framework.kind}: {len(reports)} sequences of {STEPS} edits and back, "
            f"{sum(r.steps for r in reports)} states held against scratch, {sum(r.refused for r in reports)} edits refused, "
            f"{sum(r.ended for r in reports)} states of an ended job, {len(changed)} of "
            f"{len(leaves(template.framework))} leaves changed, {failed} failures",
            file=out,
        )
    print(f"acto: {sum(map(len, found.values()))} sequences in {time.monotonic() - started:.0f} s", file=out)
    return well


def _in_time(tasks: Sequence[tuple[str, int]], until: float | None) -> Iterator[tuple[str, int]]:
    return (task for task in tasks if until is None or time.monotonic() < until)


# -- one job through all of its specs -----------------------------------------------------------------------------------------


class _Life:
    """The steps of one sequence as user steps, with a check of the state after each."""

    def __init__(self, template: JobTemplate, mode: str, chosen: Sequence[Edit]) -> None:
        self.states: list[State] = []
        self._shape = template
        self._mode = mode
        self._chosen = chosen
        self._first = base(template)
        self._spec = self._first
        self._refused = ""
        self._edit = "the beginning"

    def steps(self) -> Iterator[UserStep]:
        """Look and edit, look and edit, and look."""
        if self._mode == LET_IN:
            yield from let_in(self._shape, self._chosen)
            yield UserStep("look", self._look, at=REST_SECONDS * (len(self._chosen) + 2))
            return
        for number in range(len(self._chosen) + 1):
            at = REST_SECONDS * (number + 1)
            yield UserStep(f"look {number}", self._look, at=at)
            if self._mode != LIVE:
                yield UserStep(f"suspend {number}", self._suspend, at=at)
            yield UserStep(f"edit {number}", self._edits(number), at=at + (20.0 if self._mode != LIVE else 0.0))
        yield UserStep("look at the end", self._look, at=REST_SECONDS * (len(self._chosen) + 2))

    def _look(self, server: ApiServer) -> None:
        spec = msgspec.json.encode(self._spec, order="deterministic")
        self.states.append(State(self._edit, spec, end_state(server), self._refused))

    def _over(self, server: ApiServer) -> bool:
        """Whether there is nothing left to be edited: the job has ended, or has been deleted with its time."""
        name, framework = JOB, self._shape.framework
        ended = any(user.condition(framework, name, kind)(server) for kind in ("Succeeded", "Failed"))
        return ended or job_of(server, framework, name) is None

    def _suspend(self, server: ApiServer) -> None:
        if not self._over(server):
            self._write(server, {**self._spec, "runPolicy": {**(self._spec.get("runPolicy") or {}), "suspend": True}})

    def _edits(self, number: int) -> user.Do:
        def do(server: ApiServer) -> None:
            if number < len(self._chosen):
                edit: Edit | None = self._chosen[number]
                wanted = self._chosen[number].apply(self._spec)
            else:
                edit, wanted = None, self._first
            self._edit, self._refused = f"{number}: {edit or 'back to the first spec'}", ""
            try:
                self._write(server, wanted)
                self._spec = wanted
            except RefusedError as error:
                self._refused = str(error)
                if self._mode != LIVE:
                    self._write(server, self._spec)

        return do

    def _write(self, server: ApiServer, spec: Obj) -> None:
        framework = self._shape.framework
        if self._over(server):
            body = {**self._shape.manifest({}), "spec": spec}
            # A dry run first: what the server refuses must not cost the job that is there.
            created = user.path_of(framework)
            ask(
                server,
                "POST",
                created,
                {**body, "metadata": {"name": "probe", "namespace": "default"}},
                query=(("dryRun", "All"),),
            )
            user.replace_job(framework, body)(server)
            return
        _put(server, self._shape, spec)


def let_in(template: JobTemplate, chosen: Sequence[Edit]) -> Iterator[UserStep]:
    """Bad edits of the first spec, each corrected after half a minute."""
    framework, good, rest = template.framework, base(template), REST_SECONDS / 2
    yield UserStep("loosen", lambda server: loosen(server, framework), at=1.0)
    for number, edit in enumerate(chosen):
        bad, at = partial(_put_if_let, template=template, spec=edit.apply(good)), rest * (2 * number + 1)
        yield UserStep(f"break {number}", bad, at=at)
        yield UserStep(f"correct {number}", partial(_put, template=template, spec=good), at=at + rest)
    yield UserStep("restore", lambda server: restore(server, framework), at=rest * (2 * len(chosen) + 1))
    yield UserStep("put", partial(_put, template=template, spec=good), at=rest * (2 * len(chosen) + 1) + 1)


def _put_if_let(server: ApiServer, template: JobTemplate, spec: Obj) -> None:
    # The path of the scale subresource has rules of its own.
    with suppress(RefusedError):
        _put(server, template, spec)


def _put(server: ApiServer, template: JobTemplate, spec: Obj) -> None:
    framework = template.framework
    if (job := job_of(server, framework, JOB)) is not None:
        body = {"apiVersion": framework.api_version, "kind": framework.kind, **job.obj, "spec": spec}
        ask(server, "PUT", user.path_of(framework, JOB), body)


def _live_through(template: JobTemplate, mode: str, chosen: Sequence[Edit]) -> tuple[list[State], list[str]]:
    life = _Life(template, mode, chosen)
    job = {**template.manifest({}), "spec": base(template)}
    scenario = _scenario(template, f"acto-{mode}", job, tuple(life.steps()), gang=mode == GANG)
    run = simulate(scenario, 0)
    return life.states, [*run.violations, *run.errors, *run.leaked]


def _scenario(template: JobTemplate, name: str, job: Obj, steps: tuple[UserStep, ...], *, gang: bool) -> Scenario:
    objects = ((user.DEFINITIONS, VOLCANO_GROUPS),) if gang else ()
    return template.scenario(name, job, user=steps, objects=objects, settings=_GANG if gang else SETTINGS)


@cache
def _from_scratch(name: str, gang: bool, spec: bytes) -> bytes | None:
    """What a new job with this spec comes to; None when the API server refuses it."""
    template = next(one for one in JOB_TEMPLATES if one.name == name)
    seen: list[bytes] = []
    job = {**template.manifest({}), "spec": msgspec.json.decode(spec)}
    look = UserStep("look", lambda server: seen.append(end_state(server)), at=REST_SECONDS)
    try:
        simulate(_scenario(template, "acto-scratch", job, (look,), gang=gang), 0)
    except RefusedError:
        return None
    return seen[0]
