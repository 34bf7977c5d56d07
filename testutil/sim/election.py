"""Two replicas of an operator, of which the leader is stopped in the middle of its writes, so that it has some left to make.

No replica writes later than the renew deadline plus a write's time-out after its last renewal of the lease, or while another
one leads, and the jobs end as without the disturbance. How soon another one leads is held by `tests/properties/test_leader.py`.
"""

from collections.abc import Sequence
from dataclasses import replace

from jobcommon.client.transport import LEADER_TIMEOUTS
from jobcommon.testutil.sim import campaign
from jobcommon.testutil.sim.differential import compare
from jobcommon.testutil.sim.faults import Fault
from jobcommon.testutil.sim.lifecycles import LIFECYCLES
from jobcommon.testutil.sim.processes import Process
from jobcommon.testutil.sim.simulation import Simulation
from localcluster.model import Change

SCENARIO = "pytorch/L2-retryable-exit"
REPLICAS = 2
STOPPED_SECONDS = 40.0
TAKE_OVER_SECONDS = 24.0
RETURN = "return"
"""What befalls a leader that is cut off, and leads again when its successor has crashed."""


class Election(Simulation):
    """A run in which that befalls the leader: ``graceful`` (it exits), ``pause``, ``partition`` or `RETURN`."""

    def __init__(self, name: str, seed: int, event: str, faults: Sequence[Fault] = ()) -> None:
        scenario = LIFECYCLES[name]
        elected = replace(scenario, settings=replace(scenario.settings, leader_elect=True))
        super().__init__(elected, seed, faults)
        self._event = event
        self._befell_at = 0.0
        self._victim: Process | None = None
        self._problems: list[str] = []
        self._renewed: dict[str, float] = {}
        self._holder = ""

    def noticed(self, at: float, change: Change, writer: str) -> None:
        """Follow the lease, and hold each write against it."""
        if change.table == "leases.coordination.k8s.io":
            holder = str(change.item.obj["spec"].get("holderIdentity") or "").partition("_")[0]
            if holder:
                self._renewed[holder] = at
            self._holder = holder or self._holder
        elif writer.startswith("operator"):
            allowed = self._renewed.get(writer, -1.0) + self._write_seconds
            if at > allowed:
                self._problems.append(f"{writer} wrote {change.table}/{change.item.name} {at - allowed:.1f} s too late")
            if writer != self._holder:
                self._problems.append(f"{writer} wrote {change.table}/{change.item.name} while {self._holder} led")

    @property
    def _write_seconds(self) -> float:
        """How long after a renewal of the lease a write may be stored."""
        return self.deployment.settings.renew_deadline + LEADER_TIMEOUTS.sending

    async def begin(self) -> None:
        """Start the replicas, and let it happen."""
        for _ in range(REPLICAS):
            self.start()
        while len(self.network.trace) <= 1 + self.run.seed % 8:
            await self.sleep(0.002)
        self._victim, self._befell_at = self._leader(), self.loop.time()
        if self._victim is not None:
            await self._befall(self._victim)
        if self._event == RETURN and (successor := self._leader()) is not None:
            successor.crash()
            self.run.recovered_at = self.loop.time() + TAKE_OVER_SECONDS

    def _leader(self) -> Process | None:
        return next((process for process in self.alive if process.leads), None)

    async def _befall(self, victim: Process) -> None:
        if self._event == "graceful":
            victim.stop()
        elif self._event == "pause":
            self.loop.freeze(victim.name)
        else:
            self.network.isolated.add(victim.name)
            for stream in self.links.streams:
                stream.silent = stream.silent or stream.owner == victim.name
        self.run.recovered_at = self.loop.time() + STOPPED_SECONDS
        await self.sleep(STOPPED_SECONDS)
        self.loop.thaw(victim.name)
        self.network.isolated.clear()
        await self.sleep(TAKE_OVER_SECONDS)

    def problems(self) -> list[str]:
        """Run it, and say what was wrong."""
        scenario, run = LIFECYCLES[self.run.scenario], self.result()
        last = self._befell_at + self._write_seconds
        victim = self._victim.name if self._victim is not None and self._event != RETURN else ""
        late = [write for write in run.trace if write.writer == victim and write.at > last]
        found = [f"late-write: {w.method} {w.path} {w.at - self._befell_at:.1f} s after the last renewal" for w in late]
        return [*found, *self._problems, *compare(campaign.reference(scenario.name, run.seed), run, scenario)]
