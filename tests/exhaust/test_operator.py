"""What the model makes of an operator process: which plans in flight and which orders of steps count as the same."""

from collections import defaultdict
from dataclasses import replace

import pytest

from jobcommon.testutil.exhaust.model import Bounds, Model, State, Step
from jobcommon.testutil.exhaust.operator import Flight, Operator
from jobcommon.testutil.exhaust.search import Search


def test_a_plan_that_is_made_again_lends_its_key_to_no_other_plan() -> None:
    """A plan that is dropped leaves its place in memory to the next one, so nothing may be remembered by that place."""
    operator = Operator()
    keys: dict[str, set[object]] = {}
    begun = []
    for policy in ("OnFailure", "Never"):
        model = Model(policy, Bounds())
        views, memory, _, _ = model.open(model.first())
        begun.append((policy, tuple(view.cached for view in views), memory))
        model.close()
    for policy, cached, memory in begun * 10:
        assert memory is not None
        _, flight = operator.planned(cached, memory)
        assert flight is not None
        keys.setdefault(policy, set()).add(operator.essence(flight))
    operator.close()
    assert [len(found) for found in keys.values()] == [1, 1]
    assert not keys["OnFailure"] & keys["Never"]


class _Compared(Model):
    """Compares what all plans that count as the same lead to, and a result before events with the same one after them."""

    def __init__(self, policy: str, bounds: Bounds) -> None:
        super().__init__(policy, bounds)
        self.same: defaultdict[int, dict[Flight, None]] = defaultdict(dict)
        self.orders = 0

    def _flight(self, flight: Flight) -> int:
        number = super()._flight(flight)
        self.same[number][flight] = None
        return number

    def steps(self, state: State) -> list[Step]:
        cluster, memory, flight, past = state
        for part in self._once(self._requested, cluster, flight, past) if memory and flight else ():
            if self._over[part.flight]:
                self._compare_orders(part.cluster, memory, part.flight)
        return super().steps(state)

    def _compare_orders(self, cluster: int, memory: int, flight: int) -> None:
        """An event before a result against the result before the event, and so on with all events that are on their way."""
        shown = self._shown[cluster]
        for _, about, after, event, renaming in self._once(self._delivered, cluster):
            late, left = self._once(self._took, shown, memory, event), self._once(self._renumbered, flight, event, renaming)
            skipped = self._memories[self._once(self._finished, self._shown[after], late, left)]
            kept = self._memories[self._once(self._took, shown, self._once(self._finished, shown, memory, flight), event)]
            assert skipped is not None
            assert kept is not None
            replaced = kept.ready and skipped.due is None
            assert skipped == (replace(kept, due=None) if replaced else kept), about
            self.orders += 1
            self._compare_orders(after, late, left)

    def compare_flights(self) -> int:
        """How many transitions were worked out once more; all led to the same."""
        compared = 0
        places = {"_renumbered": 1, "_requested": 2, "_finished": 3}
        for key, found in list(self._known.items()):
            name = str(key[0])
            if name in places:
                number = int(str(key[places[name]]))
                for flight in list(self.same[number])[:4]:
                    self._in_flight[number] = flight
                    assert getattr(self, name)(*key[1:]) == found, (name, flight)
                    compared += 1
        return compared


@pytest.mark.parametrize(("policy", "bounds"), [("OnFailure", Bounds(0, 0, 2, 1)), ("ExitCode", Bounds(1, 1, 2, 1))])
def test_what_counts_as_the_same_has_the_same_future(policy: str, bounds: Bounds) -> None:
    model = _Compared(policy, bounds)
    model.close, close = lambda: None, model.close  # type: ignore[method-assign]
    search = Search(model, most=1500).run()
    assert not search.problem
    assert model.compare_flights() > 500
    assert model.orders > 200
    close()
