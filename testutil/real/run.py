"""One row while it runs: its namespace, its operator, and all that was seen of its pods and its job."""

import asyncio
import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, Self

from jobcommon.api.status import JobStatus, read_status
from jobcommon.client.list_watch import list_and_watch
from jobcommon.client.request import MERGE_PATCH
from jobcommon.framework import Framework
from jobcommon.testutil.polling import polled
from jobcommon.testutil.processes import Process
from jobcommon.testutil.real.cluster import OPERATOR, Cluster
from localcluster.client import Api, ClientError, background

Object = dict[str, Any]
JOB = "job"
#: Stands in manifests for an image with a shell; a cluster has its own.
IMAGE = "image-of-the-cluster"
#: How long anything may take that a row waits for, on a busy machine.
PATIENCE = 120.0
TERMINAL = ("Succeeded", "Failed")


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
    def over(self) -> bool:
        """Whether its grace period is over: the kubelet's last DELETE, or a forced one, has come."""
        meta = self.last["metadata"]
        return self.gone or ("deletionTimestamp" in meta and not meta.get("deletionGracePeriodSeconds"))

    @property
    def end(self) -> str:
        """How it ended: phase, reason of the pod or its container, exit code, why it was disrupted, runs in place."""
        status = self.last.get("status") or {}
        # The kubelet lists containers by name.
        first = self.last["spec"]["containers"][0]["name"]
        main: Object = next((one for one in status.get("containerStatuses") or () if one["name"] == first), {})
        ended = (main.get("state") or {}).get("terminated") or {}
        disruption: Object = next((c for c in status.get("conditions") or () if c["type"] == "DisruptionTarget"), {})
        restarts = main.get("restartCount")
        parts = (
            status.get("phase"), status.get("reason") or _told(ended), ended.get("exitCode"), disruption.get("reason"),
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
        self.cluster, self.framework = cluster, framework
        self.namespace = f"real-{secrets.token_hex(4)}"
        self.lives: dict[str, list[Life]] = {}
        self.job: Object | None = None
        self.jobs_gone = 0
        self.notes: dict[str, Any] = {}
        self.operators: list[Process] = []
        self.stack = AsyncExitStack()
        self._changed = asyncio.Event()
        self._by_uid: dict[str, Life] = {}
        self._version = version or framework.storage_version

    @property
    def api(self) -> Api:
        """The API server, as administrator."""
        return self.cluster.api

    @property
    def status(self) -> JobStatus:
        """The job's status as last seen."""
        return read_status((self.job or {}).get("status"))

    def path(self, plural: str, name: str = "", subresource: str = "") -> str:
        """The path of objects of core/v1 in the row's namespace."""
        parts = (f"/api/v1/namespaces/{self.namespace}/{plural}", name, subresource)
        return "/".join(part for part in parts if part)

    def job_path(self, name: str = JOB) -> str:
        """The path of the job, or of all with the name ""."""
        api_version = f"{self.framework.group}/{self._version}"
        path = f"/apis/{api_version}/namespaces/{self.namespace}/{self.framework.plural}"
        return f"{path}/{name}" if name else path

    async def __aenter__(self) -> Self:
        await self.stack.__aenter__()
        await self.api.call("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        # A pod is refused until its namespace has this.
        await self.eventually(lambda: self.api.get(self.path("serviceaccounts", "default")), "a service account")
        await self.stack.enter_async_context(background(self._follow_pods()))
        await self.stack.enter_async_context(background(self._follow_job()))
        return self

    async def __aexit__(self, *_: object) -> None:
        for process in self.operators:
            if process.running is not None:
                await process.kill()
        await self.stack.aclose()
        with suppress(ClientError):
            await self._abandon()

    async def _abandon(self) -> None:
        """What a row that broke off leaves behind goes without an operator: nothing of it is to run on."""
        path = f"/api/v1/namespaces/{self.namespace}"
        if await self.api.get(path) is None:
            return
        await self.api.call("DELETE", path)
        for pod in (await self.api.call("GET", self.path("pods")))["items"]:
            body = {"metadata": {"finalizers": None}}
            await self.api.call("PATCH", self.path("pods", pod["metadata"]["name"]), body, MERGE_PATCH)

    async def _follow_pods(self) -> None:
        async with aclosing(list_and_watch(self.cluster.transport, self.path("pods"))) as states:
            async for seen in states:
                meta = seen.body["metadata"]
                life = self._by_uid.get(meta["uid"])
                if life is None:
                    life = self._by_uid[meta["uid"]] = Life()
                    self.lives.setdefault(meta["name"].removeprefix(f"{JOB}-"), []).append(life)
                life.states.append(seen.body)
                life.gone = seen.deleted
                self._changed.set()

    async def _follow_job(self) -> None:
        async with aclosing(list_and_watch(self.cluster.transport, self.job_path(""))) as states:
            async for seen in states:
                self.job = seen.body
                self.jobs_gone += seen.deleted
                self._changed.set()

    def life(self, pod: str) -> Life | None:
        """The newest pod of that name, such as ``worker-0``."""
        lives = self.lives.get(pod)
        return lives[-1] if lives else None

    async def until(self, holds: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
        """Return once `holds`. Raises RowError when it does not in time."""
        try:
            async with asyncio.timeout(seconds):
                while not holds():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise RowError(f"waited {seconds:.0f} s for: {what}; {self.told()}") from None

    async def until_goes_on(self, holds: Callable[[], bool], what: str) -> None:
        """As `until`, for what a job that has ended does not do any more."""
        await self.until(lambda: holds() or self.status.finished, what)
        if not holds():
            raise RowError(f"the job ended before: {what}; {self.told()}")

    async def eventually(self, ask: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
        """What `ask` answers, once that is something. Raises RowError when it does not in time."""
        try:
            return await polled(ask, seconds=seconds, retry_on=ClientError)
        except TimeoutError as error:
            raise RowError(f"waited for: {what}; {error}; {self.told()}") from None

    async def create(self, path: str, body: Object) -> None:
        """Create an object, its containers with the cluster's image."""
        await self.api.call("POST", path, self.with_image(body))

    def with_image(self, body: Object) -> Object:
        """The object with the cluster's image."""
        found: Object = json.loads(json.dumps(body).replace(IMAGE, self.cluster.image))
        return found

    async def annotate(self, pod: str, name: str, value: str) -> None:
        """Put an annotation on the newest pod of that name."""
        body = {"metadata": {"annotations": {name: value}}}
        await self.api.call("PATCH", self.path("pods", f"{JOB}-{pod}"), body, MERGE_PATCH)

    async def merge_job(self, patch: Object) -> None:
        """Patch the job."""
        await self.api.call("PATCH", self.job_path(), patch, MERGE_PATCH)

    async def start_operator(self, *arguments: str) -> Process:
        """An operator of this row's own, for this row's namespace."""
        number = len(self.operators)
        told = (
            "operator", "--kubeconfig", str(self.cluster.kubeconfig(OPERATOR)), "--namespace", self.namespace,
            "--framework", self.framework.name, "--metrics-port", "-1", "--log-level", "warning", *arguments,
        )  # fmt: skip
        process = Process(f"operator-{number}", told, self.cluster.directory / f"{self.namespace}-{number}.log")
        self.operators.append(process)
        await process.start()
        return process

    async def events(self) -> list[Object]:
        """The events about the job."""
        found: list[Object] = (await self.api.call("GET", self.path("events")))["items"]
        return [event for event in found if event["involvedObject"]["name"] == JOB]

    def told(self) -> str:
        """What is known, for a failure's message."""
        pods = {name: [life.end for life in lives] for name, lives in self.lives.items()}
        status = {key: value for key, value in self.status.to_json().items() if key in ("restarts", "disruptions")}
        conditions = [f"{c.type}={c.status} {c.reason}: {c.message}" for c in self.status.conditions[-2:]]
        logs = [line for process in self.operators for line in _tail(process)]
        return f"pods {pods}, status {status}, conditions {conditions}" + (f", operator {logs}" if logs else "")


def _told(ended: Object) -> str | None:
    """The reason that a container's end has, where it tells more than the exit code."""
    reason = ended.get("reason")
    return None if reason in ("Completed", "Error") else reason


def _tail(process: Process) -> Iterator[str]:
    if process.log.exists():
        yield from process.log.read_text(errors="replace").splitlines()[-2:]
