"""Metrics under the names of the reference operators, in a registry of our own.

A label child is looked up once and kept: prometheus-client's `labels()` takes a lock and builds a tuple each time.
"""

from collections.abc import Callable, Iterator, Mapping

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

from jobcommon.controller import report

JOB_LABELS = ("job_namespace", "framework")
_LATENCIES = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)

# By the report's name of a count: the metric's name and its help text.
_COUNTERS: Mapping[str, tuple[str, str]] = {
    report.JOBS_CREATED: ("training_operator_jobs_created_total", "Jobs taken in hand."),
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


class Metrics:
    """All metrics of one process."""

    def __init__(self, *, process: bool = True) -> None:
        # Otherwise each counter and histogram has a second series, its creation time.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._counters = {
            name: Counter(metric.removesuffix("_total"), text, JOB_LABELS, registry=self.registry)
            for name, (metric, text) in _COUNTERS.items()
        }
        self._children: dict[tuple[str, str, str], Counter] = {}
        self._errors = Counter(
            "training_operator_reconcile_errors", "Reconciles that broke off.", ("framework",), registry=self.registry
        )
        self._lapsed = Counter(
            "training_operator_lapsed_expectations",
            "Writes of the operator that no watch has shown within five minutes.",
            ("framework",),
            registry=self.registry,
        )
        self._reconciles = Histogram(
            "training_operator_reconcile_duration_seconds",
            "From the decision to the end of its writes.",
            ("framework",),
            buckets=_LATENCIES,
            registry=self.registry,
        )
        self._waits = Histogram(
            "workqueue_queue_duration_seconds",
            "How long a key was ready before it was taken up.",
            ("name",),
            buckets=_LATENCIES,
            registry=self.registry,
        )
        self._requests = Counter(
            "rest_client_requests", "Requests to the API server.", ("verb", "code"), registry=self.registry
        )
        self._request_seconds = Histogram(
            "rest_client_request_duration_seconds",
            "How long the API server took to answer.",
            ("verb",),
            buckets=_LATENCIES,
            registry=self.registry,
        )
        self._leader = Gauge("leader_election_master_status", "1 while this process leads.", ("name",), registry=self.registry)
        self._queues = _Gauges("workqueue_depth", "Keys that are ready to be taken up.", "name")
        self._pruned = _Gauges(
            "training_operator_unstored_status_fields",
            "Status fields that the API server drops, because the CustomResourceDefinition is outdated.",
            "framework",
        )
        self.registry.register(self._queues)
        self.registry.register(self._pruned)
        if process:
            ProcessCollector(registry=self.registry)
        self._cached: dict[tuple[object, ...], Counter | Histogram] = {}

    def counted(self, framework: str, namespace: str, counts: Mapping[str, int]) -> None:
        """Add the counts of a report."""
        for name, amount in counts.items():
            key = (name, namespace, framework)
            child = self._children.get(key)
            if child is None:
                child = self._children[key] = self._counters[name].labels(namespace, framework)
            child.inc(amount)

    def reconciled(self, framework: str, seconds: float) -> None:
        """A reconcile took `seconds`."""
        self._histogram(self._reconciles, framework).observe(seconds)

    def reconcile_failed(self, framework: str) -> None:
        """A reconcile failed with an exception."""
        self._counter(self._errors, framework).inc()

    def waited(self, framework: str, seconds: float) -> None:
        """A key was ready for `seconds` before its reconcile began."""
        self._histogram(self._waits, framework).observe(seconds)

    def requested(self, verb: str, code: str, seconds: float | None) -> None:
        """A request has ended; `code` is the HTTP status, or <error> without a response. `seconds` is None for streams."""
        self._counter(self._requests, verb, code).inc()
        if seconds is not None:
            self._histogram(self._request_seconds, verb).observe(seconds)

    def leading(self, lease: str, leads: bool) -> None:
        """Whether this process leads."""
        self._leader.labels(lease).set(int(leads))

    def lapsed(self, framework: str, count: int) -> None:
        """`count` expectations have lapsed."""
        self._counter(self._lapsed, framework).inc(count)

    def watch(self, framework: str, depth: Callable[[], int], pruned: Callable[[], int]) -> None:
        """Report `depth` as the depth of the framework's queue, and how many status fields are `pruned`.

        They are read when the metrics are.
        """
        self._queues.values[framework] = depth
        self._pruned.values[framework] = pruned

    def render(self) -> bytes:
        """The metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def _counter(self, family: Counter, *values: str) -> Counter:
        child = self._cached.get((family, *values))
        if not isinstance(child, Counter):
            child = self._cached[(family, *values)] = family.labels(*values)
        return child

    def _histogram(self, family: Histogram, *values: str) -> Histogram:
        child = self._cached.get((family, *values))
        if not isinstance(child, Histogram):
            child = self._cached[(family, *values)] = family.labels(*values)
        return child


class _Gauges(Collector):
    """A gauge with one label, whose values are read when the metrics are."""

    def __init__(self, name: str, text: str, label: str) -> None:
        self._name = name
        self._text = text
        self._label = label
        self.values: dict[str, Callable[[], int]] = {}

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = GaugeMetricFamily(self._name, self._text, labels=[self._label])
        for label, value in sorted(dict(self.values).items()):
            family.add_metric([label], value())
        yield family
