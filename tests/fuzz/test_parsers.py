"""The parsers of what comes from a cluster: no input gives an error but the documented ones, nor much work.

A few thousand inputs in CI, over a million with PROFILE=full (`make fuzz`). Inputs are good documents with parts of them
spoilt, and bytes that are none; the seeds are fixed.
"""

import json
import os
from collections.abc import Callable
from copy import deepcopy
from time import thread_time
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from jobcommon.api.observed import Observed
from jobcommon.api.pod import pod_view
from jobcommon.api.replica import format_indexes, parse_indexes
from jobcommon.api.resources import parse_quantity
from jobcommon.api.status import read_status
from jobcommon.api.timestamp import format_time, parse_time
from jobcommon.api.view import identity, object_view
from jobcommon.cache.informer import Informer
from jobcommon.cache.step import Fetch, Stream
from jobcommon.cache.store import Store
from jobcommon.client.request import Response
from jobcommon.client.responses import response_error, retry_after
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.reconcile import plan, plan_for_orphans
from jobcommon.runtime.writes import request_for
from jobcommon.spec import read_job
from jobcommon.testutil.builders import START, Pod, job_manifest
from jobcommon.testutil.effort import effort

pytestmark = pytest.mark.slow

FULL = os.environ.get("PROFILE") == "full"
SHARE = int(os.environ.get("EXAMPLES", "4000"))
LIMIT = 50.0
"""In loops of `testutil.effort`, of about a millisecond each."""
LIKELY_SECONDS = 0.02
"""What takes less is not measured against the loop."""


def examples(in_ci: int, shares: float) -> settings:
    """So many examples in CI, and so many shares of a full run."""
    return settings(
        max_examples=int(shares * SHARE) if FULL else in_ci,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )


def trial(name: str, parse: Callable[[], Any], *errors: type[Exception]) -> Any:
    """What `parse` gives; None when it refuses the input with one of `errors`. Fails when it is more work than `LIMIT`."""

    def parsed() -> Any:
        try:
            return parse()
        except errors:
            return None

    started = thread_time()
    result = parsed()
    if thread_time() - started > LIKELY_SECONDS:
        loops = effort(parsed, LIMIT)
        assert loops <= LIMIT, f"{name} is {loops:.0f} loops of work"
    return result


# -- good documents, and what spoils them ----------------------------------------------------------------------------------

FRAMEWORKS = (TF, PYTORCH, MPI, MXNET)
TIME = "2023-11-14T22:13:20Z"
RUN_POLICY = {
    "cleanPodPolicy": "All",
    "ttlSecondsAfterFinished": 60,
    "activeDeadlineSeconds": 3600,
    "backoffLimit": 3,
    "suspend": False,
    "managedBy": "kubeflow.org/training-operator",
    "schedulingPolicy": {
        "minAvailable": 2, "queue": "q", "minResources": {"cpu": "2", "memory": "64Gi"}, "priorityClass": "high",
        "scheduleTimeoutSeconds": 30,
    },
}  # fmt: skip
STATUS = {
    "conditions": [
        {"type": "Created", "status": "True", "reason": "JobCreated", "message": "m", "lastUpdateTime": TIME},
        {"type": "Running", "status": "True", "reason": "JobRunning", "message": "m", "lastTransitionTime": TIME},
    ],
    "replicaStatuses": {"Worker": {"active": 1, "succeeded": 1, "succeededIndexes": "0", "restarts": 2, "selector": "a=b"}},
    "startTime": TIME,
    "lastReconcileTime": TIME,
    "restarts": 2,
    "disruptions": 1,
    "countedPods": ["u-1"],
    "failures": [{"replica": "Worker-1", "reason": "Error", "exitCode": 1, "time": TIME}],
}
TYPES = {"tensorflow": "Chief", "pytorch": "Master", "mpi": "Launcher", "mxnet": "Scheduler"}


def job(number: int) -> dict[str, Any]:
    """A job of the framework of that number, with all that one can have."""
    framework = FRAMEWORKS[number]
    found = job_manifest(
        framework, {TYPES[framework.name]: 1, "Worker": 3}, policy="OnFailure", run_policy=RUN_POLICY, status=STATUS
    )
    spec = found["spec"][framework.replica_specs]["Worker"]
    spec["overrides"] = [{"indices": [1], "template": {"spec": {"containers": [{"name": framework.container or "main"}]}}}]
    template = spec["template"]
    template["metadata"] = {"labels": {"a": "b"}, "annotations": {"c": "d"}}
    container = template["spec"]["containers"][0]
    container |= {
        "command": ["run"], "args": ["$(A)"], "env": [{"name": "A", "value": "b"}],
        "ports": [{"name": "p", "containerPort": 80}],
        "resources": {"limits": {"cpu": "500m", "nvidia.com/gpu": 1}, "requests": {"memory": "1Gi"}},
    }  # fmt: skip
    template["spec"] |= {"volumes": [{"name": "v", "emptyDir": {}}], "hostNetwork": False, "tolerations": [{"key": "k"}]}
    found["metadata"]["resourceVersion"] = "7"
    return found


def pod(name: str = "demo-worker-0", index: int = 0) -> dict[str, Any]:
    """A pod of the job, whose container was killed and started again before."""
    made = (
        Pod.of(PYTORCH, read_job(PYTORCH, job(1)), "Worker", index)
        .running(restarts=2)
        .failed(137)
        .disrupted("EvictionByEvictionAPI")
    )
    return {**made.raw, "metadata": {**made.raw["metadata"], "name": name}}


EVENTS: list[dict[str, Any]] = [
    {"type": "ADDED", "object": pod()},
    {"type": "DELETED", "object": pod("demo-worker-1", 1)},
    {
        "type": "BOOKMARK",
        "object": {"metadata": {"resourceVersion": "30", "annotations": {"k8s.io/initial-events-end": "true"}}},
    },
    {
        "type": "ERROR",
        "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "m", "details": {"retryAfterSeconds": 3}},
    },
]
DEEP: Any = [[[[[[[[{"a": [{"b": [None]}]}]]]]]]]]
WORDS = [
    "", " ", "\n", "a", "A.b", "-1", "0", "007", "1e999999999", "9" * 400, "None", "null", "true", "True", "$(reboot)",
    "`id`; rm",     "%s%n", "{0}", "{{ a }}", "../..", "a/b", "a" * 64, "a" * 300, "é", "\u202e", "\x00", "\x1b[31m", "٣",
    "0-3,7", "3-1", "0-999999999", "2024-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z",
    "2024-13-01T00:00:00Z", "10000-01-01T00:00:00Z", "2024-01-01T00:00:00+25:00", "Never", "ExitCode", "Running", "Failed",
    "Succeeded", "Worker", "worker", "Master", "Chief", "Launcher", "PS", "64Gi", "1x", "-5m", ".", "+.", "1Ei",
    "kubeflow.org/v1", "kubeflow.org/v2beta1", "kubeflow.org/", "/", "v1beta1", "auto",
]  # fmt: skip
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3, 63, 255, 256, 10_000, 10_001, 2**31 - 1, 2**31, -(2**31), 2**53, 2**63 - 1, 2**63,
    -(2**63) - 1, 2**64, 10**30, 0.0, -0.5, 1.5, 1e308, 1e-308, [], {}, [None], [[]], [{}], [1, "a", None], {"a": None},
    {"": ""}, {"name": None}, {"name": []}, [{"name": "a"}, {"name": "a"}], DEEP,
]  # fmt: skip
JUNK = st.one_of(
    st.sampled_from(VALUES),
    st.sampled_from(WORDS),
    st.text(max_size=12),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
)
KEYS = st.sampled_from([*WORDS[:12], "name", "status", "spec", "metadata", "labels", "replicas", "template", "unknown"])
TREES = st.recursive(JUNK, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values below `value`."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, child in entries for found in ((*path, key), *places(child, (*path, key)))]


def spoilt(document: Any, *, most: int = 4) -> st.SearchStrategy[Any]:
    """`document` with up to `most` of its values replaced, taken out, or joined by others."""
    where = places(document)
    change = st.tuples(st.sampled_from(where), st.sampled_from(["set", "set", "set", "drop", "add"]), KEYS, JUNK | TREES)
    return st.lists(change, min_size=1, max_size=most).map(lambda changes: changed(document, changes))


def changed(document: Any, changes: list[Any]) -> Any:
    found = deepcopy(document)
    for path, what, key, new in changes:
        node, value = found, deepcopy(new)
        try:
            for part in path[:-1]:
                node = node[part]
            if what == "set":
                node[path[-1]] = value
            elif what == "drop":
                del node[path[-1]]
            elif isinstance(node[path[-1]], dict):
                node[path[-1]][key] = value
            else:
                node[path[-1]].append(value)
        except (KeyError, IndexError, TypeError, AttributeError):
            # An earlier change has taken the place away.
            continue
    return found


def encoded(document: Any) -> bytes:
    """As the API server sends it; what JSON cannot hold is replaced."""
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")


def torn(strategy: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Some of the bytes, some others in between, or others altogether."""
    return st.one_of(
        strategy,
        st.tuples(strategy, st.integers(0, 4000), st.binary(max_size=6), st.integers(0, 4000)).map(
            lambda parts: parts[0][: parts[1]] + parts[2] + parts[0][parts[1] + parts[3] % 7 :]
        ),
        st.tuples(strategy, st.integers(0, 4000)).map(lambda parts: parts[0][: parts[1]]),
        st.binary(max_size=60),
    )


NUMBERS = range(len(FRAMEWORKS))
JOBS = [job(number) for number in NUMBERS]


# -- objects ---------------------------------------------------------------------------------------------------------------


@examples(300, 12)
@given(torn(spoilt(pod()).map(encoded)))
@example(b'\x80{"metadata":{"name":"p"}}')
@example(b'{"metadata":{"name":"p\xff"}}')
@example(b'{"metadata":{"name":"p","labels":3,"x":"\xff"}}')
@example(b'{"metadata":{"name":"p"},"a":' + b"[" * 5000 + b"]" * 5000 + b"}")
def test_views(data: bytes) -> None:
    for name, parse in (("pod_view", pod_view), ("object_view", object_view), ("identity", identity)):
        view = trial(name, lambda parse=parse: parse(data), msgspec.DecodeError)
        if view is not None:
            assert view.name
            hash(view.uid)


@examples(150, 4)
@given(torn(spoilt(EVENTS[0]).map(encoded)) | torn(st.sampled_from(EVENTS).flatmap(spoilt).map(encoded)), st.booleans())
@example(b'{"type":"BOOKMARK","object":{"metadata":null}}', True)
@example(b'{"type":"ADDED\x80","object":{"metadata":{"name":"p"}}}', False)
@example(b'{"type":"ADDED","object":{"metadata":{"name":"\x80"}}}', False)
@example(b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"\x80"}}}', True)
@example(b'{"type":"ERROR","object":{"message":"\x80"}}', True)
@example(b'{"type":"ERROR","object":{"code":-1}}', False)
@example(b'{"type":"ERROR","object":{"code":"410","details":{"retryAfterSeconds":1e400}}}', False)
def test_watch_frames(data: bytes, streamed: bool) -> None:
    informer = Informer("/pods", pod_view, Store(), lambda: 0.5, streamed_lists=streamed)
    if not streamed:
        assert isinstance(informer.next(0.0), Fetch)
        informer.received(Response(200, b'{"metadata":{"resourceVersion":"5"},"items":[]}'), 0.0)
    assert isinstance(informer.next(1.0), Stream)
    trial("watch frame", lambda: informer.line(data, 1.5))
    assert informer.deadline is None or informer.deadline < 1000
    informer.ended(2.0)
    informer.next(500.0)


@examples(200, 6)
@given(
    torn(spoilt(EVENTS[3]["object"]).map(encoded)),
    st.sampled_from(WORDS) | st.text(max_size=30) | st.integers().map(str) | st.none(),
    st.none() | st.floats(-1e12, 1e12),
)
@example(b"", "Fri, 31 Dec 9999 23:59:59 GMT", START)
@example(b"", "Mon, 01 Jan 0001 00:00:00 -2359", START)
@example(b"", "٣", START)
def test_errors_and_retry_after(body: bytes, header: str | None, now: float | None) -> None:
    headers = {} if header is None else {"retry-after": header}
    error = trial("status", lambda: response_error(Response(503, body, headers), now))
    assert error.code == 503
    assert str(error)
    assert error.retry_after is None or 0 <= error.retry_after <= 300
    trial("retry-after", lambda: retry_after(header, now))


# -- jobs ------------------------------------------------------------------------------------------------------------------


def judge(number: int, document: Any, pods: list[Any]) -> None:
    """Read the job and plan for it, as the controller does with what the API server sends."""
    framework = FRAMEWORKS[number]
    view = trial("job", lambda: object_view(encoded(document)), msgspec.DecodeError)
    if view is None:
        return
    raw = view.raw
    found = trial("read_job", lambda: read_job(framework, raw))
    assert all(error.path and error.message for error in found.errors)
    views = tuple(v for p in pods if (v := trial("pod_view", lambda p=p: pod_view(encoded(p)), msgspec.DecodeError)))
    unique = tuple({v.name: v for v in views}.values())
    decided = trial("plan", lambda: plan(framework, found, Observed(pods=unique), START))
    assert decided == plan(framework, found, Observed(pods=unique[::-1]), START)
    assert decided.describe()
    for action in decided.actions:
        trial("request", lambda action=action: request_for(action, "default"))
    if decided.status is not None:
        written = msgspec.json.encode(decided.status.to_json())
        assert len(written) < 1 << 20
        # What we write we read back as it was.
        again = trial("read_status", lambda: read_status(msgspec.json.decode(written)))
        assert again.to_json() == decided.status.to_json()
    trial("orphans", lambda: plan_for_orphans(unique))


@examples(120, 3)
@given(st.sampled_from(NUMBERS).flatmap(lambda n: st.tuples(st.just(n), spoilt(JOBS[n]))))
@example((2, changed(JOBS[2], [(("spec", "mpiReplicaSpecs", "Worker", "template", "spec", "volumes"), "set", "", True)])))
def test_jobs_that_are_nearly_right(case: tuple[int, Any]) -> None:
    judge(*case, [pod(), pod("demo-worker-1", 1)])


# -- small texts -----------------------------------------------------------------------------------------------------------

TEXTS = st.one_of(
    st.sampled_from(WORDS),
    st.text(max_size=20),
    st.text("0123456789.-+eEmMkKiGnu,TPZ: ", max_size=30),
    st.sampled_from("0123456789.-,eE").flatmap(lambda letter: st.integers(1, 5000).map(lambda n: letter * n)),
)


@examples(300, 40)
@given(JUNK | TEXTS)
@example("1e999999999")
@example("." * 256)
@example("9" * 256 + "Ei")
def test_quantities(value: Any) -> None:
    found = trial("quantity", lambda: parse_quantity(value), ValueError)
    if found is not None:
        assert parse_quantity(str(found)).nanos == found.nanos
        assert len(str(found + found * 10_000)) < 40


@examples(300, 40)
@given(JUNK | TEXTS, st.floats())
@example("2024-01-01T00:00:00.999999999Z", float("inf"))
@example("0001-01-01T00:00:00+23:59", float("nan"))
def test_times(text: Any, seconds: float) -> None:
    found = trial("parse_time", lambda: parse_time(text))
    if found is not None:
        assert trial("format_time", lambda: format_time(found)).endswith("Z")
    assert trial("format_time", lambda: format_time(seconds)).endswith("Z")


@examples(300, 30)
@given(TEXTS, st.sampled_from([0, 1, 3, 10_000]))
@example("0-99999999999999999999", 10_000)
@example("1-9999," * 1000, 10_000)
@example("0," * 500_000, 10_000)
def test_indexes(text: str, limit: int) -> None:
    found = trial("indexes", lambda: parse_indexes(text, limit))
    assert all(0 <= index < max(limit, 0) for index in found)
    assert parse_indexes(format_indexes(found), limit) == found


# -- files of users --------------------------------------------------------------------------------------------------------
