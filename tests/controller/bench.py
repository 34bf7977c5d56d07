"""A JobController on a bench: the clock, the API server's version counter and its watch streams are in the test's hand."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from jobcommon.cache.step import Fetch, Sleep
from jobcommon.client.errors import ClientError, StatusError
from jobcommon.client.objects import encode
from jobcommon.client.request import Response
from jobcommon.controller.job_controller import JobController, Moment
from jobcommon.controller.result import ActionResult, Effect, Result, Work
from jobcommon.controller.telemetry import Telemetry
from jobcommon.framework import Framework
from jobcommon.reconcile.plan import Action, Create, Update
from jobcommon.testutil.builders import START, Manifest
from jobcommon.testutil.frameworks import TEST_JOB

Refuse = Callable[[Action], ClientError | None]


class Bench:
    """A controller; the lists of the `refused` resources are refused with these errors."""

    def __init__(self, framework: Framework = TEST_JOB, **refused: StatusError) -> None:
        self.controller = JobController(framework, random=lambda: 1.0)
        self.refused = refused
        self.now = 0.0
        self.version = 10

    @property
    def moment(self) -> Moment:
        return Moment(self.now, START + self.now)

    def sync(self) -> None:
        """Every cache gets its first, empty list, or is refused it."""
        for name in self.controller.informers:
            self.refuse(name, self.refused[name]) if name in self.refused else self.sync_one(name)

    def refuse(self, name: str, error: StatusError) -> None:
        informer = self.controller.informers[name]
        informer.next(self.now)
        informer.failed(error, self.now)

    def sync_one(self, name: str) -> None:
        """One cache gets its first, empty list, after a pause if it has failed."""
        informer = self.controller.informers[name]
        while isinstance(step := informer.next(self.now), Sleep):
            self.now = step.until
        assert isinstance(step, Fetch)
        self.listed(name)
        informer.next(self.now)

    def listed(self, name: str, *items: Manifest) -> None:
        """The API server answers a list."""
        document = {"metadata": {"resourceVersion": str(self.version)}, "items": items}
        self.controller.take(name, self.controller.informers[name].received(Response(200, encode(document)), self.now))

    def say(self, resource: str, kind: str, manifest: Manifest, *, version: int | None = None) -> None:
        """A watch event, at the next version or at that of a write."""
        self.version = max(self.version + 1, version or 0) if version is None else self.version
        metadata = {**manifest["metadata"], "resourceVersion": str(version or self.version)}
        self.line(resource, kind, {**manifest, "metadata": metadata})

    def bookmark(self, *resources: str) -> None:
        """Those caches, or all, are as new as the API server."""
        for resource in resources or self.controller.informers:
            self.line(resource, "BOOKMARK", {"metadata": {"resourceVersion": str(self.version)}})

    def line(self, resource: str, kind: str, document: Manifest) -> None:
        data = encode({"type": kind, "object": document})
        self.controller.take(resource, self.controller.informers[resource].line(data, self.now))

    def begin(self) -> Work | None:
        return self.controller.begin(self.moment)

    def work(self) -> Work:
        work = self.begin()
        assert work is not None
        return work

    def new(self, manifest: Manifest) -> Work:
        """A job appears: its first plan."""
        self.say(self.controller.framework.plural, "ADDED", manifest)
        return self.work()

    def changed(self, manifest: Manifest) -> Work:
        """The job has changed: its next plan."""
        self.say(self.controller.framework.plural, "MODIFIED", manifest)
        return self.work()

    def seen(self, work: Work) -> None:
        """Carry out the plan, and show what it has written."""
        first = self.version + 1
        self.finish(work)
        self.echo(work, first)

    def finish(self, work: Work, *, refuse: Refuse = lambda _: None, absent: bool = False, **result: Any) -> Telemetry:
        """Carry out the plan: every write is applied and gets the next version, unless it is refused."""
        outcomes = []
        for action in () if result.get("stale") else work.plan.actions:
            error = refuse(action)
            if error is not None:
                outcomes.append(ActionResult(action, Effect.REFUSED, error=error))
            elif absent:
                outcomes.append(ActionResult(action, Effect.NOT_FOUND))
            else:
                self.version += 1
                outcomes.append(ActionResult(action, Effect.APPLIED, str(self.version)))
        if work.plan.status is not None and not result:
            self.version += 1
            result.setdefault("status_version", str(self.version))
        return self.controller.finish(work, Result(tuple(outcomes), **result), self.moment)

    def echo(self, work: Work, report_version: int) -> None:
        """The watches show what `finish` has written; the first write got `report_version`."""
        for number, action in enumerate(work.plan.actions):
            if isinstance(action, Create):
                self.say(action.plural, "ADDED", created(action), version=report_version + number)
            elif isinstance(action, Update):
                self.say(action.plural, "MODIFIED", dict(action.manifest), version=report_version + number)
        if work.plan.status is not None and work.raw is not None:
            raw = {**work.raw, "status": work.plan.status.to_json()}
            self.say("testjobs", "MODIFIED", raw, version=report_version + len(work.plan.actions))

    def settle(self) -> list[Work]:
        """Carry out plans, and show what was written, until there is nothing to do."""
        done: list[Work] = []
        while (work := self.begin()) is not None and len(done) < 20:
            self.seen(work)
            done.append(work)
        return done


def created(action: Create) -> Manifest:
    manifest = deepcopy(dict(action.manifest))
    manifest["metadata"]["uid"] = f"uid-{action.name}"
    return manifest
