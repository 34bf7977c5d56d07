"""The eviction API: what it shows of a pod, and in which order."""

from localcluster.conformance.case import Case, Expect, Json, Step
from localcluster.conformance.kinds import PODS, bound
from localcluster.conformance.steps import UID, UNKNOWN_UID, VERSION, create, get, patch, ref, watch

_HOLD = ["example.com/hold"]
_SHOWN = {
    "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
}  # fmt: skip


def _evict(code: int = 201, **options: object) -> Step:
    body: Json = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "n"}}
    if options:
        body["deleteOptions"] = options
    return Step("POST", PODS, "n", body, Expect(code), subresource="eviction")


def _condition(index: int) -> Json:
    return {f"status.conditions.{index}.{key}": value for key, value in _SHOWN.items()}


CASES = (
    Case("eviction of a running pod", (
        create(PODS, bound("n", {"terminationGracePeriodSeconds": 7}, finalizers=_HOLD)),
        patch(PODS, "n", {"status": {"phase": "Running"}}, subresource="status"), _evict(),
        get(PODS, "n", fields={**_condition(0), "metadata.deletionGracePeriodSeconds": 7, "status.phase": "Running"}),
        watch(PODS, ref(PODS, "n", VERSION, 1), "MODIFIED n", "MODIFIED n"),
    )),
    Case("eviction of a pod that has ended", (
        create(PODS, bound("n", finalizers=_HOLD)), patch(PODS, "n", {"status": {"phase": "Succeeded"}}, subresource="status"),
        _evict(), get(PODS, "n", fields={**_condition(0), "metadata.deletionGracePeriodSeconds": 0}),
    )),
    Case("a second eviction changes nothing", (
        create(PODS, bound("n", finalizers=_HOLD)), patch(PODS, "n", {"status": {"phase": "Running"}}, subresource="status"),
        _evict(), get(PODS, "n"), _evict(), get(PODS, "n", fields={VERSION: ref(PODS, "n", VERSION)}),
    )),
    Case("eviction of another incarnation, and a dry run", (
        create(PODS, bound("n")), patch(PODS, "n", {"status": {"phase": "Running"}}, subresource="status"),
        _evict(409, preconditions={"uid": UNKNOWN_UID}), _evict(dryRun=["All"]),
        get(PODS, "n", fields={"status.conditions": None, "metadata.deletionTimestamp": None}),
        _evict(preconditions={"uid": ref(PODS, "n", UID), "resourceVersion": ref(PODS, "n", VERSION)}),
        get(PODS, "n", fields=_condition(0)),
    )),
)  # fmt: skip
