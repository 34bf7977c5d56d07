"""Metrics under the names of the reference operators, in a registry of our own.

A label child is looked up once and kept: prometheus-client's `labels()` takes a lock and builds a tuple each time.
"""

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from jobcommon.api.status import ConditionType
from jobcommon.api.time_spent import TimeSpent
from jobcommon.client.errors import StatusError
from jobcommon.client.request import OuterTransport, Request, Response, Transport
from jobcommon.controller import telemetry
from jobcommon.controller.telemetry import JOB_DURATION, LABELS, LAUNCH_DELAY, Telemetry
from jobcommon.runtime.clock import Clock

_LATENCIES = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
# A job may wait in a queue for hours, and train for days: from a second to a day, and from ten seconds to two weeks.
_LAUNCH_DELAYS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 28800, 86400)
_DURATIONS = (10, 60, 300, 600, 1800, 3600, 10800, 21600, 43200, 86400, 259200, 604800, 1209600)
# The state of a job before its first status.
NO_CONDITION = "New"
STATES = (NO_CONDITION, *ConditionType)

_OF_JOBS = ("job_namespace", "framework")
_KIND = ("framework",)
_ERRORS = "training_operator_reconcile_errors"
_LAPSED = "training_operator_lapsed_expectations"
_RESTARTS = "training_operator_restarts"
_TIME_SPENT = "training_operator_job_time_seconds"
_PROGRESSING = "training_operator_job_progress_seconds"
_LOST_STEPS = "training_operator_job_lost_steps"
_REFUSED = "training_operator_reports_refused"
_REQUESTS = "rest_client_requests"
_RECONCILES = "training_operator_reconcile_duration_seconds"
_WAITS = "workqueue_queue_duration_seconds"
_REQUEST_SECONDS = "rest_client_request_duration_seconds"
# By name, to which Prometheus adds "_total": the labels and the help text.
_COUNTERS: Mapping[str, tuple[Sequence[str], str]] = {
    telemetry.JOBS_CREATED: (_OF_JOBS, "Jobs accepted."),
    telemetry.JOBS_DELETED: (_OF_JOBS, "Jobs deleted because their time to live had passed."),
    telemetry.JOBS_SUCCESSFUL: (_OF_JOBS, "Jobs that succeeded."),
    telemetry.JOBS_FAILED: (_OF_JOBS, "Jobs that failed."),
    telemetry.JOBS_RESTARTED: (_OF_JOBS, "Times a job went from running to restarting."),
    telemetry.PODS_CREATED: (_OF_JOBS, "Pods created."),
    telemetry.PODS_DELETED: (_OF_JOBS, "Pods deleted."),
    telemetry.PODS_FAILED: (_OF_JOBS, "Failed runs charged to a job."),
    telemetry.POD_GROUPS_CREATED: (_OF_JOBS, "PodGroups created."),
    telemetry.POD_GROUPS_DELETED: (_OF_JOBS, "PodGroups deleted."),
    telemetry.SERVICES_CREATED: (_OF_JOBS, "Services created."),
    telemetry.SERVICES_FAILED: (_OF_JOBS, "Services whose creation was refused."),
    _ERRORS: (_KIND, "Reconciles that raised an exception."),
    _LAPSED: (_KIND, "Writes of the operator that no watch has shown within five minutes."),
    _REQUESTS: (("verb", "code"), "Requests to the API server."),
    _RESTARTS: ((*_KIND, "reason"), "Pods replaced and containers restarted, by what ended them."),
    _TIME_SPENT: (
        (*_KIND, "state"),
        "Seconds that jobs have spent queued, starting, running, restarting, stalled; added when a phase ends.",
    ),
    _PROGRESSING: (_KIND, "Seconds in which the highest step that a job had reported rose; part of the running time."),
    _REFUSED: (_KIND, "Reports of progress with a good token that were not taken; the deadlines of their jobs start again."),
    _LOST_STEPS: (_KIND, "Steps that were repeated after a restart."),
}
# By name: the labels, the help text and the buckets.
_HISTOGRAMS: Mapping[str, tuple[Sequence[str], str, Sequence[float]]] = {
    _RECONCILES: (_KIND, "From the decision to the end of its writes.", _LATENCIES),
    _WAITS: (("name",), "How long a key was ready before its reconcile began.", _LATENCIES),
    _REQUEST_SECONDS: (("verb",), "How long the API server took to answer.", _LATENCIES),
    LAUNCH_DELAY: (
        (*_KIND, "stage"),
        "From the creation of a job to its first pod, to all its pods, and to its first Running condition.",
        _LAUNCH_DELAYS,
    ),
    JOB_DURATION: ((*_KIND, "result"), "From the start of a job, or its last resume, to its end.", _DURATIONS),
}


@dataclass(frozen=True)
class Readings:
    """What the gauges show of a framework's controllers.

    The `depth` of the work queue, the number of `jobs` by the type of the current condition, the seconds since each cache
    was last fed, and the number of `unstored` status fields.
    """

    depth: int
    jobs: Mapping[str, int]
    cache_ages: Mapping[str, float]
    unstored: int

    @property
    def states(self) -> Mapping[str, int]:
        """Every state has a sample, also without a job, so that rates and alerts do not wait for the first one."""
        counts: dict[str, int] = dict.fromkeys(STATES, 0)
        for condition, amount in self.jobs.items():
            counts[condition if condition in counts else NO_CONDITION] += amount
        return counts


# By name: the labels, the help text, and the samples by the label that comes after that of the framework, "" without one.
_GAUGES: Mapping[str, tuple[Sequence[str], str, Callable[[Readings], Mapping[str, float]]]] = {
    "workqueue_depth": (("name",), "Keys that are ready to be reconciled.", lambda found: {"": found.depth}),
    "training_operator_unstored_status_fields": (
        _KIND,
        "Status fields that the API server drops, because the CustomResourceDefinition is outdated.",
        lambda found: {"": found.unstored},
    ),
    "training_operator_jobs": (
        (*_KIND, "state"),
        "Jobs in the cluster by their current condition.",
        lambda found: found.states,
    ),
    "training_operator_cache_age_seconds": (
        (*_KIND, "resource"),
        "Since the API server last sent something for a cache: an object, a list, or a bookmark, about one a minute.",
        lambda found: found.cache_ages,
    ),
}


class Metrics(Collector):
    """All metrics of one process."""

    def __init__(self, *, process: bool = True) -> None:
        # Otherwise each counter and histogram has a second series, its creation time.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry = CollectorRegistry()
        counters = ((name, Counter(name, text, labels, registry=registry)) for name, (labels, text) in _COUNTERS.items())
        histograms = (
            (name, Histogram(name, text, labels, buckets=buckets, registry=registry))
            for name, (labels, text, buckets) in _HISTOGRAMS.items()
        )
        self._families: dict[str, Any] = dict((*counters, *histograms))
        self._leader = Gauge("leader_election_master_status", "1 while this process leads.", ("name",), registry=registry)
        self._readings: Mapping[str, Callable[[], Readings]] = {}
        registry.register(self)
        if process:
            ProcessCollector(registry=registry)
        self._children: dict[tuple[str, ...], Any] = {}

    def published(self, framework: str, namespace: str, found: Telemetry) -> None:
        """Add the counts and durations of a reconcile."""
        for name, amount in found.counts.items():
            self._child(name, namespace, framework).inc(amount)
        for cause, amount in found.restart_causes:
            self._child(_RESTARTS, framework, cause).inc(amount)
        for state, seconds in found.time_spent:
            self._child(_TIME_SPENT, framework, state).inc(seconds)
        for duration in found.durations:
            self._child(duration.name, framework, duration.label).observe(duration.seconds)

    def progressed(self, framework: str, before: TimeSpent | None, after: TimeSpent | None) -> None:
        """Reports of progress have changed the time spent of a job."""
        if before is not None and after is not None:
            self._child(_PROGRESSING, framework).inc(max((after.progressing or 0) - (before.progressing or 0), 0))
            self._child(_LOST_STEPS, framework).inc(max((after.lost_steps or 0) - (before.lost_steps or 0), 0))

    def report_refused(self, framework: str) -> None:
        """A report was not taken; without a framework, the process could accept none. In any thread."""
        self._families[_REFUSED].labels(framework).inc()

    def reconciled(self, framework: str, seconds: float) -> None:
        """A reconcile took `seconds`."""
        self._child(_RECONCILES, framework).observe(seconds)

    def reconcile_failed(self, framework: str) -> None:
        """A reconcile failed with an exception."""
        self._child(_ERRORS, framework).inc()

    def waited(self, framework: str, seconds: float) -> None:
        """A key was ready for `seconds` before its reconcile began."""
        self._child(_WAITS, framework).observe(seconds)

    def requested(self, verb: str, code: str, seconds: float | None) -> None:
        """A request has ended; `code` is the HTTP status, or <error> without a response. `seconds` is None for streams."""
        self._child(_REQUESTS, verb, code).inc()
        if seconds is not None:
            self._child(_REQUEST_SECONDS, verb).observe(seconds)

    def leading(self, lease: str, leads: bool) -> None:
        """Whether this process leads."""
        self._leader.labels(lease).set(int(leads))

    def lapsed(self, framework: str, count: int) -> None:
        """`count` expectations have lapsed."""
        self._child(_LAPSED, framework).inc(count)

    def watch(self, readings: Mapping[str, Callable[[], Readings]]) -> None:
        """Read the gauges of controllers from these, by framework, and no longer from earlier ones. They are called in
        another thread.
        """
        self._readings = readings
        # Prometheus does not count the increase from no sample to the first one.
        for framework in readings:
            for name in (_ERRORS, _LAPSED, _REFUSED):
                self._child(name, framework)
            for name, labels in LABELS.items():
                for label in labels:
                    self._child(name, framework, label)

    def render(self) -> bytes:
        """The metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The gauges, whose samples are read when the metrics are."""
        readings = {framework: read() for framework, read in sorted(self._readings.items())}
        for name, (labels, text, samples) in _GAUGES.items():
            family = GaugeMetricFamily(name, text, labels=labels)
            for framework, found in readings.items():
                for label, value in sorted(samples(found).items()):
                    family.add_metric((framework, label)[: len(labels)], value)
            yield family

    def _child(self, name: str, *values: str) -> Any:
        """A counter or histogram for these values of its labels."""
        child = self._children.get((name, *values))
        if child is None:
            child = self._children[name, *values] = self._families[name].labels(*values)
        return child


NO_ANSWER = "<error>"


class MeteredTransport(OuterTransport):
    """Passes every request to `transport`."""

    def __init__(self, transport: Transport, metrics: Metrics, clock: Clock) -> None:
        super().__init__(transport)
        self._metrics = metrics
        self._clock = clock

    async def send(self, request: Request) -> Response:
        """See `Transport.send`."""
        started = self._clock.monotonic()
        code = NO_ANSWER
        try:
            response = await self._transport.send(request)
            code = str(response.status)
            return response
        finally:
            self._metrics.requested(request.method, code, self._clock.monotonic() - started)

    async def stream(self, request: Request) -> AsyncGenerator[bytes, None]:
        """See `Transport.stream`."""
        code = NO_ANSWER
        try:
            async with aclosing(self._transport.stream(request)) as lines:
                async for line in lines:
                    code = "200"
                    yield line
            code = "200"
        except StatusError as error:
            code = str(error.code)
            raise
        finally:
            self._metrics.requested("WATCH", code, None)
