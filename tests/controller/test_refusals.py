"""The back-off of what the platform refuses to create for one job."""

from jobcommon.client.errors import StatusError
from jobcommon.controller.refusals import FIRST_RETRY_DELAY, Refusals
from jobcommon.controller.result import ActionResult, Effect
from jobcommon.reconcile.plan import Create, Plan


def create(plural: str) -> Create:
    return Create("v1", plural, f"demo-{plural}", {})


def refused(*plurals: str) -> tuple[Plan, list[ActionResult]]:
    """A plan of which every create was refused."""
    actions = tuple(map(create, plurals))
    return Plan(actions), [
        ActionResult(action, Effect.REFUSED, error=StatusError(403, "Forbidden", "no")) for action in actions
    ]


def test_a_refusal_during_a_back_off_joins_it() -> None:
    """Each alone would end the back-off of the other early and double it."""
    refusals, now = Refusals(), 1000.0
    assert refusals.record(*refused("services"), now)
    for number in range(8):
        assert refusals.record(*refused("pods" if number % 2 else "configmaps"), now + number)
    assert refusals.until == now + FIRST_RETRY_DELAY
    assert refusals.backed_off(now + 9) == {"services", "pods", "configmaps"}
    assert refusals.backed_off(now + FIRST_RETRY_DELAY) == frozenset()
    assert refusals.record(*refused("pods"), now + FIRST_RETRY_DELAY)
    assert refusals.until == now + 3 * FIRST_RETRY_DELAY, "it doubles when it is refused again in its time"


def test_a_name_in_use_is_tried_again_in_time_however_often_events_try() -> None:
    """The pods of a predecessor may terminate unseen, such as without our label; no event says that their names are free."""
    refusals, now = Refusals(), 1000.0
    action = create("pods")
    in_use = [ActionResult(action, Effect.REFUSED, error=StatusError(409, "AlreadyExists", "pods demo is being deleted"))]
    for number in range(8):
        assert refusals.record(Plan((action,)), in_use, now + number)
        assert refusals.backed_off(now + number) == frozenset(), "the next event may free the name"
    assert refusals.until == now + FIRST_RETRY_DELAY
    assert refusals.record(Plan((action,)), in_use, now + FIRST_RETRY_DELAY)
    assert refusals.until == now + 3 * FIRST_RETRY_DELAY


def test_the_text_is_that_of_the_present_cause() -> None:
    refusals, now = Refusals(), 1000.0
    action = create("pods")
    for cause, told in (
        ("exceeded quota: used: pods=9", "pods=9"),
        ("exceeded quota: used: pods=8", "pods=9"),
        ('admission webhook "images" denied the request', "webhook"),
        ("User cannot create pods", "cannot create"),
    ):
        error = StatusError(403, "Forbidden", cause)
        refusals.record(Plan((action,)), [ActionResult(action, Effect.REFUSED, error=error)], now)
        assert told in refusals.text
        other = create("services")
        joins = ActionResult(other, Effect.REFUSED, error=StatusError(403, "Forbidden", "no services"))
        refusals.record(Plan((other,)), [joins], now + 1)
        assert told in refusals.text, "what joins a back-off is not the cause of it"
        now = refusals.until


def test_another_error_beside_a_refusal_keeps_the_keys_back_off() -> None:
    refusals = Refusals()
    service, pod = create("services"), create("pods")
    outcomes = [
        ActionResult(service, Effect.REFUSED, error=StatusError(403, "Forbidden", "no")),
        ActionResult(pod, Effect.REFUSED, error=StatusError(500, "InternalError", "etcd leader changed")),
    ]
    refusals.record(Plan((service, pod)), outcomes, 0.0)
    assert refusals.backed_off(1.0) == {"services"}
