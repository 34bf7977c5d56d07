"""Leader election with real processes: replicas of `jobcommon operator`, each with a token of its own, before one API server
that keeps who wrote what and when.
"""

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from jobcommon.operators.pytorch import PYTORCH
from jobcommon.testutil.builders import job_manifest
from jobcommon.testutil.chaos.processes import Process
from jobcommon.testutil.embedded import InProcessTransport, install
from localcluster.apiserver import ADMIN, ApiServer, Env, serve
from localcluster.apiserver.questions import Replies
from localcluster.apiserver.users import User
from localcluster.cluster import background
from localcluster.controllers import Controllers
from localcluster.credentials import Credentials
from localcluster.kubeconfig import kubeconfig
from localcluster.request import Request, Response

CRASH_LIMIT, GRACEFUL_LIMIT = 24.0, 5.0
#: Seconds after the last renewal of its lease when the operator stops writing; a write in flight may take longer.
RENEW_DEADLINE, WRITE_TIMEOUT = 10.0, 4.0
JOBS = f"/apis/{PYTORCH.api_version}/namespaces/default/{PYTORCH.plural}"
SUBMIT_EVERY, HEAP = 0.2, 100
PATIENCE = 180.0
STAND_BY = 5.0
WORK_AFTERWARDS = 30


@dataclass(frozen=True)
class Write:
    """A write of a replica that the server has carried out: when, by monotonic time, whose, and on what.

    `holder`: of a write on the lease, whom it names; "" when it gives the lease back.
    """

    at: float
    replica: str
    method: str
    path: str
    holder: str | None = None

    @property
    def on_lease(self) -> bool:
        """Whether it is about the lease."""
        return "/leases" in self.path


class RecordingServer(ApiServer):
    """Keeps the successful writes of those who come with one of `replicas`' tokens."""

    def __init__(self, tokens: dict[str, User], replicas: dict[str, str]) -> None:
        super().__init__(Env.system(), tokens=tokens)
        self._replicas = replicas
        self.writes: list[Write] = []

    def handle(self, request: Request, user: User | None = None, replies: Replies | None = None) -> Response:
        """See `ApiServer.handle`."""
        response = super().handle(request, user, replies)
        replica = self._replicas.get(request.headers.get("authorization", "").removeprefix("Bearer "))
        if replica is not None and request.method != "GET" and response.status < 300:
            holder = json.loads(response.body)["spec"].get("holderIdentity", "") if "/leases" in request.path else None
            self.writes.append(Write(time.monotonic(), replica, request.method, request.path, holder))
        return response


@dataclass
class Arena:
    """An API server, replicas that may be started and ended, and a user who never stops submitting (suspended) jobs."""

    directory: Path
    marker: str
    server: RecordingServer
    kubeconfigs: dict[str, Path]
    replicas: dict[str, Process] = field(default_factory=dict)
    woken_at: float = 0.0

    async def start(self, *names: str) -> None:
        """Start replicas, again if they have ended."""
        for name in names:
            told = ("operator", "--kubeconfig", str(self.kubeconfigs[name]), "--framework", "pytorch", "--leader-elect")
            process = self.replicas.setdefault(
                name, Process(name, (*told, "--metrics-port", "-1"), self.directory / f"{name}.log", self.marker)
            )
            await process.start()

    @property
    def leader(self) -> str:
        """Who wrote the lease last."""
        return next((write.replica for write in reversed(self.server.writes) if write.on_lease), "")

    def work(self, *, by: str | None = None, not_by: str | None = None, since: float = 0.0) -> list[Write]:
        """The writes on anything but the lease."""
        return [
            w
            for w in self.server.writes
            if not w.on_lease and w.at >= since and by in (None, w.replica) and (not_by is None or w.replica != not_by)
        ]

    async def until_work(self, *, by: str | None = None, not_by: str | None = None, since: float = 0.0) -> Write:
        """The first such write. Raises TimeoutError."""
        async with asyncio.timeout(PATIENCE):
            while not (found := self.work(by=by, not_by=not_by, since=since)):  # noqa: ASYNC110  there is no event to wait for
                await asyncio.sleep(0.02)
        return found[0]

    async def until_settled(self) -> str:
        """The leader, once it works and the others have had time to see its lease and stand by. Raises TimeoutError."""
        await asyncio.sleep(STAND_BY)
        return (await self.until_work(since=time.monotonic())).replica

    async def sleeps(self, replica: str, seconds: float) -> list[Write]:
        """Pause `replica`; returns what it wrote under its old lease after that had expired.

        Returns after another replica has worked long enough to observe that. Raises TimeoutError.
        """
        paused_at = time.monotonic()
        self.replicas[replica].send(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        self.replicas[replica].send(signal.SIGCONT)
        self.woken_at = time.monotonic()
        async with asyncio.timeout(PATIENCE):
            while len(self.work(since=self.woken_at)) < WORK_AFTERWARDS:  # noqa: ASYNC110  there is no event to wait for
                await asyncio.sleep(0.02)
        return self.old_term_writes(replica, paused_at)

    async def until_led(self, *, not_by: str, since: float) -> float:
        """When another replica got the lease. Raises TimeoutError."""
        async with asyncio.timeout(PATIENCE):
            while not (found := self._leases(not_by, since)):  # noqa: ASYNC110  there is no event to wait for
                await asyncio.sleep(0.02)
        return found[0]

    def _leases(self, not_by: str, since: float) -> list[float]:
        return [w.at for w in self.server.writes if w.on_lease and w.replica != not_by and w.at >= since]

    def old_term_writes(self, replica: str, paused: float) -> list[Write]:
        """What a replica that was paused at `paused` has written later than its old lease allows.

        A lease that it acquired again begins another term.
        """
        renewals = [w.at for w in self.server.writes if w.replica == replica and w.on_lease]
        last = max((at for at in renewals if at <= paused), default=0.0)
        renewed = min((at for at in renewals if at > paused), default=float("inf"))
        late = self.work(by=replica, since=last + RENEW_DEADLINE + WRITE_TIMEOUT)
        return [write for write in late if write.at < renewed]


@asynccontextmanager
async def arena(directory: Path, marker: str, names: tuple[str, ...]) -> AsyncIterator[Arena]:
    """The server is up and its user submits; no replica is started yet. All of them are killed in the end."""
    credentials = Credentials.fresh()
    tokens = {f"token-of-{name}": name for name in names}
    server = RecordingServer(dict.fromkeys(tokens, ADMIN), tokens)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(background(Controllers(server).run()))
        context = credentials.certificate.server_context()
        running = await stack.enter_async_context(serve(server, ssl_context=context))
        await install(InProcessTransport(server), [PYTORCH])
        kubeconfigs = {}
        for token, name in tokens.items():
            kubeconfigs[name] = directory / f"{name}.kubeconfig"
            text = kubeconfig(f"https://127.0.0.1:{running.port}", token, credentials.certificate.pem, "default")
            kubeconfigs[name].write_text(text)
        await stack.enter_async_context(background(_submit(server)))
        ground = Arena(directory, marker, server, kubeconfigs)
        try:
            yield ground
        finally:
            for process in ground.replicas.values():
                if process.running is not None:
                    await process.kill()


async def _submit(server: ApiServer) -> None:
    """Work for the leader: each job costs it one status write, and no pod. The first leader finds a heap of it, so that it is
    in the midst of writing whenever it is stopped.
    """
    for number in count():
        manifest = job_manifest(PYTORCH, {"Master": 1}, name=f"j{number}", run_policy={"suspend": True})
        for name in ("uid", "resourceVersion", "generation", "creationTimestamp"):
            del manifest["metadata"][name]
        answer = server.handle(Request("POST", JOBS, body=json.dumps(manifest).encode()), ADMIN)
        assert answer.status == 201, answer.body
        await asyncio.sleep(SUBMIT_EVERY if number >= HEAP else 0)


@dataclass
class Takeovers:
    """Seconds until another replica had the lease, after a crash and after SIGTERM, and until it `worked` after that; and what
    leaders that had slept wrote too late.
    """

    crash: list[float] = field(default_factory=list)
    graceful: list[float] = field(default_factory=list)
    worked: list[float] = field(default_factory=list)
    late: list[Write] = field(default_factory=list)
    sleeps: int = 0
    broken: list[str] = field(default_factory=list)

    def faults(self) -> list[str]:
        """What took too long or was written too late."""
        return [
            *self.broken,
            *(f"took over {s:.1f} s after a crash" for s in self.crash if s > CRASH_LIMIT),
            *(f"took over {s:.1f} s after SIGTERM" for s in self.graceful if s > GRACEFUL_LIMIT),
            *(f"{w.replica} slept and then wrote {w.method} {w.path}" for w in self.late),
        ]


async def measure(directory: Path, marker: str, rounds: int, pause: float) -> Takeovers:
    """Crash, end and stop the leader of three replicas in turn, `rounds` times."""
    found = Takeovers()
    names = ("a", "b", "c")
    async with arena(directory, marker, names) as ground:
        await ground.start(*names)
        try:
            for _ in range(rounds):
                await _round(ground, found, pause)
        except TimeoutError:
            logs = "; ".join(process.log.read_text()[-200:] for process in ground.replicas.values())
            found.broken.append(f"no replica worked for {PATIENCE:.0f} s: {logs}")
    return found


async def _round(ground: Arena, found: Takeovers, pause: float) -> None:
    for number, times in ((signal.SIGKILL, found.crash), (signal.SIGTERM, found.graceful)):
        leader = await ground.until_settled()
        began = time.monotonic()
        ground.replicas[leader].send(number)
        led_at = await ground.until_led(not_by=leader, since=began)
        times.append(led_at - began)
        found.worked.append((await ground.until_work(not_by=leader, since=led_at)).at - led_at)
        await ground.replicas[leader].wait()
        await ground.start(leader)
    leader = await ground.until_settled()
    found.late += await ground.sleeps(leader, pause)
    found.sleeps += 1
