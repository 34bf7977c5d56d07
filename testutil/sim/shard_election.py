"""Shards in the simulator: of three replicas that share the jobs one crashes, exits, is paused or cut off, or a third joins.

Promised: each shard of the replica is with another within 24 s of a crash and within 5 s of a graceful exit, and one that joins
has its share within 24 s; no job is written by a replica that does not hold its shard; at the end each has its share; and
the jobs end as without the disturbance.
"""

from random import Random

from jobcommon.localcluster.apiserver.storage import Change
from jobcommon.testutil.sim import campaign
from jobcommon.testutil.sim.campaign import Case, Verdict
from jobcommon.testutil.sim.differential import compare
from jobcommon.testutil.sim.election import CRASH_SECONDS, GRACEFUL_SECONDS, SLOW_SECONDS, Contest, Trial
from jobcommon.testutil.sim.election import EVENTS as OF_A_LEADER
from jobcommon.testutil.sim.multi_job_scenarios import scenario_named, with_shards
from jobcommon.testutil.sim.simulation import is_slow

SHARDS = 3
EVENTS = (*OF_A_LEADER, "join")
PREFIX = "shards-"
#: With two to four jobs each.
SCENARIOS = tuple(f"crowd-{number}" for number in (2, 7, 11, 12, 13, 14, 19, 23, 36, 45))


class ShardContest(Contest):
    """A run in which something befalls one of the replicas at a drawn moment."""

    def __init__(self, name: str, seed: int, event: str) -> None:
        self._awaited: dict[int, str] = {}
        """By shard, the replica that held it when it happened, until another does."""
        self._joined = ""
        super().__init__(scenario_named(name), seed, SHARDS - (event == "join"), event)

    def noticed(self, at: float, change: Change, writer: str) -> None:
        """Follow the shards of the victim, or those of the replica that joins."""
        del change, writer
        for shard, replica in [*self._awaited.items()]:
            if self._holders.get(shard, "") not in ("", replica):
                del self._awaited[shard]
                self.taken_over_at = at
        if self._joined and self._joined in self._holders.values():
            self._joined, self.taken_over_at = "", at

    @property
    def overdue(self) -> bool:
        """Whether a shard is still with the victim, or with no replica."""
        return bool(self._awaited) or self.taken_over_at is None

    @property
    def _holders(self) -> dict[int, str]:
        return self.shard_watch.holders if self.shard_watch is not None else {}

    async def begin(self) -> None:
        """Start the replicas, and let it happen."""
        for _ in range(self.replicas):
            self.start()
        random = Random(f"{self.run.seed}/shards")  # noqa: S311 - reproducibility is the point
        moment = random.uniform(1.0, 20.0)
        while self.loop.time() < moment or len([h for h in self._holders.values() if h]) < SHARDS:
            await self.sleep(0.1)
        self.befell_at = self.loop.time()
        if self.event == "join":
            self._joined = self.start().name
            self.run.recovered_at = self.befell_at + CRASH_SECONDS
            await self.sleep(2 * CRASH_SECONDS)
        else:
            self.victim = victim = random.choice([p for p in self.alive if p.name in self._holders.values()])
            self._awaited = {shard: victim.name for shard, holder in self._holders.items() if holder == victim.name}
            await self._befall(victim, random.uniform(20.0, 60.0))
            self.run.recovered_at = self.loop.time()
        self._compare_shares()

    def _compare_shares(self) -> None:
        """Judged when all have had the time to settle."""
        held = {process.name: sum(h == process.name for h in self._holders.values()) for process in self.alive}
        if min(held.values()) < SHARDS // len(held) or sum(held.values()) != SHARDS:
            self.problems.append(f"unfair: {held}")


def _scenario(seed: int) -> str:
    return SCENARIOS[seed // len(EVENTS) % len(SCENARIOS)]


def hold(seed: int) -> Trial:
    """The trial of one seed."""
    event, scenario = EVENTS[seed % len(EVENTS)], _scenario(seed)
    contest = ShardContest(with_shards(scenario, SHARDS), seed, event)
    run = contest.result()
    problems = [*contest.problems, *compare(campaign.reference(scenario, seed), run, contest.scenario)]
    bound = (GRACEFUL_SECONDS if event == "graceful" else CRASH_SECONDS) + SLOW_SECONDS * is_slow(seed)
    seconds = None if contest.taken_over_at is None else contest.taken_over_at - contest.befell_at
    if contest.overdue or seconds is None:
        problems.append("a shard was not taken over")
    elif seconds > bound:
        problems.append(f"taken over after {seconds:.1f} s, {bound:.0f} s allowed")
    name = f"{PREFIX}{event}"
    verdict = Verdict(Case(name, seed), tuple(problems), {}, len(run.trace), run.reads, run.jobs, run.history)
    return Trial(verdict, event, seconds)
