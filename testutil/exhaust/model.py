"""The model: one job of two replicas, one operator process at a time, and all that may happen next in each state.

A transition is one of these:

* the operator makes its next plan, or a timer fires first; nothing is written yet;
* the next request of the plan is performed; its answer arrives, or is lost; or the request never arrives;
* the operator crashes; a new one starts with empty memory and complete lists;
* a watch delivers its next event; at most `lag` events of a resource are on their way;
* a pod is scheduled, runs, exits, is restarted in place, is evicted, is stopped, is gone.

Two steps are one where nothing can come between them that makes a difference. An answer that does not end a plan reaches the
executor as soon as it is sent: only the next request depends on it, which may come at any time later. A plan without writes
is over when it is made.

The last answer reaches the controller as soon as it is sent, too. What may come before it can come after it as well, and both
orders lead to the same state: the cluster knows nothing of the controller's memory; a crash forgets both; and an event of
a watch lowers expectations, changes the caches and queues the job, while a result lowers expectations and raises the barrier,
reads of the caches only whether there is the job, and queues it. One difference is left: a back-off replaces a timer that an
event has set before it, but not one that is set after it. So the order that is kept allows what the other does, and that timer.
The order of steps is not reduced otherwise, nor is symmetry used: a master and a worker differ.
"""

import math
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import msgspec

from jobcommon.client.request import Request
from jobcommon.controller import Result
from jobcommon.testutil.exhaust.kubelet import PERMANENT, RETRYABLE, moves
from jobcommon.testutil.exhaust.objects import JOB, PODS, RESOURCES, Content, Interned, View
from jobcommon.testutil.exhaust.operator import LAPSE, UID, Cached, Flight, Memory, Operator
from jobcommon.testutil.exhaust.server import Answer, Effect, Server, collection
from jobcommon.testutil.sim.ends import Ends
from jobcommon.testutil.sim.job_templates import TORCH

T = TypeVar("T")

POLICIES = ("Never", "OnFailure", "Always", "ExitCode")


@dataclass(frozen=True)
class Bounds:
    """How much may happen in a run. `lag` is how many events of one resource a cache may be behind.

    `failures` and `evictions` are those of pods; `lost` counts requests and answers that are lost.
    """

    crashes: int = 1
    lost: int = 1
    lag: int = 2
    failures: int = 1
    evictions: int = 0
    backoff_limit: int = 1


@dataclass(frozen=True)
class Past:
    """What is left of the bounds, how many objects had each name, and how pods have ended."""

    crashes: int
    lost: int
    failures: int
    evictions: int
    created: tuple[tuple[str, int], ...] = ()
    ends: Ends = field(default_factory=Ends)


class Step(NamedTuple):
    """One transition. `fault`: a run that is left alone does not make it. `wrong`: what oracles say of it."""

    what: str
    about: str | Flight
    state: "State"
    fault: bool = False
    wrong: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """A transition of the cluster, for any memory of the operator."""

    what: str
    about: str
    cluster: int
    flight: int
    past: int
    fault: bool = False
    wrong: tuple[str, ...] = ()


State = tuple[int, int, int, int]
"""The numbers of: the views of the three resources, the operator's memory, the plan in flight, the past."""
_NONE = 0
"""The number of no memory (no operator runs), and of no plan in flight."""

Cluster = tuple[View, ...]


class Model:
    """The transition relation for one restart policy. States are tuples of numbers; `open` gives what they stand for.

    Each transition concerns some parts of a state only. What it makes of them is worked out once, then remembered (`_known`).
    The operator's steps concern what its caches show, not what the watches have yet to deliver.
    """

    def __init__(self, policy: str, bounds: Bounds) -> None:
        self.policy, self.bounds = policy, bounds
        self._server, self._operator = Server(), Operator()
        self._clusters, self._pasts = Interned[Cluster](), Interned[Past]()
        self._caches, self._shown = Interned[Cached](), array("q")
        self._events, self._renamings = Interned[tuple[str, Content]](), Interned[tuple[tuple[int, int], ...]]()
        self._memories, self._flights = Interned[Memory | None](), Interned[tuple[object, ...]]()
        self._memories.id(None)
        self._flights.id(())
        self._in_flight: list[Flight | None] = [None]
        self._over = bytearray(1)
        self._failing = (RETRYABLE, PERMANENT) if policy == "ExitCode" else (RETRYABLE,)
        self._known: dict[tuple[object, ...], Any] = {}

    # -- states --------------------------------------------------------------------------------------------------------

    def first(self) -> State:
        """The job was created, and an operator has listed it."""
        run = {"backoffLimit": self.bounds.backoff_limit, "cleanPodPolicy": "Running"}
        body = msgspec.json.encode(TORCH.job(self.policy, workers=1, run=run))
        empty = tuple(View(resource) for resource in range(len(RESOURCES)))
        effect = self._server.apply(empty, Request("POST", collection(JOB), body=body), "user", Ends(), UID)
        cluster = self._written(empty, effect.changes, observed=False)
        assert cluster is not None
        bounds = self.bounds
        past = Past(bounds.crashes, bounds.lost, bounds.failures, bounds.evictions)
        number = self._cluster(cluster)
        return number, self._started(self._shown[number]), _NONE, self._pasts.id(past)

    def open(self, state: State) -> tuple[Cluster, Memory | None, Flight | None, Past]:
        """What a state consists of."""
        cluster, memory, flight, past = state
        return self._clusters[cluster], self._memories[memory], self._in_flight[flight], self._pasts[past]

    def resynced(self, state: State) -> str:
        """The plan that is made when the job is queued once more; "" if that is none."""
        _, memory, _, _ = self.open(state)
        if memory is None:
            return ""
        _, flight = self._operator.planned(self._caches[self._shown[state[0]]], replace(memory, ready=True))
        return self._operator.plan(flight) if flight is not None else ""

    def close(self) -> None:
        """To be called when it is used no more."""
        self._operator.close()

    def text(self, step: Step) -> str:
        """A transition in words."""
        about = self._operator.plan(step.about) if isinstance(step.about, Flight) else step.about
        return f"{step.what}: {about}" if about else step.what

    def _cluster(self, views: Cluster) -> int:
        """The number of a cluster; `_shown` has that of what its caches show."""
        number = self._clusters.id(views)
        if number == len(self._shown):
            self._shown.append(self._caches.id(tuple([view.cached for view in views])))
        return number

    def _flight(self, flight: Flight) -> int:
        """The number of a plan in flight; those with the same future are the same."""
        number = self._flights.id(self._operator.essence(flight))
        if number == len(self._in_flight):
            self._in_flight.append(flight)
            self._over.append(isinstance(self._operator.next(flight), Result))
        return number

    def _once(self, work_out: Callable[..., T], *parts: int) -> T:
        """What a transition makes of some parts of a state."""
        key = (work_out.__name__, *parts)
        found: T | None = self._known.get(key)
        if found is None:
            found = self._known[key] = work_out(*parts)
        return found

    # -- transitions ---------------------------------------------------------------------------------------------------

    def steps(self, state: State) -> list[Step]:
        """All transitions from a state that lead to another one."""
        found = [step for step in self._steps(*state) if step.state != state or step.wrong]
        cluster, memory, flight, past = state
        if all(step.fault for step in found) and memory and not flight and self._is_due(memory, LAPSE, math.inf):
            found += [step for step in self._plan(cluster, memory, past) if step.state != state or step.wrong]
        return found

    def _steps(self, cluster: int, memory: int, flight: int, past: int) -> Iterator[Step]:
        shown = self._shown[cluster]
        if not memory:
            yield Step("operator", "starts", (cluster, self._once(self._started, shown), _NONE, past))
        elif not flight:
            if self._is_due(memory, 0.0, LAPSE):
                yield from self._plan(cluster, memory, past)
        else:
            for part in self._once(self._requested, cluster, flight, past):
                after, left = memory, part.flight
                if self._over[left]:
                    after, left = self._once(self._finished, shown, memory, left), _NONE
                yield Step(part.what, part.about, (part.cluster, after, left, part.past), part.fault, part.wrong)
        if memory:
            for what, about, after, event, renaming in self._once(self._delivered, cluster):
                took = self._once(self._took, shown, memory, event)
                moved = self._once(self._renumbered, flight, event, renaming) if flight else _NONE
                yield Step(what, about, (after, took, moved, past))
            if self._pasts[past].crashes:
                after, left = self._once(self._crashed, cluster, past)
                yield Step("operator", "crashes", (after, _NONE, _NONE, left), fault=True)
        for part in self._once(self._moved, cluster, past, int(bool(memory))):
            yield Step(part.what, part.about, (part.cluster, memory, flight, part.past), part.fault, part.wrong)

    def _is_due(self, number: int, earliest: float, before: float) -> bool:
        """Whether a plan can be made: the job is ready, or there is a timer in that span of seconds."""
        memory = self._memories[number]
        return memory is not None and (memory.ready or (memory.due is not None and earliest <= memory.due < before))

    # -- the operator --------------------------------------------------------------------------------------------------

    def _started(self, shown: int) -> int:
        return self._memories.id(self._operator.started(self._caches[shown]))

    def _crashed(self, cluster: int, past: int) -> tuple[int, int]:
        before = self._pasts[past]
        lists = tuple(view.relisted for view in self._clusters[cluster])
        return self._cluster(lists), self._pasts.id(replace(before, crashes=before.crashes - 1))

    def _plan(self, cluster: int, memory: int, past: int) -> Iterator[Step]:
        what, about, after, flight, wrong = self._once(self._planned, self._shown[cluster], memory)
        yield Step(what, about, (cluster, after, flight, past), wrong=wrong)

    def _planned(self, shown: int, number: int) -> tuple[str, str | Flight, int, int, tuple[str, ...]]:
        memory = self._memories[number]
        assert memory is not None
        after, flight = self._operator.planned(self._caches[shown], memory)
        wrong = tuple(f"lapsed: {expected}" for expected in self._operator.lapsed)
        what = "plan" if memory.ready else f"timer after {memory.due:g} s, plan"
        return what, flight or "nothing", self._memories.id(after), self._flight(flight) if flight else _NONE, wrong

    def _finished(self, shown: int, memory: int, flight: int) -> int:
        before, carried_out = self._memories[memory], self._in_flight[flight]
        assert before is not None
        assert carried_out is not None
        return self._memories.id(self._operator.finished(self._caches[shown], before, carried_out))

    # -- watches -------------------------------------------------------------------------------------------------------

    def _delivered(self, cluster: int) -> list[tuple[str, str, int, int, int]]:
        """For each watch that has an event to deliver: the cluster after it, the event, and the new numbers of versions."""
        before, found = self._clusters[cluster], []
        for view in before:
            if view.pending:
                (kind, content), (delivered, renamed) = view.pending[0], view.delivered
                after = self._cluster((*before[: view.resource], delivered, *before[view.resource + 1 :]))
                what, about = f"watch of {RESOURCES[view.resource]}", f"{kind} {content.name}"
                event, renaming = self._events.id((kind, content)), self._renamings.id(tuple(renamed.items()))
                found.append((what, about, after, event, renaming))
        return found

    def _took(self, shown: int, number: int, event: int) -> int:
        memory = self._memories[number]
        assert memory is not None
        return self._memories.id(self._operator.took(self._caches[shown], memory, self._events[event]))

    def _renumbered(self, flight: int, event: int, renaming: int) -> int:
        before = self._in_flight[flight]
        assert before is not None
        return self._flight(before.renumbered(self._events[event][1].resource, dict(self._renamings[renaming])))

    # -- the API server ------------------------------------------------------------------------------------------------

    def _requested(self, cluster: int, number: int, past_number: int) -> list[Part]:
        """What may become of the next request of a plan."""
        views, flight, past = self._clusters[cluster], self._in_flight[number], self._pasts[past_number]
        assert flight is not None
        request = self._operator.next(flight)
        assert isinstance(request, Request)
        uid, created = _created(request, past)
        effect = self._server.apply(views, request, "operator", past.ends, uid)
        what = f"{request.method} {request.path.rpartition('/namespaces/')[2]}"
        wrong = effect.violations
        if past.lost == self.bounds.lost and is_wasted(request, effect):
            wrong = (*wrong, f"wasted-write: {what} {effect.answer.status}")
        found = []
        if (after := self._written(views, effect.changes, observed=True)) is not None:
            done = replace(past, ends=effect.ends, created=created if effect.changes else past.created)
            for answer in (effect.answer, None) if past.lost else (effect.answer,):
                left = self._pasts.id(replace(done, lost=done.lost - (answer is None)))
                how = "the answer is lost" if answer is None else f"{effect.answer.status}"
                stored = self._cluster(after)
                next_ = self._answered(flight, answer)
                found.append(Part(what, how, stored, next_, left, answer is None, wrong))
        if past.lost and request.method != "GET":
            left = self._pasts.id(replace(past, lost=past.lost - 1))
            found.append(Part(what, "never arrives", cluster, self._answered(flight, None), left, fault=True))
        return found

    def _answered(self, flight: Flight, answer: Answer | None) -> int:
        return self._flight(replace(flight, answers=(*flight.answers, answer)))

    def _moved(self, cluster: int, number: int, observed: int) -> list[Part]:
        """What may become of the pods."""
        views, past = self._clusters[cluster], self._pasts[number]
        found = []
        for pod, _ in views[PODS].stored:
            for move in moves(pod, self._failing):
                if move.failures > past.failures or move.evictions > past.evictions:
                    continue
                effect = self._server.apply(views, move.request, "world", past.ends, "")
                after = self._written(views, effect.changes, observed=bool(observed))
                if after is None:
                    continue
                left = replace(
                    past, failures=past.failures - move.failures, evictions=past.evictions - move.evictions, ends=effect.ends
                )
                fault = bool(move.failures or move.evictions)
                stored = self._cluster(after)
                found.append(Part(pod.name, move.name, stored, _NONE, self._pasts.id(left), fault, effect.violations))
        return found

    def _written(self, views: Cluster, changes: tuple[tuple[int, str, Content], ...], *, observed: bool) -> Cluster | None:
        """The views after some changes; None if a cache would be further behind than the bounds allow.

        One request may make two changes, such as a deletion that takes effect at once; they may follow an empty backlog.
        """
        after = list(views)
        for resource, kind, content in changes:
            after[resource] = after[resource].written(kind, content, observed=observed)
        lag = self.bounds.lag
        if any(len(now.pending) > lag and before.pending for before, now in zip(views, after, strict=True)):
            return None
        return tuple(after)


def is_wasted(request: Request, effect: Effect) -> bool:
    """Whether a write had no effect, although the operator alone writes the job, and creates and releases pods.

    Pods are gone by themselves, so a deletion may come too late. To be asked as long as no answer was lost.
    """
    too_late = request.method == "DELETE" and effect.answer.status in (404, 409)
    return request.method != "GET" and not effect.changes and not too_late


def _created(request: Request, past: Past) -> tuple[str, tuple[tuple[str, int], ...]]:
    """The UID of the object that a request creates, and how many objects there are then to have had each name."""
    if request.method != "POST" or request.body is None:
        return "", past.created
    kind = request.path.rpartition("/")[2]
    name = f"{kind}/{msgspec.json.decode(request.body)['metadata']['name']}"
    counts = dict(past.created)
    counts[name] = counts.get(name, 0) + 1
    return f"{name}#{counts[name]}", tuple(sorted(counts.items()))
