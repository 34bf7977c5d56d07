"""``make soak``: jobs of all kinds and fates come and go at a steady rate beside many finished ones, through restarts."""

import asyncio
import sys
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median
from time import monotonic

import msgspec

from benchmarks.kubelet import FAILED, FATE, PERMANENT, RUNNING, SUCCEEDED, JobPods, Kubelet, kubelet
from benchmarks.operator_process import Operator, operator
from benchmarks.processes import Server, cluster, prepare
from benchmarks.report import MB, Goal, p99, table
from benchmarks.sending import CONCURRENCY, send
from benchmarks.watching import JobWatch, job_watch
from benchmarks.workloads import Manifest
from jobcommon.client.objects import collection_path, object_path
from jobcommon.client.request import MERGE_PATCH, Request, Transport
from jobcommon.framework import Framework
from jobcommon.operators.jax import JAX
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.paddle import PADDLE
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.operators.xgboost import XGBOOST
from jobcommon.testutil.builders import finished_status, job_manifest, replica_spec, template

NAMESPACE = "default"
FRAMEWORKS = (TF, PYTORCH, MPI, MXNET, XGBOOST, PADDLE, JAX)
#: The replica that decides, before the workers that all but a JAXJob have beside it.
DECIDERS = {TF.kind: "Chief", MPI.kind: "Launcher", MXNET.kind: "Scheduler", JAX.kind: "Worker"}
#: The label by which the driver selects the jobs that come and go; the value is `CHURN` or `KEPT`.
LABEL, CHURN, KEPT = "benchmark.example.com/soak", "churn", "kept"
PATHS = [collection_path(f.api_version, f.plural, NAMESPACE) for f in FRAMEWORKS]
QUERY = (("labelSelector", f"{LABEL}={CHURN}"),)
#: The first window, the restarts, and four more windows.
WINDOWS = 6
SAMPLES = 240
#: A job that has not ended by then, restarts of everything included, hangs.
HANG_SECONDS = 180.0
_WRITES = ("POST", "PUT", "PATCH", "DELETE")
_FINAL = (SUCCEEDED, FAILED)
_RESUME = msgspec.json.encode({"spec": {"runPolicy": {"suspend": False}}})


class Fate(StrEnum):
    """What becomes of a job."""

    SUCCEEDS = "succeeds"
    RESTARTS = "fails once, retryably, then succeeds"
    FAILS = "fails for good"
    SUSPENDED = "is suspended, resumed, and succeeds"
    DELETED = "is deleted while it runs"


_ENDS = {Fate.RESTARTS: f"{FAILED},{SUCCEEDED}", Fate.FAILS: PERMANENT, Fate.DELETED: ""}
#: Of every eight jobs of a kind.
FATES = (
    Fate.SUCCEEDS, Fate.RESTARTS, Fate.SUCCEEDS, Fate.DELETED, Fate.SUCCEEDS, Fate.FAILS, Fate.SUCCEEDS, Fate.SUSPENDED,
)  # fmt: skip


@dataclass(frozen=True)
class SoakJob:
    """One job, of one replica of each type. Only the one that decides has the fate; the other runs until it is deleted."""

    framework: Framework
    name: str
    fate: Fate

    @classmethod
    def of(cls, number: int) -> "SoakJob":
        """The job with that number: the kinds take turns, and within a kind the fates."""
        count = len(FRAMEWORKS)
        return cls(FRAMEWORKS[number % count], f"churn-{number}", FATES[number // count % len(FATES)])

    @property
    def decider(self) -> str:
        """The type whose replica decides."""
        return DECIDERS.get(self.framework.kind, "Master")

    @property
    def pods(self) -> int:
        """The number of its replicas."""
        return len({self.decider, "Worker"})

    @property
    def path(self) -> str:
        """Where it is."""
        return object_path(self.framework.api_version, self.framework.plural, NAMESPACE, self.name)

    def manifest(self, label: str = CHURN) -> Manifest:
        """What the user submits."""
        fated = {**template(self.framework), "metadata": {"annotations": {FATE: _ENDS.get(self.fate, SUCCEEDED)}}}
        decides = replica_spec(self.framework, 1, "ExitCode", template=fated)
        # A launcher is run again whatever it ended with, as a batch Job's pod is.
        once = self.framework is MPI and self.fate is Fate.FAILS
        policy = {"cleanPodPolicy": "All", "backoffLimit": 0 if once else 3, "suspend": self.fate is Fate.SUSPENDED}
        replicas: dict[str, int | Manifest] = {"Worker": 1, self.decider: decides}
        job = job_manifest(self.framework, replicas, policy="ExitCode", run_policy=policy)
        return {**job, "metadata": {"name": self.name, "namespace": NAMESPACE, "labels": {LABEL: label}}}


@dataclass
class Soak:
    """The plan, and what came of it. Jobs were submitted from `start` to `end`."""

    minutes: float = 60.0
    rate: float = 20.0
    kept: int = 50_000
    ready: float = 0.0
    """Seconds until an operator beside the finished jobs had complete caches, and then until it had reconciled them all."""
    reconciled: float = 0.0
    writes: int = 0
    start: float = 0.0
    quiet_from: float = 0.0
    end: float = 0.0
    restarts: list[str] = field(default_factory=list)
    lives: list[tuple[float, float, float]] = field(default_factory=list)
    """Of each job that succeeded: when it was submitted; seconds until its pods were there, and from its end to its status."""
    ends: Counter[Fate] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    resident: list[tuple[float, int]] = field(default_factory=list)
    """When the operator had how many bytes of resident memory."""

    @property
    def window(self) -> float:
        """Seconds: ten minutes of an hour. The first and the last window are compared."""
        return self.minutes * 60 / WINDOWS

    def latencies(self, which: int) -> tuple[list[float], list[float]]:
        """Those of the jobs of the first window and of the last: 1 until the pods are created, 2 until the final status."""
        first = [life[which] for life in self.lives if life[0] < self.start + self.window]
        return first, [life[which] for life in self.lives if life[0] >= self.end - self.window]

    def memory(self) -> tuple[float, float]:
        """Resident memory in the first and in the last tenth of the time after the restarts."""
        sizes = [size for at, size in self.resident if self.quiet_from <= at <= self.end]
        tenth = max(1, len(sizes) // 10)
        return median(sizes[:tenth]), median(sizes[-tenth:])

    def text(self) -> str:
        """The table of figures, and the faults."""
        rows = [
            (f"cold start beside {self.kept:,} finished jobs",
             f"caches after {self.ready:.1f} s, all reconciled {self.reconciled:.1f} s later, {self.writes} writes"),
            (f"jobs in {self.minutes:g} minutes, {self.rate:g} submitted a second", f"{sum(self.ends.values()):,}"),
            *((f"… of which each {fate}", f"{count:,}") for fate, count in sorted(self.ends.items())),
            ("restarts, each with kill -9", ", ".join(self.restarts)),
            ("resident memory after the restarts", " → ".join(f"{size / MB:.1f} MB" for size in self.memory())),
        ]  # fmt: skip
        for which, what in ((1, "until the pods are created"), (2, "from the end to the final status")):
            each = (f"{median(times) * 1e3:.0f} / {p99(times) * 1e3:.0f} ms" for times in self.latencies(which))
            rows.append((f"latency {what}, p50 / p99, first {self.window:.0f} s → last", " → ".join(each)))
        return "\n".join([table(("what", "measured"), rows), *(f"FAULT {fault}" for fault in self.faults[:20])])

    def goals(self) -> Iterator[Goal]:
        """What was to be reached."""
        yield Goal("jobs that hung or ended otherwise than they should", len(self.faults), 0)
        first, last = self.memory()
        yield Goal("resident memory, last tenth over first tenth after the restarts", last / first, 1.05, "×")
        for which, what in ((1, "until the pods are created"), (2, "from the end to the final status")):
            before, after = map(median, self.latencies(which))
            yield Goal(f"latency {what}, last window over first: median", after / before, 1.1, "×")
        yield Goal(f"cold start beside {self.kept:,} finished jobs", self.ready + self.reconciled, 15.0, "s")
        yield Goal("cold start: writes", self.writes, 0)


async def run(kind: str, found: Soak) -> Soak:
    """The whole run. Raises envtest.StartError, and RuntimeError if the operator does not start or ends by itself."""
    async with cluster(kind, lasting=True) as server, server.connected() as users:
        _say(f"writing {found.kept:,} finished jobs …")
        await prepare(users, NAMESPACE)
        kept = [SoakJob(FRAMEWORKS[n % len(FRAMEWORKS)], f"kept-{n}", Fate.SUCCEEDS) for n in range(found.kept)]
        queue = iter(kept)
        await asyncio.gather(*(_finished(users, queue) for _ in range(CONCURRENCY)))
        _say("starting the operator …")
        start = monotonic()
        async with operator(str(server.kubeconfig)) as running:
            found.ready = monotonic() - start
            await running.reconciled(found.kept)
            found.reconciled = monotonic() - start - found.ready
            await running.idle()
            calls = await running.calls()
            found.writes = sum(calls[verb] for verb in _WRITES)
            async with kubelet(str(server.kubeconfig)) as agent, job_watch(users, PATHS, QUERY) as watch:
                await agent.ask("auto", NAMESPACE, RUNNING)
                _say(f"{found.rate:g} jobs a second for {found.minutes:g} minutes …")
                await _churn(found, Churn(users, agent, watch, deque(kept), found), running, server)
        return found


async def _finished(users: Transport, jobs: Iterator[SoakJob]) -> None:
    """Write jobs that have succeeded, each with a status after which the operator has nothing to do."""
    patch = msgspec.json.encode({"status": finished_status()})
    for job in jobs:
        body = msgspec.json.encode(job.manifest(KEPT))
        await send(users, Request("POST", job.path.rpartition("/")[0], body=body))
        await send(users, Request("PATCH", f"{job.path}/status", body=patch, content_type=MERGE_PATCH))


async def _churn(found: Soak, churn: "Churn", running: Operator, server: Server) -> None:
    found.start = monotonic()
    sampling = asyncio.create_task(_sample(found, running))
    restarting = asyncio.create_task(_restart(found, running, server))
    try:
        await churn.run()
        found.end = monotonic()
        await churn.finish()
        await restarting
    finally:
        sampling.cancel()
        restarting.cancel()
        await asyncio.gather(sampling, restarting, return_exceptions=True)


async def _sample(found: Soak, running: Operator) -> None:
    while True:
        found.resident.append((monotonic(), running.resident))
        await asyncio.sleep(found.minutes * 60 / SAMPLES)


async def _restart(found: Soak, running: Operator, server: Server) -> None:
    """In the second window: the operator before the server and after it; a third of the window is left to recover."""
    restarts: list[tuple[str, Callable[[], Awaitable[None]]]] = [
        ("operator", running.restart), ("API server", server.restart), ("operator", running.restart)
    ]  # fmt: skip
    await asyncio.sleep(found.window)
    for name, restart in restarts:
        begun = monotonic()
        _say(f"kill -9 of the {name} …")
        await restart()
        found.restarts.append(name)
        await asyncio.sleep(max(0.0, begun + found.window * 2 / 9 - monotonic()))
    # What was submitted meanwhile is worked off first.
    found.quiet_from = max(monotonic(), found.start + 2 * found.window) + found.window / 3


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Churn:
    """The users: they submit at a steady rate, suspend, resume and delete, and hold each end against the fate.

    `kept` are finished jobs, of which the oldest is deleted for each that ends.
    """

    def __init__(self, user: Transport, agent: Kubelet, watch: JobWatch, kept: deque[SoakJob], found: Soak) -> None:
        self._user, self._kubelet, self._watch, self._kept, self._found = user, agent, watch, kept, found
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Submit jobs for as long as planned."""
        start, rate = monotonic(), self._found.rate
        for number in range(int(rate * self._found.minutes * 60)):
            await asyncio.sleep(start + number / rate - monotonic())
            self.submit(SoakJob.of(number))

    def submit(self, job: SoakJob) -> None:
        """Submit a job."""
        task = asyncio.create_task(self._whole(job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finish(self) -> None:
        """Return once all jobs are over."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _whole(self, job: SoakJob) -> None:
        try:
            async with asyncio.timeout(HANG_SECONDS):
                await self._life(job)
        except TimeoutError:
            conditions = ", ".join(self._watch.conditions(job.name)) or "no condition"
            pods = await self._pods(job, over=False)
            text = f"was not over after {HANG_SECONDS:g} s: it has {conditions} and {pods.present} pods"
            self._found.faults.append(f"{job.framework.kind} {job.name}, which {job.fate}, {text}")
        except RuntimeError as error:
            self._found.faults.append(f"{job.framework.kind} {job.name}, which {job.fate}: {error}")
        else:
            self._found.ends[job.fate] += 1

    async def _life(self, job: SoakJob) -> None:
        start, end = monotonic(), FAILED if job.fate is Fate.FAILS else SUCCEEDED
        body = msgspec.json.encode(job.manifest())
        await send(self._user, Request("POST", job.path.rpartition("/")[0], body=body), 409, insist=True)
        if job.fate is Fate.SUSPENDED:
            await self._watch.until(job.name, lambda found: "Suspended" in (found or ()))
            await send(self._user, Request("PATCH", job.path, body=_RESUME, content_type=MERGE_PATCH), insist=True)
        if job.fate is Fate.DELETED:
            await self._watch.until(job.name, lambda found: "Running" in (found or ()))
            await self._delete(job)
            await self._watch.until(job.name, lambda found: found is None)
            self._judge(job, await self._pods(job))
            return
        ended = await self._watch.until(job.name, lambda found: any(one in _FINAL for one in found or ()))
        if end not in self._watch.conditions(job.name):
            raise RuntimeError(f"it ended as {', '.join(self._watch.conditions(job.name))}")
        pods = await self._pods(job)
        self._judge(job, pods)
        # An operator that is killed between the creations may find the deciding pod at its end; then there is no other one.
        if job.fate is Fate.SUCCEEDS and len(pods.appeared) >= job.pods:
            self._found.lives.append((start, max(pods.appeared) - start, ended - (pods.ended or ended)))
        self._kept.append(job)
        await self._delete(self._kept.popleft())

    async def _pods(self, job: SoakJob, *, over: bool = True) -> JobPods:
        return JobPods(**await self._kubelet.ask("job_pods", NAMESPACE, job.name, over))

    def _judge(self, job: SoakJob, pods: JobPods) -> None:
        if pods.fated != (2 if job.fate is Fate.RESTARTS else 1):
            text = f"{job.framework.kind} {job.name}, which {job.fate}: its first pod ran {pods.fated} times"
            self._found.faults.append(text)

    async def _delete(self, job: SoakJob) -> None:
        await send(self._user, Request("DELETE", job.path, (("propagationPolicy", "Background"),)), 404, insist=True)
