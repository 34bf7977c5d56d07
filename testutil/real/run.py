"""One row while it runs: its namespace, its operator, and all that was seen of its pods and its job."""

import asyncio
import json
import secrets
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from jobcommon.api.status import JobStatus, read_status
from jobcommon.client.list_watch import WatchedObject, list_and_watch
from jobcommon.client.request import MERGE_PATCH
from jobcommon.framework import Framework
from jobcommon.testutil.frameworks import path_of
from jobcommon.testutil.polling import polled
from jobcommon.testutil.real.cluster import OPERATOR, Cluster
from localcluster.client import ClientError, background
from localcluster.conformance import Program

Object = dict[str, Any]
JOB = "job"
#: Stand in manifests and commands for an image with a shell, of which a cluster has its own, and for the row's namespace.
IMAGE, NAMESPACE = "image-of-the-cluster", "namespace-of-the-row"
#: How long anything may take that a row waits for, on a busy machine.
PATIENCE = 120.0


class RowError(AssertionError):
    """The row did not come out as the table says."""


@dataclass
class Life:
    """One pod, by UID: every state of it that the watch brought."""

    states: list[Object] = field(default_factory=list)
    gone: bool = False

    @property
    def last(self) -> Object:
        return self.states[-1]

    @property
    def meta(self) -> Object:
        return dict(self.last["metadata"])

    @property
    def phase(self) -> str:
        return str(self.last.get("status", {}).get("phase"))

    @property
    def containers(self) -> list[Object]:
        """What is shown of its containers. The kubelet lists them by name."""
        return list(self.last.get("status", {}).get("containerStatuses") or ())

    @property
    def deleting(self) -> bool:
        return self.gone or "deletionTimestamp" in self.meta

    @property
    def runs(self) -> bool:
        """Whether all its containers run, and its deletion was not asked for."""
        running = [one for one in self.containers if one.get("started") and "running" in (one.get("state") or {})]
        return not self.deleting and bool(running) and running == self.containers

    @property
    def restarts(self) -> int:
        """How often one of its containers was started again."""
        return max((int(one.get("restartCount", 0)) for one in self.containers), default=0)

    @property
    def over(self) -> bool:
        """Whether its grace period is over: the kubelet's last DELETE, or a forced one, has come."""
        return self.gone or ("deletionTimestamp" in self.meta and not self.meta.get("deletionGracePeriodSeconds"))

    @property
    def end(self) -> str:
        """How it ended: phase, reason of the pod or its container, exit code, why it was disrupted, runs in place."""
        status, first = self.last.get("status") or {}, self.last["spec"]["containers"][0]["name"]
        main: Object = next((one for one in self.containers if one["name"] == first), {})
        ended = (main.get("state") or {}).get("terminated") or {}
        # Of a container these say no more than its exit code.
        reason = None if ended.get("reason") in ("Completed", "Error") else ended.get("reason")
        disruption: Object = next((c for c in status.get("conditions") or () if c["type"] == "DisruptionTarget"), {})
        restarts = main.get("restartCount")
        parts = (
            status.get("phase"), status.get("reason") or reason, ended.get("exitCode"), disruption.get("reason"),
            f"x{restarts + 1}" if restarts else None,
        )  # fmt: skip
        return " ".join(str(part) for part in parts if part is not None)

    @property
    def order(self) -> tuple[str, ...]:
        """Its states as steps, each once: phase, whether its deletion was asked for, and whether its time is over."""
        steps: list[str] = []
        for state in self.states:
            meta = state["metadata"]
            step = str((state.get("status") or {}).get("phase"))
            if "deletionTimestamp" in meta:
                step += ", deleting" if meta.get("deletionGracePeriodSeconds") else ", over"
            if steps[-1:] != [step]:
                steps.append(step)
        return tuple(steps)


class Run:
    """What steps act on. ``async with Run(…)`` has a namespace and follows it; the operator is started by a step."""

    def __init__(self, cluster: Cluster, framework: Framework, version: str = "") -> None:
        self.cluster, self.framework, self.api = cluster, framework, cluster.api
        self.namespace = f"real-{secrets.token_hex(4)}"
        self.lives: dict[str, list[Life]] = {}
        self.job: Object | None = None
        self.operators: list[Program] = []
        self.stack = AsyncExitStack()
        self._changed = asyncio.Event()
        self._version = version

    @property
    def status(self) -> JobStatus:
        """The job's status as last seen."""
        return read_status((self.job or {}).get("status"))

    @property
    def state(self) -> str:
        """The job's last condition, if it holds."""
        last = self.status.conditions[-1:]
        return last[0].type if last and last[0].is_true else ""

    def path(self, *parts: str) -> str:
        """The path of objects of core/v1 in the row's namespace, of one of them, or of its subresource; its own without any."""
        return "/".join((f"/api/v1/namespaces/{self.namespace}", *parts))

    def job_path(self, name: str = JOB) -> str:
        """The path of the job, or of all with the name ""."""
        return path_of(self.framework, name, self.namespace, self._version)

    async def __aenter__(self) -> Self:
        await self.stack.__aenter__()
        await self.api.call("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        # A pod is refused until its namespace has this.
        await self.eventually(lambda: self.api.get(self.path("serviceaccounts", "default")), "a service account")
        await self.stack.enter_async_context(background(self._follow(self.path("pods"), self._see_pod)))
        await self.stack.enter_async_context(background(self._follow(self.job_path(""), self._see_job)))
        return self

    async def __aexit__(self, *_: object) -> None:
        for operator in self.operators:
            await operator.kill()
        await self.stack.aclose()
        # What a row that broke off leaves behind goes without an operator: nothing of it is to run on.
        with suppress(ClientError):
            if await self.api.get(self.path()) is not None:
                await self.api.call("DELETE", self.path())
                await self.release("")

    async def release(self, prefix: str) -> None:
        """Take the finalizers off all pods that have one whose name begins so."""
        for pod in (await self.api.call("GET", self.path("pods")))["items"]:
            if any(name.startswith(prefix) for name in pod["metadata"].get("finalizers") or ()):
                path = self.path("pods", pod["metadata"]["name"])
                await self.api.call("PATCH", path, {"metadata": {"finalizers": None}}, MERGE_PATCH)

    async def _follow(self, path: str, see: Callable[[WatchedObject], None]) -> None:
        async with aclosing(list_and_watch(self.cluster.transport, path)) as states:
            async for seen in states:
                see(seen)
                self._changed.set()

    def _see_pod(self, seen: WatchedObject) -> None:
        lives = self.lives.setdefault(seen.body["metadata"]["name"].removeprefix(f"{JOB}-"), [])
        life = next((one for one in lives if one.meta["uid"] == seen.body["metadata"]["uid"]), None)
        if life is None:
            lives.append(life := Life())
        life.states.append(seen.body)
        life.gone = seen.deleted

    def _see_job(self, seen: WatchedObject) -> None:
        self.job = seen.body

    def life(self, pod: str) -> Life | None:
        """The newest pod of that name, such as ``worker-0``."""
        lives = self.lives.get(pod)
        return lives[-1] if lives else None

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        """Return once `holds`. Raises RowError when it does not in time."""
        try:
            async with asyncio.timeout(PATIENCE):
                while not holds():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise RowError(f"waited {PATIENCE:.0f} s for: {what}; {self}") from None

    async def eventually(self, ask: Callable[[], Any], what: str) -> Any:
        """What `ask` answers, once that is something. Raises RowError when it does not in time."""
        try:
            return await polled(ask, seconds=PATIENCE, retry_on=ClientError)
        except TimeoutError as error:
            raise RowError(f"waited for: {what}; {error}; {self}") from None

    def filled(self, text: str) -> str:
        """The text with the cluster's image and the row's namespace."""
        return text.replace(IMAGE, self.cluster.image).replace(NAMESPACE, self.namespace)

    async def create(self, path: str, body: Object) -> None:
        """Create an object."""
        await self.api.call("POST", path, json.loads(self.filled(json.dumps(body))))

    async def patch_pod(self, pod: str, body: Object) -> None:
        """Patch the newest pod of that name."""
        await self.api.call("PATCH", self.path("pods", f"{JOB}-{pod}"), body, MERGE_PATCH)

    async def start_operator(self, *arguments: str) -> None:
        """An operator of this row's own, for this row's namespace."""
        command = (
            "-m", "jobcommon.cli", "operator", "--kubeconfig", str(self.cluster.kubeconfig(OPERATOR)), "--namespace",
            self.namespace, "--framework", self.framework.name, "--metrics-port", "-1", "--log-level", "warning", *arguments,
        )  # fmt: skip
        directory = self.cluster.directory
        log = directory / f"{self.namespace}-{len(self.operators)}.log"
        self.operators.append(await self.stack.enter_async_context(Program(Path(sys.executable), directory, command, log)))

    async def events(self) -> set[str]:
        """The reasons of the events about the job."""
        found = (await self.api.call("GET", self.path("events")))["items"]
        return {event["reason"] for event in found if event["involvedObject"]["name"] == JOB}

    def __str__(self) -> str:
        """What is known, for a failure's message."""
        pods = {name: [life.end for life in lives] for name, lives in self.lives.items()}
        status = {key: value for key, value in self.status.to_json().items() if key in ("restarts", "disruptions")}
        conditions = [f"{c.type}={c.status} {c.reason}: {c.message}" for c in self.status.conditions[-2:]]
        logs = [line for one in self.operators for line in one.log.read_text(errors="replace").splitlines()[-2:]]
        return f"pods {pods}, status {status}, conditions {conditions}" + (f", operator {logs}" if logs else "")
