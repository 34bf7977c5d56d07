"""Plans in the manner of Sieve (OSDI'22): a controller's view of the cluster is perturbed at points that its trace suggests.

A fault-free run is recorded; from its history follow plans of three patterns, each a run of its own (reliability.md, 5.5):

* intermediate: the operator dies after each of its writes that changed something;
* stale: from an event N until after a later effect U of the operator, its view of N's resource is frozen, or a second
  operator whose whole view is frozen at N works beside it;
* unobserved: an event that a later one on the same object overwrites is never seen by itself: nothing comes between the two,
  or the watches break and a list shows the outcome.

Pruned are writes without effect, events that no operator watches, pairs that are not causally close, and plans that would
perturb the same view over the same time. What Sieve also does, serving a restarted controller an old list, cannot happen here:
the first list of every cache is a quorum read (`jobcommon.cache.informer`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from jobcommon.testutil.sim import campaign
from jobcommon.testutil.sim.campaign import Case, Tally, spread
from jobcommon.testutil.sim.faults import Fault
from jobcommon.testutil.sim.faulty_network import FROZEN
from jobcommon.testutil.sim.multi_job_scenarios import scenario_named
from jobcommon.testutil.sim.scenario import Scenario
from jobcommon.testutil.sim.simulation import Run, Simulation
from localcluster.apiserver.storage import ADDED, DELETED, Change

#: Effects this long after an event may be its doing; three times what the slowest of the networks takes.
CAUSAL_SECONDS = 6.0
#: How many of the latest events count as causes of an effect.
CAUSES = 3
#: How long a stale view lasts after the effect.
AFTERMATH_SECONDS = 20.0
#: Changes closer together than this reach the operator as one anyway.
COALESCED_SECONDS = 0.05
LONGEST_SECONDS = 120.0
_MOMENT = 0.0005
_OTHERS = ("pods", "services", "podgroups.scheduling.volcano.sh", "podgroups.scheduling.x-k8s.io")


@dataclass(frozen=True, slots=True)
class Event:
    """One change of the store. `effect`: an operator created the object or asked for its deletion."""

    at: float
    table: str
    name: str
    type: str
    ours: bool
    effect: bool

    @property
    def plural(self) -> str:
        """The resource in a watch's path."""
        return self.table.partition(".")[0]


@dataclass
class Plans:
    """The plans of one scenario: cases by pattern, and how many candidates there were before pruning."""

    cases: list[Case] = field(default_factory=list)
    kept: Counter[str] = field(default_factory=Counter)
    candidates: Counter[str] = field(default_factory=Counter)


def conduct(names: Sequence[str], seed: int, step: int, workers: int, *, until: float | None = None) -> Tally:
    """Run every `step`-th plan for these scenarios and print how many there were. `until`: monotonic seconds."""
    candidates, kept = Counter[str](), Counter[str]()
    cases: list[Case] = []
    for number, found in enumerate(spread(plans, ((name, seed) for name in names), workers, chunk=2)):
        candidates += found.candidates
        kept += found.kept
        cases += found.cases[number % step :: step]
    told = ", ".join(f"{kept[pattern]} {pattern} of {candidates[pattern]}" for pattern in candidates)
    print(f"sieve: {sum(kept.values())} plans for {len(names)} lifecycles after pruning: {told}; {len(cases)} of them are run")
    return campaign.conduct("sieve", cases, workers, until=until)


def record(scenario: Scenario, seed: int) -> tuple[Run, list[Event]]:
    """A fault-free run, and every change of what operators watch."""
    simulation = Simulation(scenario, seed, ())
    events: list[Event] = []
    tables = {*_OTHERS, *(f"{f.plural}.{f.group}" for f in scenario.frameworks)}
    see = simulation.watchdog.see

    def also(at: float, change: Change, writer: str) -> None:
        if change.table in tables:
            events.append(_event(at, change, ours=writer.startswith("operator")))
        see(at, change, writer)

    simulation.watchdog.see = also  # type: ignore[method-assign]
    return simulation.result(), events


def _event(at: float, change: Change, *, ours: bool) -> Event:
    marked = change.old is not None and "deletionTimestamp" in change.old.obj["metadata"]
    removed = change.type == DELETED or "deletionTimestamp" in change.item.obj["metadata"]
    effect = ours and (change.type == ADDED or (removed and not marked))
    return Event(at, change.table, change.item.name, change.type, ours, effect)


def plans(of: tuple[str, int]) -> Plans:
    """All plans for one scenario, given by name, and seed."""
    name, seed = of
    run, events = record(scenario_named(name), seed)
    found = Plans()
    for pattern, candidates, faults in (
        ("intermediate", len(run.trace), list(_intermediate(run, events))),
        ("stale", _pairs(events), list(_stale(events))),
        ("unobserved", len(events), list(_unobserved(events))),
    ):
        kept = dict.fromkeys(faults)
        found.candidates[pattern] += candidates
        found.kept[pattern] += len(kept)
        found.cases += [Case(name, seed, plan) for plan in kept]
    return found


def _intermediate(run: Run, events: Iterable[Event]) -> Iterator[tuple[Fault, ...]]:
    changed = {event.name for event in events if event.ours}
    known = {plural for event in events for plural in (event.plural,)}
    for write in run.trace:
        resource, _, rest = write.path.rpartition("/namespaces/")[2].partition("/")[2].partition("/")
        name = rest.partition("/")[0]
        watched = resource in known
        if 200 <= write.status < 300 and (write.method == "POST" or not watched or name in changed):
            yield (Fault("crash-after", write=write.index),)


def _pairs(events: list[Event]) -> int:
    """How many pairs of an event and a later effect there are at all."""
    effects = [number for number, event in enumerate(events) if event.effect]
    return sum(effects)


def _stale(events: list[Event]) -> Iterator[tuple[Fault, ...]]:
    for number, effect in enumerate(events):
        if not effect.effect:
            continue
        recent = [e for e in events[:number] if e.at >= effect.at - CAUSAL_SECONDS and e.at < effect.at]
        for cause in recent[-CAUSES:]:
            start = max(cause.at - _MOMENT, 0.0)
            seconds = round(min(effect.at - start + AFTERMATH_SECONDS, LONGEST_SECONDS))
            yield (_frozen(start, seconds, cause.plural),)
            if effect.type != ADDED:
                second = Fault("two-operators", at=0.0, seconds=effect.at + AFTERMATH_SECONDS + 10.0)
                yield (second, _frozen(start, seconds, "operator-1"))


def _unobserved(events: list[Event]) -> Iterator[tuple[Fault, ...]]:
    latest: dict[tuple[str, str], Event] = {}
    for event in events:
        before = latest.get((event.table, event.name))
        latest[event.table, event.name] = event
        if before is None or not COALESCED_SECONDS <= event.at - before.at <= LONGEST_SECONDS:
            continue
        start, seconds = max(before.at - _MOMENT, 0.0), round(event.at - before.at + 1.0, 1)
        yield (_frozen(start, seconds, before.plural),)
        if DELETED in (before.type, event.type) or before.effect:
            yield (Fault("missed-deletes", at=round(start, 4), seconds=seconds),)


def _frozen(start: float, seconds: float, whose: str) -> Fault:
    return Fault("watch-lag", at=round(start, 4), seconds=float(seconds), value=f"{FROZEN}:{whose}")
