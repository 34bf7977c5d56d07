"""Every parser of what comes from a cluster or a user: no input gives an error but the documented ones, nor takes 50 ms."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from jobcommon.api.observed import Observed
from jobcommon.api.pod import pod_view
from jobcommon.api.quantity import parse_quantity
from jobcommon.api.replica import format_indexes, parse_indexes
from jobcommon.api.status import read_status
from jobcommon.api.timestamp import format_time, parse_time
from jobcommon.api.view import identity, object_view
from jobcommon.cache.informer import Informer
from jobcommon.cache.step import Fetch, Stream
from jobcommon.cache.store import Store
from jobcommon.cli.convert import ConvertError, convert
from jobcommon.cli.errors import UserError
from jobcommon.cli.manifests import Manifest
from jobcommon.cli.plan import describe
from jobcommon.cli.yaml_document import DocumentError, documents
from jobcommon.client import objects
from jobcommon.client.config import ConfigError, Kubeconfig
from jobcommon.client.lines import LineSplitter
from jobcommon.client.request import Request, Response
from jobcommon.client.responses import response_error, retry_after
from jobcommon.reconcile import plan, plan_for_orphans, read_job
from jobcommon.runtime.leader import LeaderElector, LeaseSettings
from jobcommon.runtime.writes import request_for
from jobcommon.testutil.builders import START
from tests.convert.documents import DIRECTORY
from tests.fuzz.documents import EVENTS, FRAMEWORKS, KUBECONFIG, LEASE, LIST, STATUS, job, pod
from tests.fuzz.junk import JUNK, TREES, WORDS, changed, encoded, spoilt, torn
from tests.fuzz.profile import examples
from tests.fuzz.trial import trial
from tests.runtime.fakes import FakeClock, quiet_log
from tests.runtime.tap import WithoutStreams

pytestmark = pytest.mark.slow

NUMBERS = range(len(FRAMEWORKS))
JOBS = [job(number) for number in NUMBERS]
POLYAXONFILES = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(DIRECTORY.glob("*.polyaxon.yml"))]


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


@examples(100, 4)
@given(torn(spoilt(LIST).map(encoded)), st.sampled_from([200, 200, 200, 410, 429, 500, 504]))
def test_lists(data: bytes, code: int) -> None:
    informer = Informer("/pods", pod_view, Store(), lambda: 0.5, streamed_lists=False)
    informer.next(0.0)
    trial("list", lambda: informer.received(Response(code, data, {"retry-after": "x"}), 0.0))
    informer.next(400.0)


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


@examples(150, 4)
@given(torn(spoilt(JOBS[1]).map(encoded)))
@example(b'{"metadata":{"uid":"\x80"}}')
@example(b"[" * 5000)
def test_answers_to_writes(body: bytes) -> None:
    found = trial("written", lambda: objects.written(body))
    assert isinstance(found.controller_uid, str)
    trial("reduced object", lambda: objects.reduced_to(body, ("spec",)), msgspec.DecodeError)


@examples(100, 3)
@given(st.lists(st.binary(max_size=20), max_size=8))
def test_lines(chunks: list[bytes]) -> None:
    splitter = LineSplitter()
    lines = [line for chunk in chunks for line in trial("lines", lambda chunk=chunk: list(splitter.feed(chunk)))]
    assert all(b"\n" not in line and line for line in lines)


class Lessor(WithoutStreams):
    """Answers every request with one body."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    async def send(self, request: Request) -> Response:
        return Response(200, self.body)


@examples(40, 1)
@given(torn(spoilt(LEASE).map(encoded)))
@example(b"[]")
@example(b'{"spec": 3}')
@example(b'{"metadata": null, "spec": {"holderIdentity": "me", "leaseTransitions": "x"}}')
def test_leases(body: bytes) -> None:
    elector = LeaderElector(Lessor(body), LeaseSettings("default", "operators", "me"), FakeClock(), lambda: 0.5, quiet_log())
    trial("lease", lambda: drive(elector.attempt()))
    trial("lease", lambda: drive(elector.attempt()))
    trial("lease", lambda: drive(elector.release()))


def drive(coroutine: Any) -> Any:
    """A coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("it waits")


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
    judge(*case, [pod(), pod("demo-worker-1", "1")])


@examples(60, 2)
@given(st.sampled_from(NUMBERS), st.lists(spoilt(pod()), min_size=1, max_size=3))
def test_jobs_with_strange_pods(number: int, pods: list[Any]) -> None:
    judge(number, JOBS[number], [pod("demo-worker-1", "1"), *pods])


@examples(60, 2)
@given(st.sampled_from(NUMBERS), st.dictionaries(st.sampled_from(["spec", "metadata", "status", "apiVersion", "kind"]), TREES))
def test_jobs_that_are_anything(number: int, parts: dict[str, Any]) -> None:
    judge(number, {"metadata": {"name": "demo", "namespace": "default", "uid": "uid-demo"}, **parts}, [pod()])


@examples(200, 6)
@given(spoilt(STATUS) | TREES)
def test_statuses(status: Any) -> None:
    raw = json.loads(encoded(status))
    found = trial("read_status", lambda: read_status(raw))
    assert len(found.failures) <= 1000
    trial("status", found.to_json)


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


@examples(60, 2)
@given(st.sampled_from(range(len(POLYAXONFILES))).flatmap(lambda n: spoilt(POLYAXONFILES[n])) | TREES)
def test_polyaxonfiles(document: Any) -> None:
    converted = trial("convert", lambda: convert(document), ConvertError)
    if converted is not None:
        msgspec.json.encode(converted.manifest)


PIECES = [
    "a: ",
    "- ",
    "&a ",
    "*a",
    "!!set ",
    "!!int ",
    "{",
    "}",
    "[",
    "]",
    "\n",
    " ",
    "'",
    '"',
    "|",
    ">",
    "? ",
    "<<: ",
    "---\n",
]
MORE_PIECES = ["...", "%YAML 1.1\n", "!!binary ", "0x", "1_0", "~", ".nan", ":", ",", "#", "\t", "x", "!!float ", "!!bool "]
YAML_TEXTS = st.text(max_size=60) | st.lists(st.sampled_from(PIECES + MORE_PIECES), max_size=25).map("".join)


@examples(150, 4)
@given(YAML_TEXTS)
@example("<<: [&a {<<: *a}]")
@example("!!int ''")
@example("!!timestamp x: 1")
@example("&a [*a]")
def test_yaml(text: str) -> None:
    for _, body in trial("yaml", lambda: list(documents(text)), DocumentError) or ():
        json.dumps(body)


@examples(25, 1)
@given(st.sampled_from(NUMBERS).flatmap(lambda n: spoilt(JOBS[n])), spoilt(pod()))
@example(JOBS[0], changed(pod(), [(("metadata", "ownerReferences"), "set", "", True)]))
@example(JOBS[0], changed(pod(), [(("metadata", "ownerReferences", 0), "set", "", None)]))
def test_jobcommon_plan_accepts_or_refuses_any_document(document: Any, seen: Any) -> None:
    def manifest(body: Any) -> Manifest | None:
        named = (
            isinstance(body, dict) and isinstance(body.get("metadata"), dict) and isinstance(body["metadata"].get("name"), str)
        )
        return Manifest("f", 1, json.loads(encoded(body))) if named and isinstance(body.get("kind"), str) else None

    first, second = manifest(document), manifest(seen)
    if first is not None:
        observed = [second] if second is not None else []
        trial("jobcommon plan", lambda: describe([first], observed, with_manifests=False), UserError)


@examples(15, 0.2)
@given(text=spoilt(KUBECONFIG).map(yaml.safe_dump) | YAML_TEXTS)
@example(text="!!float")
def test_kubeconfigs(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = directory(tmp_path_factory) / "config"
    file.write_text(text, encoding="utf-8", errors="replace")
    source = Kubeconfig(str(file), None, {}, lambda: START)

    async def load() -> str:
        try:
            return (await source.load()).base_url
        except ConfigError as error:
            return str(error)

    # Its loader is not ours: how long it takes is not judged here.
    assert asyncio.run(load()).startswith(("http", str(file)))


def directory(factory: pytest.TempPathFactory, found: list[Path] = []) -> Path:  # noqa: B006  (one for all examples)
    if not found:
        found.append(factory.mktemp("fuzz"))
    return found[0]
