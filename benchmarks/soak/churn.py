"""The users of a long run: they submit at a steady rate, suspend, resume and delete, and hold each end against the fate."""

import asyncio
from collections import Counter, deque
from time import monotonic

import msgspec

from benchmarks.kubelet import JobPods, Kubelet
from benchmarks.record import Life
from benchmarks.seeds import NAMESPACE
from benchmarks.sending import send
from benchmarks.soak.jobs import Fate, SoakJob
from benchmarks.watching import JobWatch
from jobcommon.client.objects import object_path
from jobcommon.client.request import MERGE_PATCH, Request, Transport
from jobcommon.framework import Framework

#: A job that has not ended by then, restarts of everything included, hangs.
HANG_SECONDS = 180.0
_RESUME = msgspec.json.encode({"spec": {"runPolicy": {"suspend": False}}})
_FINAL = ("Succeeded", "Failed")


class Churn:
    """Submits jobs; `kept` are finished ones, of which the oldest is deleted for each that ends."""

    def __init__(self, user: Transport, kubelet: Kubelet, watch: JobWatch, kept: deque[tuple[Framework, str]]) -> None:
        self._user = user
        self._kubelet = kubelet
        self._watch = watch
        self._kept = kept
        self._number = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.lives: list[Life] = []
        self.ends: Counter[Fate] = Counter()
        self.faults: list[str] = []

    async def run(self, rate: float, seconds: float) -> None:
        """Submit `rate` jobs a second for `seconds`."""
        start = monotonic()
        for number in range(int(rate * seconds)):
            await asyncio.sleep(start + number / rate - monotonic())
            self.submit()

    def submit(self) -> SoakJob:
        """Submit the next job."""
        job = SoakJob.of(self._number)
        self._number += 1
        task = asyncio.create_task(self._whole(job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return job

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
            pods = await self._kubelet.job_pods(NAMESPACE, job.name, over=False)
            text = f"was not over after {HANG_SECONDS:g} s: it has {conditions} and {pods.present} pods"
            self.faults.append(f"{job.framework.kind} {job.name}, which {job.fate}, {text}")
        except RuntimeError as error:
            self.faults.append(f"{job.framework.kind} {job.name}, which {job.fate}: {error}")
        else:
            self.ends[job.fate] += 1

    async def _life(self, job: SoakJob) -> None:
        framework, name = job.framework, job.name
        path = object_path(framework.api_version, framework.plural, NAMESPACE, name)
        start = monotonic()
        body = msgspec.json.encode(job.manifest())
        await send(self._user, Request("POST", path.rpartition("/")[0], body=body), 409, insist=True)
        submitted = monotonic() - start
        if job.fate is Fate.SUSPENDED:
            await self._watch.until(name, lambda found: "Suspended" in (found or ()))
            await send(self._user, Request("PATCH", path, body=_RESUME, content_type=MERGE_PATCH), insist=True)
        if job.fate is Fate.DELETED:
            await self._watch.until(name, lambda found: "Running" in (found or ()))
            await self._delete(framework, name)
            await self._watch.until(name, lambda found: found is None)
            self._judge(job, await self._kubelet.job_pods(NAMESPACE, name))
        else:
            ended = await self._watch.until(name, lambda found: any(one in _FINAL for one in found or ()))
            if job.end not in self._watch.conditions(name):
                raise RuntimeError(f"it ended as {', '.join(self._watch.conditions(name))}")
            pods = await self._kubelet.job_pods(NAMESPACE, name)
            self._judge(job, pods)
            # An operator that is killed between the creations may find the deciding pod at its end; then there is no other one.
            if job.fate is Fate.SUCCEEDS and len(pods.appeared) >= job.pods:
                settle = ended - (pods.ended or ended)
                self.lives.append(Life(start, submitted, max(pods.appeared) - start, settle))
            self._kept.append((framework, name))
            await self._delete(*self._kept.popleft())

    def _judge(self, job: SoakJob, pods: JobPods) -> None:
        starts, wanted = pods.fated, 2 if job.fate is Fate.RESTARTS else 1
        if starts != wanted:
            self.faults.append(f"{job.framework.kind} {job.name}, which {job.fate}: its first pod ran {starts} times")

    async def _delete(self, framework: Framework, name: str) -> None:
        path = object_path(framework.api_version, framework.plural, NAMESPACE, name)
        await send(self._user, Request("DELETE", path, (("propagationPolicy", "Background"),)), 404, insist=True)
