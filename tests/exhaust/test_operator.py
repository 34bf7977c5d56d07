"""What the model makes of an operator process: plans in flight count as the same only if they have the same future."""

from jobcommon.testutil.exhaust.model import Bounds, Model
from jobcommon.testutil.exhaust.operator import Operator


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
