"""A scenario: which jobs there are, how their programs end, and what their user does. The simulator runs it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from jobcommon.crd import custom_resource_definition
from jobcommon.framework import Framework
from jobcommon.runtime.settings import Settings
from jobcommon.testutil.cluster_model import ClusterModel
from jobcommon.testutil.frameworks import path_of
from localcluster import ApiServer
from localcluster.client import ADMIN, JSON, MERGE_PATCH, Request

Manifest = dict[str, Any]
When = Callable[[ClusterModel], bool]
Do = Callable[[ApiServer], object]
SETTINGS = Settings(metrics_port=None, log_level="critical")
"""No server of the operator's own, and nothing but disasters in the log."""
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Exit:
    """How one run of a program ends: with `code`, five seconds after its start or, with a `cue`, after that holds of its job.

    Without a code it runs until it is stopped.
    """

    code: int | None = None
    message: str = ""
    cue: When | None = None


FOREVER, DONE = (Exit(),), (Exit(0),)


@dataclass(frozen=True, slots=True)
class UserStep:
    """One thing that the user does, once: `after` seconds since `when` held of a job. Tried again if it is refused."""

    do: Do
    when: When | None = None
    after: float = 0.0


@dataclass(frozen=True)
class Scenario:
    """One cluster and its users, for the operators to run in.

    `jobs` are created at the beginning. `behaviour` maps a pattern of pod names (fnmatch) to what the n-th run of the main
    program does, counted over all pods of that name of the same job; the last entry repeats, and what no pattern names runs
    without end.
    """

    frameworks: tuple[Framework, ...]
    jobs: tuple[Mapping[str, Any], ...]
    behaviour: Mapping[str, Sequence[Exit]] = field(default_factory=dict)
    user: tuple[UserStep, ...] = ()
    horizon: float = 3600.0
    """Virtual seconds in which the fault-free run comes to rest."""
    settings: Settings = SETTINGS


# -- what a user does, through the server's front door ----------------------------------------------------------------------


class RefusedError(Exception):
    """The server did not do what the user asked for."""


def ask(server: ApiServer, method: str, path: str, body: Any = None, content_type: str = JSON) -> Any:
    """One request; the decoded answer. Raises RefusedError."""
    encoded = None if body is None else msgspec.json.encode(body)
    response = server.handle(Request(method, path, (), encoded, content_type), ADMIN)
    if response.status >= 400:
        raise RefusedError(f"{method} {path}: {response.status} {response.body.decode(errors='replace')[:300]}")
    return msgspec.json.decode(response.body)


def change(framework: Framework, name: str, **spec: Any) -> Do:
    """Change the spec of a job: ``runPolicy={"suspend": True}``."""
    return lambda server: ask(server, "PATCH", path_of(framework, name), {"spec": spec}, MERGE_PATCH)


_definitions: dict[str, Manifest] = {}


def definition_of(framework: Framework) -> Manifest:
    """The CRD of a framework's kind, generated once: it costs more than a whole run."""
    if framework.kind not in _definitions:
        _definitions[framework.kind] = custom_resource_definition(framework)
    return _definitions[framework.kind]


class User:
    """Installs the kinds, creates the jobs, and then does the scenario's steps in turn. `due`: when something is due again."""

    def __init__(self, server: ApiServer, scenario: Scenario, jobs: Callable[[], Iterable[ClusterModel]]) -> None:
        self.due: float | None = None
        self._server, self._left, self._jobs = server, list(scenario.user), jobs
        self._not_before: float | None = None
        kinds = {framework.kind: framework for framework in scenario.frameworks}
        for framework in kinds.values():
            ask(server, "POST", DEFINITIONS, definition_of(framework))
        for job in scenario.jobs:
            ask(server, "POST", path_of(kinds[job["kind"]]), job)

    @property
    def done(self) -> bool:
        """Whether all steps are done."""
        return not self._left

    def step(self) -> float | None:
        """Do what is due."""
        now, self.due = self._server.env.now(), None
        while self._left:
            step = self._left[0]
            if self._not_before is None and (step.when is None or any(map(step.when, self._jobs()))):
                self._not_before = now + step.after
            if self._not_before is None or now < self._not_before:
                self.due = self._not_before
                break
            try:
                step.do(self._server)
            except RefusedError:
                self._not_before = self.due = now + RETRY_SECONDS
                break
            self._not_before = None
            self._left.pop(0)
        return self.due
