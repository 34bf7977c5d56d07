"""The user, and what users do: each helper gives a step's `do` or `when`.

Everything goes through the server's front door with the rights of an administrator.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from jobcommon.api import labels
from jobcommon.crd import custom_resource_definition
from jobcommon.framework import Framework
from jobcommon.testutil.sim.scenario import Scenario, UserStep
from localcluster import ApiServer
from localcluster import User as Identity
from localcluster.client import JSON, MASTERS, MERGE_PATCH, Request
from localcluster.model import Item

Obj = dict[str, Any]
Do = Callable[[ApiServer], None]
When = Callable[[ApiServer], bool]
Cue = Callable[[ApiServer, Mapping[str, int]], bool]
USER = Identity("user", (MASTERS,))
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RETRY_SECONDS = 1.0
NAMESPACE = "default"


class RefusedError(Exception):
    """The server did not do what the user asked for."""


class User:
    """Installs the kinds, creates the jobs, and then does the scenario's steps in turn. `done`: nothing is left to do."""

    def __init__(self, server: ApiServer, scenario: Scenario) -> None:
        self._server = server
        self._left = list(scenario.user)
        self._held_since: float | None = None
        self._retry_at = 0.0
        for framework in scenario.frameworks:
            install(server, framework)
        plurals = {framework.kind: framework.plural for framework in scenario.frameworks}
        for job in scenario.jobs:
            create_job(dict(job), plurals[job["kind"]])(server)

    @property
    def done(self) -> bool:
        """Whether all steps are done."""
        return not self._left

    def step(self) -> float | None:
        """Do what is due."""
        now = self._server.env.now()
        while self._left:
            due = self._due(self._left[0], now)
            if due is None or due > now:
                return due
            try:
                self._left[0].do(self._server)
            except RefusedError:
                self._retry_at = now + RETRY_SECONDS
                return self._retry_at
            self._left.pop(0)
            self._held_since = None
        return None

    def _due(self, step: UserStep, now: float) -> float | None:
        if self._held_since is None:
            if step.when is not None and not step.when(self._server):
                return None
            self._held_since = now
        return max(self._held_since + step.after, self._retry_at)


_definitions: dict[str, Obj] = {}


def definition_of(framework: Framework) -> Obj:
    """The CRD of a framework's kind, generated once: it costs more than a whole run."""
    if framework.kind not in _definitions:
        _definitions[framework.kind] = custom_resource_definition(framework)
    return _definitions[framework.kind]


def ask(server: ApiServer, method: str, path: str, body: Any = None, content_type: str = JSON) -> Obj:
    """One request as the user; the decoded answer. Raises RefusedError."""
    encoded = None if body is None else msgspec.json.encode(body)
    response = server.handle(Request(method, path, (), encoded, content_type), USER)
    if response.status >= 400:
        raise RefusedError(f"{method} {path}: {response.status} {response.body.decode(errors='replace')[:300]}")
    answer: Obj = msgspec.json.decode(response.body)
    return answer


def install(server: ApiServer, framework: Framework) -> None:
    """Install a framework's CRD unless it is there; making it takes long."""
    name = f"{framework.plural}.{framework.group}"
    if server.storage.table("customresourcedefinitions.apiextensions.k8s.io").get("", name) is None:
        ask(server, "POST", DEFINITIONS, definition_of(framework))


# -- what is done -----------------------------------------------------------------------------------------------------------


def path_of(of: Framework | str, name: str = "", namespace: str = NAMESPACE) -> str:
    """The path of a framework's jobs or of a plural of core/v1, or of one object among them."""
    root = f"/apis/{of.api_version}" if isinstance(of, Framework) else "/api/v1"
    plural = of.plural if isinstance(of, Framework) else of
    return f"{root}/namespaces/{namespace}/{plural}" + (f"/{name}" if name else "")


def create_job(manifest: Obj, plural: str) -> Do:
    """Create a job of the kind with that plural."""
    namespace = manifest["metadata"].get("namespace", NAMESPACE)
    return lambda server: _ignore(
        ask(server, "POST", f"/apis/{manifest['apiVersion']}/namespaces/{namespace}/{plural}", manifest)
    )


def run_policy(framework: Framework, name: str, **fields: Any) -> Do:
    """Change the run policy: ``suspend=True``."""
    patch = {"spec": {"runPolicy": fields}}
    return lambda server: _ignore(ask(server, "PATCH", path_of(framework, name), patch, MERGE_PATCH))


def scale(framework: Framework, name: str, kind: str, replicas: int) -> Do:
    """Change the number of replicas of a type."""
    patch = {"spec": {framework.replica_specs: {kind: {"replicas": replicas}}}}
    return lambda server: _ignore(ask(server, "PATCH", path_of(framework, name), patch, MERGE_PATCH))


def delete(of: Framework | str, name: str) -> Do:
    """Delete an object; one that is not there is deleted already."""

    def do(server: ApiServer) -> None:
        table = f"{of.plural}.{of.group}" if isinstance(of, Framework) else of
        if server.storage.table(table).get(NAMESPACE, name) is not None:
            ask(server, "DELETE", path_of(of, name))

    return do


def _ignore(_answer: Obj) -> None:
    """What the server answers is of no interest."""


# -- what is waited for ------------------------------------------------------------------------------------------------------


def job_of(server: ApiServer, framework: Framework, name: str) -> Item | None:
    """The stored job."""
    return server.storage.table(f"{framework.plural}.{framework.group}").get(NAMESPACE, name)


def phase(pod: str, *phases: str) -> When:
    """Whether the pod is in one of these phases."""

    def when(server: ApiServer) -> bool:
        found = server.storage.table("pods").get(NAMESPACE, pod)
        return found is not None and (found.obj.get("status") or {}).get("phase") in phases

    return when


def running(*pods: str) -> When:
    """Whether all of these pods run."""
    wanted = [phase(pod, "Running") for pod in pods]
    return lambda server: all(when(server) for when in wanted)


def leaving(*pods: str) -> When:
    """Each of these pods is being deleted, or gone."""

    def holds(server: ApiServer) -> bool:
        found = [server.storage.table("pods").get(NAMESPACE, name) for name in pods]
        return all(pod is None or "deletionTimestamp" in pod.obj["metadata"] for pod in found)

    return holds


def gone(of: Framework | str, *names: str) -> When:
    """Whether none of these objects is there."""
    table = f"{of.plural}.{of.group}" if isinstance(of, Framework) else of
    return lambda server: all(server.storage.table(table).get(NAMESPACE, name) is None for name in names)


def sized(framework: Framework, name: str, kind: str, replicas: int, attempt: int, *pods: str) -> When:
    """Whether that attempt or a later one has that size, and these of its pods run."""

    def when(server: ApiServer) -> bool:
        job = job_of(server, framework, name)
        status = (job.obj.get("status") or {}) if job is not None else {}
        present, size = status.get("attempt") or 0, (status.get("attemptReplicas") or {}).get(kind)
        found = [server.storage.table("pods").get(NAMESPACE, pod) for pod in pods]
        begun = all(pod is not None and main_runs(pod) and attempt_of(pod) == present for pod in found)
        return begun and present >= attempt and size == replicas

    return when


# -- what containers wait for ------------------------------------------------------------------------------------------------


def peers(*pods: str) -> Cue:
    """All of these pods run: the rendezvous of a training job."""
    ready = running(*pods)
    return lambda server, _runs: ready(server)


# -- how pods have ended -----------------------------------------------------------------------------------------------------


def phase_of(pod: Item) -> str:
    """The pod's phase."""
    return str((pod.obj.get("status") or {}).get("phase") or "Pending")


def failed_runs(pod: Item) -> int:
    """The runs of the main container, and of init containers but sidecars, that did not succeed."""
    status, spec = pod.obj.get("status") or {}, pod.obj["spec"]
    sidecars = {one["name"] for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"}
    main = spec["containers"][0]["name"]
    counted = [one for one in status.get("containerStatuses") or () if one["name"] == main]
    counted += [one for one in status.get("initContainerStatuses") or () if one["name"] not in sidecars]
    codes = [((one.get("state") or {}).get("terminated") or {}).get("exitCode") for one in counted]
    runs = sum(int(one.get("restartCount", 0)) for one in counted) + sum(bool(code) for code in codes)
    return runs or int(phase_of(pod) == "Failed")


def main_failed(pod: Item) -> bool:
    """Whether the main container has failed and the kubelet will not start it again."""
    statuses = (pod.obj.get("status") or {}).get("containerStatuses") or ()
    main = pod.obj["spec"]["containers"][0]["name"]
    codes = [((one.get("state") or {}).get("terminated") or {}).get("exitCode") for one in statuses if one["name"] == main]
    return pod.obj["spec"].get("restartPolicy") == "Never" and any(codes)


def main_runs(pod: Item) -> bool:
    """Whether the main program runs, as far as the store tells. A grace of zero says that it does not: its node is gone."""
    if pod.obj["metadata"].get("deletionGracePeriodSeconds") == 0:
        return False
    main = pod.obj["spec"]["containers"][0]["name"]
    statuses = (pod.obj.get("status") or {}).get("containerStatuses") or ()
    return any("running" in (one.get("state") or {}) for one in statuses if one["name"] == main)


def attempt_of(pod: Item) -> int:
    """The attempt of its job that a pod belongs to."""
    return int((pod.obj["metadata"].get("annotations") or {}).get(labels.ATTEMPT, 0))


def size_of(pod: Item) -> str:
    """The size of its job that the pod's program knows of; "" if it has none."""
    return str((pod.obj["metadata"].get("annotations") or {}).get(labels.SIZE, ""))
