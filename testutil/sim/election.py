"""Leader election in the simulator: two and three replicas, of which the leader crashes, exits, is paused or is partitioned.

Promised: another replica leads within 24 s of a crash and within 5 s of a graceful exit, no replica writes later than the
renew deadline plus a write's time-out after its last renewal of the lease, and the jobs end as without the disturbance.
"""

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from statistics import median

from jobcommon.client.transport import LEADER_TIMEOUTS
from jobcommon.testutil.sim import campaign
from jobcommon.testutil.sim.campaign import COMMAND, Case, Tally, Verdict
from jobcommon.testutil.sim.differential import compare
from jobcommon.testutil.sim.faults import Fault
from jobcommon.testutil.sim.lifecycles import LIFECYCLES
from jobcommon.testutil.sim.processes import Process
from jobcommon.testutil.sim.scenario import Scenario
from jobcommon.testutil.sim.simulation import Run, Simulation, is_slow
from localcluster.apiserver.storage import Change

CRASH_SECONDS = 24.0
GRACEFUL_SECONDS = 5.0
SLOW_SECONDS = 4.0
"""More, on a network on which a request takes up to a second: to release a lease and to get it takes four."""
EVENTS = ("crash", "graceful", "pause", "partition")
SCENARIO = "pytorch/L2-retryable-exit"


@dataclass(frozen=True)
class Trial:
    """The result of one trial; `seconds` until another replica led, None if none had to."""

    verdict: Verdict
    event: str
    seconds: float | None


class Contest(Simulation):
    """A run with several replicas in which something befalls the leader at a drawn moment."""

    def __init__(self, scenario: Scenario, seed: int, replicas: int, event: str, faults: Sequence[Fault] = ()) -> None:
        elected = replace(scenario, settings=replace(scenario.settings, leader_elect=True))
        super().__init__(elected, seed, faults)
        self.replicas = replicas
        self.event = event
        self.befell_at = 0.0
        self.victim: Process | None = None
        self.taken_over_at: float | None = None
        self.problems: list[str] = []
        self._renewed: dict[str, float] = {}
        self._holder = ""

    def noticed(self, at: float, change: Change, writer: str) -> None:
        """Follow the lease, and hold each write against it."""
        if change.table == "leases.coordination.k8s.io":
            holder = str(change.item.obj["spec"].get("holderIdentity") or "").partition("_")[0]
            if holder:
                self._renewed[holder] = at
            if self.victim is not None and holder and holder != self.victim.name and self.taken_over_at is None:
                self.taken_over_at = at
            self._holder = holder or self._holder
        elif writer.startswith("operator"):
            settings = self.deployment.settings
            allowed = self._renewed.get(writer, -1.0) + settings.renew_deadline + LEADER_TIMEOUTS.sending
            if at > allowed:
                self.problems.append(f"{writer} wrote {change.table}/{change.item.name} {at - allowed:.1f} s too late")
            if writer != self._holder:
                self.problems.append(f"{writer} wrote {change.table}/{change.item.name} while {self._holder} led")

    async def begin(self) -> None:
        """Start the replicas, and let it happen."""
        for _ in range(self.replicas):
            self.start()
        random = Random(f"{self.run.seed}/election")  # noqa: S311 - reproducibility is the point
        moment = random.uniform(1.0, 20.0)
        while self.loop.time() < moment or not self._leader():
            await self.sleep(0.1)
        self.victim, self.befell_at = self._leader(), self.loop.time()
        if self.victim is not None:
            await self._befall(self.victim, random.uniform(20.0, 60.0))

    def _leader(self) -> Process | None:
        return next((process for process in self.alive if process.leads), None)

    async def _befall(self, victim: Process, seconds: float) -> None:
        if self.event == "crash":
            victim.crash()
        elif self.event == "graceful":
            victim.stop()
        elif self.event == "pause":
            self.loop.freeze(victim.name)
        else:
            self.network.isolated.add(victim.name)
            for stream in self.links.streams:
                stream.silent = stream.silent or stream.owner == victim.name
        self.run.recovered_at = self.loop.time() + max(seconds, CRASH_SECONDS)
        await self.sleep(seconds)
        self.loop.thaw(victim.name)
        self.network.isolated.clear()
        await self.sleep(CRASH_SECONDS)


def hold(seed: int) -> Trial:
    """The trial of one seed."""
    event, replicas = EVENTS[seed % len(EVENTS)], 2 + seed // len(EVENTS) % 2
    name = f"election-{event}-{replicas}"
    contest = Contest(LIFECYCLES[SCENARIO], seed, replicas, event)
    run: Run = contest.result()
    expected = campaign.reference(SCENARIO, seed)
    problems = [*contest.problems, *compare(expected, run, LIFECYCLES[SCENARIO])]
    graceful = GRACEFUL_SECONDS + SLOW_SECONDS * is_slow(seed)
    bound = graceful if event == "graceful" else CRASH_SECONDS
    seconds = None if contest.taken_over_at is None else contest.taken_over_at - contest.befell_at
    if seconds is None:
        problems.append("no replica took over")
    elif seconds > bound:
        problems.append(f"taken over after {seconds:.1f} s, {bound:.0f} s allowed")
    verdict = Verdict(Case(name, seed), tuple(problems), {}, len(run.trace), run.reads, run.jobs, run.history)
    return Trial(verdict, event, seconds)


def conduct(seeds: Iterable[int], workers: int) -> Tally:
    """Hold the trials of all seeds; how long take-overs took is printed."""
    tally, started = Tally("leader election"), time.monotonic()
    times: dict[str, list[float]] = {}
    for trial in campaign.spread(hold, seeds, workers):
        tally.add(trial.verdict)
        if trial.seconds is not None:
            times.setdefault(trial.event, []).append(trial.seconds)
        if trial.verdict.problems:
            print(f"FAILED {trial.verdict.case.replay}", *trial.verdict.problems[:5], sep="\n    ")
    tally.seconds = time.monotonic() - started
    print(*_lines(times), sep="\n")
    return tally


def _lines(times: dict[str, list[float]]) -> Iterator[str]:
    for event, seconds in sorted(times.items()):
        shown = f"median {median(seconds):.1f} s, worst {max(seconds):.1f} s"
        yield f"  take-over after {event}: {len(seconds)} trials, {shown}"


def replay(seed: int) -> int:
    """Hold one trial again and print it."""
    trial = hold(seed)
    print(f"{COMMAND}: {trial.event}, {trial.seconds} s", *trial.verdict.problems, sep="\n", file=sys.stdout)
    return 1 if trial.verdict.problems else 0
