"""The trial: healthy jobs with and without poison beside them, on a server that does not validate.

Everything runs in one process: the embedded API server with definitions that accept any spec, its controllers, a kubelet
without processes, and the operators of all four frameworks under their real manager. Only the operators' CPU time
counts: the other parts stand for other machines and take no time.
"""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from io import StringIO
from random import Random
from typing import Any

import msgspec

from jobcommon.api.reasons import INVALID_SPEC
from jobcommon.api.status import ConditionType, read_status
from jobcommon.controller.result import Work
from jobcommon.framework import Framework
from jobcommon.runtime import logging
from jobcommon.runtime.driver import Driver
from jobcommon.runtime.manager import Env as RuntimeEnv
from jobcommon.runtime.manager import Manager
from jobcommon.runtime.settings import Settings
from jobcommon.testutil.builders import Manifest
from jobcommon.testutil.embedded import InProcessTransport
from jobcommon.testutil.poison.cpu_time import CpuTimeLoop, LoopClock
from jobcommon.testutil.poison.kinds import FRAMEWORKS, HEALTHY, Poison, Verdict, healthy
from jobcommon.testutil.poison.kubelet import FakeKubelet
from localcluster.apiserver import ADMIN, ApiServer, Env
from localcluster.apiserver.questions import Replies
from localcluster.apiserver.storage import DELETED, Change
from localcluster.apiserver.users import User
from localcluster.controllers import Controllers
from localcluster.controllers.controllers import Controller
from localcluster.request import Request, Response

Key = tuple[str, str, str]
"""Kind, namespace and name of a job."""
START_AFTER, RUN_FOR = 1.0, 5.0
#: Syncs until a refusal is known and on record: the first one learns of it, its events may bring a second before the last.
REFUSAL_SYNCS = 3
REST = 120.0
#: The status write itself brings the job back once, with what was not cleaned up; later syncs have no cause.
PEACE_AFTER = 10.0
NAMESPACES = 20


@dataclass
class Course:
    """What was seen of one job: the syncs it had, what the first of them decided, and when it got where."""

    created: float
    poison: Poison | None
    syncs: int = 0
    first: tuple[str, str] = ("", "")
    syncs_after_end: int = 0
    changes_since_end: int = 0
    syncs_late: int = 0
    syncs_until_end: int = 0
    running: float | None = None
    ended: float | None = None
    status: Any = None

    def faults(self) -> list[str]:
        """What is not as its kind of poison says; nothing for a job that came to the right end."""
        poison = self.poison
        verdict = poison.verdict if poison else Verdict.RUNS
        if verdict in (Verdict.IGNORED, Verdict.UNDECIDED):
            return [] if self.status is None else [f"has a status: {self.status}"]
        status = read_status(self.status)
        last = status.conditions[-1] if status.conditions else None
        where = f"ended at {last.type} ({last.reason}: {last.message})" if last else "got no condition"
        if verdict is Verdict.RUNS:
            return [] if last and last.type == ConditionType.SUCCEEDED else [where]
        says = poison.says if poison else ""
        if last is None or (last.type, last.reason) != (ConditionType.FAILED, INVALID_SPEC) or says not in (last.message or ""):
            return [f"{where}, not at {INVALID_SPEC} with {says!r}"]
        if verdict is Verdict.INVALID and self.first != (ConditionType.FAILED, INVALID_SPEC):
            return [f"the first sync decided {self.first}"]
        if verdict is Verdict.REFUSED and self.syncs_until_end > REFUSAL_SYNCS:
            return [f"took {self.syncs_until_end} syncs"]
        return []


@dataclass
class Trial:
    """One trial's result. Times are CPU seconds of the process, idle time skipped."""

    courses: dict[Key, Course] = field(default_factory=dict)
    events: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    syncs_at_rest: int = 0
    surplus_runs: int = 0
    cpu: float = 0.0
    errors: list[str] = field(default_factory=list)
    log: str = ""

    def healthy(self) -> list[Course]:
        """The courses of the jobs with nothing wrong."""
        return [course for course in self.courses.values() if course.poison is None]

    def hot_share(self) -> float:
        """Of all syncs, the share of poisoned jobs whose condition had been on record for ten seconds."""
        poisoned = sum(c.syncs_late for c in self.courses.values() if c.poison and _fails(c.poison))
        return poisoned / max(sum(c.syncs for c in self.courses.values()), 1)

    def faults(self) -> list[str]:
        """What was not as it must be, one line each."""
        found = list(self.errors)
        for key, course in self.courses.items():
            found += [f"{'/'.join(key)} ({course.poison.title if course.poison else 'healthy'}): {fault}"
                      for fault in course.faults()]  # fmt: skip
        for (kind, namespace, name), course in self.courses.items():
            wanted = course.poison.event if course.poison else ""
            if wanted and not self.events[kind, f"{namespace}/{name}", wanted]:
                found.append(f"{kind}/{namespace}/{name} ({course.poison.title if course.poison else ''}): no event {wanted}")
        return found + ([f"{self.surplus_runs} pods ran more than once"] if self.surplus_runs else [])


def _fails(poison: Poison) -> bool:
    return poison.verdict in (Verdict.INVALID, Verdict.REFUSED)


class _Elsewhere(ApiServer):
    """An API server on a machine of its own."""

    def __init__(self, env: Env, loop: CpuTimeLoop) -> None:
        super().__init__(env)
        self._loop = loop

    def handle(self, request: Request, user: User | None = None, replies: Replies | None = None) -> Response:
        with self._loop.elsewhere():
            return super().handle(request, user, replies)


class _Others(Controllers):
    """The cluster's controllers, and `more`, on that machine, too."""

    def __init__(self, server: ApiServer, loop: CpuTimeLoop, more: tuple[Controller, ...]) -> None:
        super().__init__(server, more=more)
        self._loop = loop

    def step(self) -> float | None:
        with self._loop.elsewhere():
            return super().step()


class _WatchedManager(Manager):
    """A manager that says which plans are made."""

    tell: Callable[[Framework, Work], None]

    def _driver(self, framework: Framework) -> Driver:
        driver = super()._driver(framework)
        begin = driver.controller.begin

        def told(moment: Any) -> Work | None:
            work = begin(moment)
            if work is not None:
                self.tell(framework, work)
            return work

        setattr(driver.controller, "begin", told)  # noqa: B010  mypy takes methods for fixed
        return driver


class _Field:
    """The cluster, the operators and the books of one trial."""

    def __init__(self, loop: CpuTimeLoop, frameworks: Sequence[Framework], seed: int) -> None:
        self.clock = LoopClock(loop)
        self.loop = loop
        self.server = _Elsewhere(Env.seeded(seed, self.clock.wall), loop)
        self.trial = Trial()
        self._feed = self.server.storage.feed()
        self._jobs: dict[str, str] = {}
        self.kubelet = FakeKubelet(self.server, self.clock.wall, start_after=START_AFTER, run_for=RUN_FOR)
        self.controllers = _Others(self.server, loop, (self.kubelet, self))
        for framework in frameworks:
            self._call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", _lax_definition(framework))
        for number in range(NAMESPACES):
            self._call("POST", "/api/v1/namespaces", {"metadata": {"name": f"team-{number}"}})
        self.controllers.step()
        self._jobs = {_table(self.server, framework): framework.kind for framework in frameworks}
        chance = Random(seed)  # noqa: S311  reproducibility is the point
        transport, env = InProcessTransport(self.server), RuntimeEnv(self.clock, chance.random, "trial_1")
        self.log = StringIO()
        quiet = logging.setup("json", "warning", self.log)
        self.manager = _WatchedManager(transport, frameworks, Settings(metrics_port=None), env=env, log=quiet)
        self.manager.tell = self._planned

    def submit(self, framework: Framework, manifest: Manifest, poison: Poison | None = None) -> None:
        """Create a job with all that belongs to its kind of poison, before the operator has a turn."""
        namespace, name = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
        self.trial.courses[framework.kind, namespace, name] = Course(self.clock.monotonic(), poison)
        path = f"/apis/{framework.api_version}/namespaces/{namespace}/{framework.plural}"
        job = self._call("POST", path, manifest)
        if poison is None:
            return
        if poison.status is not None:
            self._call("PUT", f"{path}/{name}/status", {**job, "status": poison.status})
        if (stranger := poison.stranger(job)) is not None:
            self._call("POST", f"/api/v1/namespaces/{namespace}/pods", stranger)

    def step(self) -> float | None:
        """Read from the store how far the jobs have got."""
        while self._feed:
            change = self._feed.popleft()
            if change.type == DELETED:
                self._child_changed(change)
                continue
            kind = self._jobs.get(change.table)
            if kind is not None:
                self._seen((kind, change.item.namespace, change.item.name), change.item.obj.get("status"))
            elif change.table.startswith("events"):
                about = change.item.obj.get("involvedObject") or change.item.obj.get("regarding") or {}
                key = f"{about.get('namespace')}/{about.get('name')}"
                self.trial.events[str(about.get("kind")), key, str(change.item.obj.get("reason"))] += 1
            else:
                self._child_changed(change)
        return None

    def _child_changed(self, change: Change) -> None:
        for owner in change.item.obj["metadata"].get("ownerReferences") or ():
            course = self.trial.courses.get((owner["kind"], change.item.namespace, owner["name"]))
            if course is not None:
                course.changes_since_end += course.ended is not None

    def _seen(self, key: Key, raw: Any) -> None:
        course = self.trial.courses.get(key)
        if course is None or raw is None or (course.poison and raw == course.poison.status):
            return
        course.status, status, now = raw, read_status(raw), self.clock.monotonic()
        if course.running is None and status.has(ConditionType.RUNNING):
            course.running = now
        if course.ended is None and status.finished:
            course.ended, course.syncs_until_end = now, course.syncs
        course.changes_since_end += course.ended is not None

    def _planned(self, framework: Framework, work: Work) -> None:
        course = self.trial.courses.get((framework.kind, work.namespace, work.name))
        if course is None:
            return
        course.syncs += 1
        course.syncs_after_end += course.ended is not None
        course.syncs_late += course.ended is not None and self.clock.monotonic() > course.ended + PEACE_AFTER
        if course.syncs == 1 and work.plan.status is not None and work.plan.status.conditions:
            last = work.plan.status.conditions[-1]
            course.first = (last.type, last.reason or "")

    def settled(self) -> bool:
        """Whether every job is where it must come to."""
        endless = (Verdict.IGNORED, Verdict.UNDECIDED)
        return all(c.ended is not None or (c.poison and c.poison.verdict in endless) for c in self.trial.courses.values())

    def _call(self, method: str, path: str, body: Any) -> Manifest:
        response = self.server.handle(Request(method, path, body=msgspec.json.encode(body)), ADMIN)
        if response.status >= 400:
            raise AssertionError(f"{method} {path}: {response.body.decode()[:2000]}")
        decoded: Manifest = msgspec.json.decode(response.body)
        return decoded


def _table(server: ApiServer, framework: Framework) -> str:
    resource = server.registry.find(framework.group, framework.storage_version, framework.plural)
    if resource is None:
        raise AssertionError(f"{framework.kind} is not served")
    return resource.storage_key


def _lax_definition(framework: Framework) -> Manifest:
    """A definition of the kind that takes anything for a spec and a status."""
    anything = {"x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    versions = [
        {
            "name": version.name,
            "served": True,
            "storage": version.storage,
            "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}},
        }
        for version in framework.versions
    ]
    names = {"plural": framework.plural, "singular": framework.singular, "kind": framework.kind}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{framework.plural}.{framework.group}"},
        "spec": {"group": framework.group, "scope": "Namespaced", "names": names, "versions": versions},
    }


def run_trial(
    poisons: Sequence[Poison],
    healthy_jobs: int,
    *,
    frameworks: Sequence[Framework] = FRAMEWORKS,
    seed: int = 1,
    rate: float = 5.0,
    limit: float = 600.0,
) -> Trial:
    """Submit `healthy_jobs` of `frameworks` in turn, `rate` a second, and `poisons` evenly spread among them.

    Returns when all jobs have come to their ends and nothing has happened for two minutes, or after `limit` seconds more.
    """
    with asyncio.Runner(loop_factory=CpuTimeLoop) as runner:
        return runner.run(_trial(poisons, healthy_jobs, frameworks, seed, rate, limit))


async def _trial(
    poisons: Sequence[Poison], healthy_jobs: int, frameworks: Sequence[Framework], seed: int, rate: float, limit: float
) -> Trial:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, CpuTimeLoop)
    ground = _Field(loop, frameworks, seed)
    shuffled = list(poisons)
    Random(seed).shuffle(shuffled)  # noqa: S311  reproducibility is the point
    trial, began = ground.trial, time.process_time()
    world = asyncio.create_task(ground.controllers.run())
    operators = asyncio.create_task(ground.manager.run())
    try:
        await ground.clock.sleep(1.0)
        await _submit(ground, frameworks, shuffled, healthy_jobs, rate)
        due = loop.time() + limit
        while not ground.settled() and loop.time() < due and not operators.done() and not world.done():
            await ground.clock.sleep(1.0)
        before = sum(course.syncs for course in trial.courses.values())
        await ground.clock.sleep(REST)
        trial.syncs_at_rest = sum(course.syncs for course in trial.courses.values()) - before
        trial.errors += [f"a task ended: {task.exception()!r}" for task in (world, operators) if task.done()]
        ground.manager.stop()
        await operators
    finally:
        for task in (world, operators):
            task.cancel()
        await asyncio.gather(world, operators, return_exceptions=True)
    trial.log = ground.log.getvalue()
    trial.surplus_runs = sum(count - 1 for count in ground.kubelet.runs.values())
    trial.cpu = time.process_time() - began
    return trial


async def _submit(
    ground: _Field, frameworks: Sequence[Framework], poisons: Sequence[Poison], healthy_jobs: int, rate: float
) -> None:
    """Jobs arrive at a steady pace, the poison between the healthy ones and on top of them."""
    began, total = ground.clock.monotonic(), max(healthy_jobs, len(poisons))
    numbers = itertools.count()
    for turn in range(total):
        await ground.clock.sleep_until(began + turn / rate)
        for poison in poisons[len(poisons) * turn // total : len(poisons) * (turn + 1) // total]:
            number = next(numbers)
            with ground.loop.elsewhere():
                ground.submit(poison.framework, poison.job(f"p{number}", f"team-{number % NAMESPACES}"), poison)
        if healthy_jobs * turn // total < healthy_jobs * (turn + 1) // total:
            number = healthy_jobs * turn // total
            framework = frameworks[number % len(frameworks)]
            manifest = healthy(framework, f"h{number}", f"team-{number % NAMESPACES}", HEALTHY[framework.kind])
            with ground.loop.elsewhere():
                ground.submit(framework, manifest)


__all__ = ["Course", "Trial", "run_trial"]
