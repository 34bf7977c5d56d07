"""The back-off of what the platform refuses to create for one job."""

from dataclasses import replace
from typing import Any

import pytest

from jobcommon.api.observed import IMAGES, IMAGES_LATER
from jobcommon.client.errors import ClientError, StatusError
from jobcommon.controller.refusals import FIRST_RETRY_DELAY, MAX_RETRY_DELAY, Answer, Refusals, answer_of
from jobcommon.controller.result import ActionResult, Effect
from jobcommon.reconcile.plan import Create, Get, SetImage, Update, in_order

FORBIDDEN = StatusError(403, "Forbidden", "no")
IN_USE = StatusError(409, "AlreadyExists", "pods demo is being deleted")
ETCD = StatusError(500, "InternalError", "etcd leader changed")
WEBHOOK = StatusError(500, "InternalError", 'failed calling webhook "guard": connection refused')


def create(plural: str) -> Create:
    return Create("v1", plural, f"demo-{plural}", {})


def refused(plural: str, error: ClientError = FORBIDDEN) -> list[ActionResult]:
    """The outcome of a create that was refused."""
    return [ActionResult(create(plural), Effect.REFUSED, error=error)]


def test_each_kind_and_cause_has_a_back_off_of_its_own() -> None:
    """One blip of a webhook beside a right that is missing for good costs the job ten seconds."""
    refusals, now = Refusals(), 1000.0
    update = ActionResult(Update("v1", "podgroups", "demo", {}, {}), Effect.REFUSED, error=FORBIDDEN)
    for doublings in range(7):
        assert refusals.record([update], now)
        assert refusals.until == now + min(FIRST_RETRY_DELAY * 2**doublings, MAX_RETRY_DELAY)
        now = refusals.until if doublings < 6 else now + 20
    for again in (FIRST_RETRY_DELAY, 2 * FIRST_RETRY_DELAY):
        assert refusals.record(refused("pods", WEBHOOK), now)
        assert refusals.record(refused("pods", WEBHOOK), now + 1), "what is tried early prolongs nothing"
        assert refusals.until == now + again
        assert "webhook" in refusals.text
        assert refusals.backed_off(now + 2) == {"pods", "podgroups/updates"}
        now = refusals.until
        assert refusals.backed_off(now) == {"podgroups/updates"}
    assert refusals.record(refused("pods"), now)
    assert refusals.until == now + FIRST_RETRY_DELAY, "another cause begins anew"
    assert not refusals.record([ActionResult(create("pods"), Effect.APPLIED, "8")], now + FIRST_RETRY_DELAY)
    assert refusals.record(refused("pods"), now + FIRST_RETRY_DELAY)
    assert refusals.until == now + 2 * FIRST_RETRY_DELAY, "a success ends it"


def test_what_was_left_out_and_became_due_meanwhile_is_tried_at_once() -> None:
    refusals = Refusals()
    assert refusals.record(refused("pods") + refused("services"), 0.0)
    assert refusals.backed_off(9.0) == {"pods", "services"}
    assert refusals.record([ActionResult(IMAGE, Effect.REFUSED, error=FORBIDDEN)], 11.0)
    assert refusals.until == FIRST_RETRY_DELAY


GET = Get("v1", "serviceaccounts", "demo-launcher")
IMAGE = SetImage("demo-worker-0", "uid-0", "main", "image", "other", "0", "attempt 1 begins")
# What is refused, with which answer -> what the next plan leaves out, and what the status says
OTHERS: dict[str, tuple[Get | SetImage, StatusError, set[str], str]] = {
    "a read": (GET, FORBIDDEN, {"serviceaccounts/reads", "pods"}, "get serviceaccounts/demo-launcher is refused: no"),
    "an optional read": (
        replace(GET, required=False),
        FORBIDDEN,
        {"serviceaccounts/reads"},
        "get serviceaccounts/demo-launcher",
    ),
    "an image, by a policy": (IMAGE, FORBIDDEN, {IMAGES}, "set image of pods/demo-worker-0 is refused: no"),
    "an image, by nobody": (IMAGE, WEBHOOK, {IMAGES_LATER}, "set image of pods/demo-worker-0 is refused: failed calling"),
}


@pytest.mark.parametrize("case", OTHERS)
def test_what_is_no_create_waits_as_well(case: str) -> None:
    action, error, left_out, told = OTHERS[case]
    refusals = Refusals()
    assert refusals.record([ActionResult(action, Effect.REFUSED, error=error)], 0.0)
    assert refusals.backed_off(1.0) == left_out
    assert refusals.text.startswith(told)
    assert in_order([action], refusals.backed_off(1.0)) == ()


def test_a_name_in_use_is_tried_again_in_time_however_often_events_try() -> None:
    """The pods of a predecessor may terminate unseen, such as without our label; no event says that their names are free."""
    refusals, now = Refusals(), 1000.0
    in_use = refused("pods", IN_USE)
    for number in range(8):
        assert refusals.record(in_use, now + number)
        assert refusals.backed_off(now + number) == frozenset(), "the next event may free the name"
    assert refusals.until == now + FIRST_RETRY_DELAY
    assert refusals.record(in_use, now + FIRST_RETRY_DELAY)
    assert refusals.until == now + 3 * FIRST_RETRY_DELAY


def test_the_text_is_that_of_the_present_cause() -> None:
    refusals, now = Refusals(), 1000.0
    for cause, told in (
        ("exceeded quota: used: pods=9", "pods=9"),
        ("exceeded quota: used: pods=8", "pods=9"),
        ('admission webhook "images" denied the request', "webhook"),
        ("User cannot create pods", "cannot create"),
    ):
        refusals.record(refused("pods", StatusError(403, "Forbidden", cause)), now)
        assert (refusals.quota_refuses_for(now + 2) is not None) == ("quota" in cause), "a webhook is no want of room"
        assert told in refusals.text
        refusals.record(refused("services", StatusError(403, "Forbidden", "no services")), now + 1)
        assert told in refusals.text, "the cause for pods is told"
        now += MAX_RETRY_DELAY


SKIPPED = [ActionResult(create("pods"), Effect.SKIPPED)]
# What became of the pods when a Service was refused -> what the next plan leaves out
BESIDE: dict[str, tuple[list[ActionResult], set[str]]] = {
    "not tried": (SKIPPED, {"services", "pods"}),
    "refused": (refused("pods") + SKIPPED, {"services", "pods"}),
    "refused, and one failed": (refused("pods") + refused("pods", ETCD), {"services", "pods"}),
    "failed": (refused("pods", ETCD), {"services"}),
    "the first failed": (refused("pods", ETCD) + SKIPPED, {"services"}),
    "the first name in use": (refused("pods", IN_USE) + SKIPPED, {"services"}),
    "created": ([ActionResult(create("pods"), Effect.APPLIED, "8")], {"services"}),
}


@pytest.mark.parametrize("case", BESIDE)
def test_only_what_is_refused_waits_and_what_needs_it(case: str) -> None:
    refusals = Refusals()
    pods, left_out = BESIDE[case]
    assert refusals.record(refused("services") + pods, 0.0)
    assert refusals.backed_off(1.0) == left_out


CPU, MEMORY = {"cpu": "700m"}, {"memory": "1Gi"}
# The resources of a container whose CPU request is above its limit -> the answer; what is not set is a LimitRange's default
ABOVE_LIMIT: dict[str, tuple[Any, Answer]] = {
    "both": ({"requests": CPU, "limits": {"cpu": "500m"}}, Answer.INVALID),
    "the request": ({"requests": CPU}, Answer.REFUSED),
    "the request, and both of memory": ({"requests": {**CPU, **MEMORY}, "limits": MEMORY}, Answer.REFUSED),
    "neither": (None, Answer.REFUSED),
}


@pytest.mark.parametrize("case", ABOVE_LIMIT)
@pytest.mark.parametrize("message", ["{}", "{} of 500m", '[{} of 500m, spec.hostname: Invalid value: "-": …]'])
def test_what_a_limit_range_makes_invalid_is_refused_for_now(case: str, message: str) -> None:
    resources, answer = ABOVE_LIMIT[case]
    what = 'spec.containers[1].resources.requests: Invalid value: "700m": must be less than or equal to cpu limit'
    pod = Create("v1", "pods", "demo", {"spec": {"containers": [{}, {"resources": resources}]}})
    error = StatusError(422, "Invalid", f'Pod "demo" is invalid: {message.format(what)}')
    assert answer_of(ActionResult(pod, Effect.REFUSED, error=error)) is answer


def test_a_container_that_the_platform_has_added_is_not_the_jobs() -> None:
    text = 'spec.initContainers[0].resources.requests: Invalid value: "1": must be less than or equal to cpu limit of 500m'
    pod = Create("v1", "pods", "demo", {"spec": {"containers": []}})
    error = StatusError(422, "Invalid", f'Pod "demo" is invalid: {text}')
    assert answer_of(ActionResult(pod, Effect.REFUSED, error=error)) is Answer.REFUSED


OWNER_UNREAD = (
    StatusError(
        500,
        "InternalError",
        'Internal error occurred: failed calling webhook "mpod.kb.io": failed to call webhook: Post '
        '"https://kueue-webhook-service.kueue-system.svc:443/mutate--v1-pod?timeout=10s": context deadline exceeded',
    ),
    StatusError(
        500,
        "",
        'admission webhook "mpod.kb.io" denied the request: workload owner not found\nTimeout: failed waiting for '
        "*v1.PartialObjectMetadata Informer to sync",
    ),
)
"""What the API server answers to the create of a pod whose owner Kueue may not list: whichever of both gives up first.

`FindAncestorJobManagedByKueue` in pkg/controller/jobframework/reconciler.go reads the owner through a cache, which waits for
its list as long as the request lasts.
"""
OF_WEBHOOKS = (*OWNER_UNREAD, StatusError(500, "", 'admission webhook "guard" denied the request: no connection'))


@pytest.mark.parametrize("error", OF_WEBHOOKS)
def test_a_webhook_that_fails_is_a_refusal(error: StatusError) -> None:
    refusals, pod = Refusals(), Create("v1", "pods", "demo", {})
    assert refusals.record([ActionResult(pod, Effect.REFUSED, error=error)], 0.0)
    assert refusals.text == f"pods/demo is refused: {error.message}"
