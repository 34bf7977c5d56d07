"""Metrics under the names of the reference operators, in a registry of our own.

A label child is looked up once and kept: prometheus-client's `labels()` takes a lock and builds a tuple each time.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

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
from jobcommon.controller import report
from jobcommon.controller.observations import DURATION, LABELS, LAUNCH_DELAY
from jobcommon.controller.report import Report

F = TypeVar("F", Counter, Histogram)
JOB_LABELS = ("job_namespace", "framework")
_LATENCIES = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
# A job may wait in a queue for hours, and train for days: from a second to a day, and from ten seconds to two weeks.
_LAUNCH_DELAYS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 28800, 86400)
_DURATIONS = (10, 60, 300, 600, 1800, 3600, 10800, 21600, 43200, 86400, 259200, 604800, 1209600)
# The state of a job before its first status.
NO_CONDITION = "New"
STATES = (NO_CONDITION, *ConditionType)

Samples = Iterable[tuple[tuple[str, ...], float]]
"""Values of a gauge by the values of its labels."""

# By the report's name of a count: the metric's name and its help text.
_COUNTERS: Mapping[str, tuple[str, str]] = {
    report.JOBS_CREATED: ("training_operator_jobs_created_total", "Jobs accepted."),
    report.JOBS_DELETED: ("training_operator_jobs_deleted_total", "Jobs deleted because their time to live was over."),
    report.JOBS_SUCCESSFUL: ("training_operator_jobs_successful_total", "Jobs that succeeded."),
    report.JOBS_FAILED: ("training_operator_jobs_failed_total", "Jobs that failed."),
    report.JOBS_RESTARTED: ("training_operator_jobs_restarted_total", "Times a job went from running to restarting."),
    report.PODS_CREATED: ("created_pods_total", "Pods created."),
    report.PODS_DELETED: ("deleted_pods_total", "Pods deleted."),
    report.PODS_FAILED: ("failed_pods_total", "Failed runs charged to a job."),
    report.POD_GROUPS_CREATED: ("created_pod_groups_total", "PodGroups created."),
    report.POD_GROUPS_DELETED: ("deleted_pod_groups_total", "PodGroups deleted."),
    report.SERVICES_CREATED: ("succeeded_service_creation_total", "Services created."),
    report.SERVICES_FAILED: ("failed_service_creation_total", "Services whose creation was refused."),
}


@dataclass(frozen=True)
class Readings:
    """What is read of a framework's controller each time the metrics are, in another thread.

    The `depth` of the work queue, the number of `jobs` by the type of the current condition, the seconds since each cache
    was last fed, and the number of `unstored` status fields.
    """

    depth: Callable[[], int]
    jobs: Callable[[], Mapping[str, int]]
    cache_ages: Callable[[], Mapping[str, float]]
    unstored: Callable[[], int]


class Metrics:
    """All metrics of one process."""

    def __init__(self, *, process: bool = True) -> None:
        # Otherwise each counter and histogram has a second series, its creation time.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, registry=self.registry)

        def histogram(name: str, text: str, label: Sequence[str], buckets: Sequence[float] = _LATENCIES) -> Histogram:
            return Histogram(name, text, label, buckets=buckets, registry=self.registry)

        of_kind = ("framework",)
        self._counters = {
            name: counter(metric.removesuffix("_total"), text, *JOB_LABELS) for name, (metric, text) in _COUNTERS.items()
        }
        self._errors = counter("training_operator_reconcile_errors", "Reconciles that raised an exception.", *of_kind)
        text = "Writes of the operator that no watch has shown within five minutes."
        self._lapsed = counter("training_operator_lapsed_expectations", text, *of_kind)
        text = "From the decision to the end of its writes."
        self._reconciles = histogram("training_operator_reconcile_duration_seconds", text, of_kind)
        text = "How long a key was ready before its reconcile began."
        self._waits = histogram("workqueue_queue_duration_seconds", text, ("name",))
        self._requests = counter("rest_client_requests", "Requests to the API server.", "verb", "code")
        text = "How long the API server took to answer."
        self._request_seconds = histogram("rest_client_request_duration_seconds", text, ("verb",))
        text = "Pods replaced and containers restarted, by what ended them."
        self._restarts = counter("training_operator_restarts", text, *of_kind, "reason")
        text = "Seconds that jobs have spent so: queued, starting, running, restarting, stalled; added when a phase ends."
        self._time_spent = counter("training_operator_job_time_seconds", text, *of_kind, "state")
        text = "Seconds in which the highest step that a job had reported rose; part of the running time."
        self._progressing = counter("training_operator_job_progress_seconds", text, *of_kind)
        text = "Steps that were made again after a restart."
        self._lost_steps = counter("training_operator_job_lost_steps", text, *of_kind)
        launch = "From the creation of a job to its first pod, to all its pods, and to its first Running condition."
        text = "From the start of a job, or its last resume, to its end."
        self._durations = {
            LAUNCH_DELAY: histogram("training_operator_launch_delay_seconds", launch, (*of_kind, "stage"), _LAUNCH_DELAYS),
            DURATION: histogram("training_operator_job_duration_seconds", text, (*of_kind, "result"), _DURATIONS),
        }
        self._leader = Gauge("leader_election_master_status", "1 while this process leads.", ("name",), registry=self.registry)
        self._readings: dict[str, Readings] = {}
        for gauge in self._gauges():
            self.registry.register(gauge)
        if process:
            ProcessCollector(registry=self.registry)
        self._children: dict[tuple[object, ...], Any] = {}

    def reported(self, framework: str, namespace: str, found: Report) -> None:
        """Add the counts and durations of a report."""
        for name, amount in found.counts.items():
            self._child(self._counters[name], namespace, framework).inc(amount)
        for cause, amount in found.restarts:
            self._child(self._restarts, framework, cause).inc(amount)
        for state, seconds in found.time_spent:
            self._child(self._time_spent, framework, state).inc(seconds)
        for observation in found.observations:
            histogram = self._child(self._durations[observation.name], framework, observation.label)
            histogram.observe(observation.seconds)

    def progressed(self, framework: str, before: TimeSpent | None, after: TimeSpent | None) -> None:
        """Reports of progress have changed the time spent of a job."""
        if before is not None and after is not None:
            self._child(self._progressing, framework).inc(max((after.progressing or 0) - (before.progressing or 0), 0))
            self._child(self._lost_steps, framework).inc(max((after.lost_steps or 0) - (before.lost_steps or 0), 0))

    def reconciled(self, framework: str, seconds: float) -> None:
        """A reconcile took `seconds`."""
        self._child(self._reconciles, framework).observe(seconds)

    def reconcile_failed(self, framework: str) -> None:
        """A reconcile failed with an exception."""
        self._child(self._errors, framework).inc()

    def waited(self, framework: str, seconds: float) -> None:
        """A key was ready for `seconds` before its reconcile began."""
        self._child(self._waits, framework).observe(seconds)

    def requested(self, verb: str, code: str, seconds: float | None) -> None:
        """A request has ended; `code` is the HTTP status, or <error> without a response. `seconds` is None for streams."""
        self._child(self._requests, verb, code).inc()
        if seconds is not None:
            self._child(self._request_seconds, verb).observe(seconds)

    def leading(self, lease: str, leads: bool) -> None:
        """Whether this process leads."""
        self._leader.labels(lease).set(int(leads))

    def lapsed(self, framework: str, count: int) -> None:
        """`count` expectations have lapsed."""
        self._child(self._lapsed, framework).inc(count)

    def watch(self, readings: Mapping[str, Readings]) -> None:
        """Read the gauges of controllers from these, by framework, and no longer from earlier ones."""
        self._readings = dict(readings)
        # Prometheus does not count the increase from no sample to the first one.
        for framework in readings:
            for family in (self._errors, self._lapsed):
                self._child(family, framework)
            for name, labels in LABELS.items():
                for label in labels:
                    self._child(self._durations[name], framework, label)

    def render(self) -> bytes:
        """The metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def _gauges(self) -> Iterator[Collector]:
        def of_all(read: Callable[[Readings], Samples]) -> Callable[[], Samples]:
            return lambda: [((name, *of), value) for name, found in self._readings.items() for of, value in read(found)]

        yield _Gauge("workqueue_depth", "Keys that are ready to be reconciled.", ("name",), of_all(lambda r: [((), r.depth())]))
        yield _Gauge(
            "training_operator_unstored_status_fields",
            "Status fields that the API server drops, because the CustomResourceDefinition is outdated.",
            ("framework",),
            of_all(lambda r: [((), r.unstored())]),
        )
        yield _Gauge(
            "training_operator_jobs",
            "Jobs in the cluster by their current condition.",
            ("framework", "state"),
            of_all(lambda r: _by_state(r.jobs())),
        )
        yield _Gauge(
            "training_operator_cache_age_seconds",
            "Since the API server last sent something for a cache: an object, a list, or a bookmark, about one a minute.",
            ("framework", "resource"),
            of_all(lambda r: [((resource,), age) for resource, age in r.cache_ages().items()]),
        )

    def _child(self, family: F, *values: str) -> F:
        child: F | None = self._children.get((family, *values))
        if child is None:
            child = self._children[family, *values] = family.labels(*values)
        return child


def _by_state(jobs: Mapping[str, int]) -> Samples:
    """Every state has a sample, also without a job, so that rates and alerts do not wait for the first one."""
    counts: dict[str, int] = dict.fromkeys(STATES, 0)
    for condition, amount in jobs.items():
        counts[condition if condition in counts else NO_CONDITION] += amount
    return [((state,), amount) for state, amount in counts.items()]


class _Gauge(Collector):
    """A gauge whose samples are read when the metrics are."""

    def __init__(self, name: str, text: str, labels: tuple[str, ...], read: Callable[[], Samples]) -> None:
        self._name = name
        self._text = text
        self._labels = labels
        self._read = read

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = GaugeMetricFamily(self._name, self._text, labels=self._labels)
        for labels, value in sorted(self._read()):
            family.add_metric(labels, value)
        yield family
