"""Operator-wide settings."""

import re
from dataclasses import dataclass, field
from ipaddress import ip_address
from math import inf
from urllib.parse import urlsplit

from jobcommon.api.gang import gang_scheduler
from jobcommon.api.kueue import OWN
from jobcommon.framework import Options

_SUBDOMAIN = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")

_ALL = ("0.0.0.0", "::")  # noqa: S104  that pods reach it is asked for


def is_loopback(host: str) -> bool:
    """Whether the name or address is of the loopback interface."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one process, for all its frameworks. Raises ValueError with what to change.

    `namespaces` () means all of them. `workers` is per framework and, where they are named, namespace. `metrics_port` None
    means no server for metrics and health, 0 a free port; with `metrics_token` /metrics requires it as a bearer token.
    `lease_namespace` "" is the namespace of the credentials: in a pod its own. `qps` None means no limit of our own: the API
    server's flow control is the limit. `concurrency` bounds the writes in flight over all frameworks, `slow_start_cap` the pods
    created at once for one replica type. `shutdown_seconds` is the time for the writes in flight when the process is stopped.
    `gang_scheduler_name` is `kubernetes`, `volcano`, the schedulerName under which the coscheduling plugin runs, `auto` for the
    first of these that the cluster has when the operators start, or "" for none. `kueue` is `own` to own the Workloads of jobs
    labelled for a queue of Kueue, or "".

    `progress_port` None means that no reports of progress are taken, 0 a free port. Then `progress_tls` is the directory with
    tls.crt, tls.key and, if clients are to trust an authority, ca.crt. The server listens on `progress_host`; where that is "",
    on all addresses if `progress_url` names another one than the loopback interface, else on 127.0.0.1. Pods use
    `progress_url`, by default the address it listens on.
    """

    namespaces: tuple[str, ...] = ()
    workers: int = 128
    concurrency: int = 32
    slow_start_cap: int = 64
    qps: float | None = None
    burst: int | None = None
    metrics_port: int | None = 8080
    metrics_host: str = "127.0.0.1"
    metrics_token: str | None = field(default=None, repr=False)
    leader_elect: bool = False
    lease_namespace: str = ""
    lease_name: str = "jobcommon-operator"
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    cluster_domain: str = ""
    search_domain: str = ""
    tracking_finalizer: bool = True
    gang_scheduler_name: str = ""
    kueue: str = ""
    progress_port: int | None = None
    progress_host: str = ""
    progress_url: str = ""
    progress_tls: str = ""
    log_format: str = "json"
    log_level: str = "info"
    shutdown_seconds: float = 20.0

    def __post_init__(self) -> None:
        for name in ("workers", "concurrency", "slow_start_cap"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not isinstance(self.namespaces, tuple) or "" in self.namespaces or len(set(self.namespaces)) < len(self.namespaces):
            raise ValueError(f"namespaces must be different names, not {self.namespaces!r}; leave it empty for all")
        if self.qps is not None and not 0 < self.qps < inf:
            raise ValueError(f"qps must be a number over 0, not {self.qps}; leave it unset for no limit")
        if self.burst is not None and self.qps is None:
            raise ValueError("burst has no effect without qps; set both")
        if self.metrics_port is not None and not 0 <= self.metrics_port <= 65535:
            raise ValueError(f"metrics_port must be from 0 to 65535, not {self.metrics_port}")
        if self.progress_port is not None and not 0 <= self.progress_port <= 65535:
            raise ValueError(f"progress_port must be from 0 to 65535, not {self.progress_port}")
        if self.progress_port is not None and not self.progress_tls:
            raise ValueError("progress_tls is needed with progress_port: the directory with tls.crt and tls.key")
        if self.progress_url and not self.progress_url.startswith("https://"):
            raise ValueError(f'progress_url "{self.progress_url[:80]}" must begin with https://')
        if self.progress_port is not None and self.progress_host in _ALL and not self.progress_url:
            raise ValueError(f"progress_url is needed where progress_host is {self.progress_host}: how pods reach it")
        if self.metrics_token is not None and not self.metrics_token.strip():
            raise ValueError("the metrics token is empty; without one leave it unset")
        if self.leader_elect and _SUBDOMAIN.fullmatch(self.lease_name) is None:
            raise ValueError(
                f'lease_name "{self.lease_name[:80]}" is not the name of a lease; use lower-case letters, digits, "-" and "."'
            )
        gang = gang_scheduler(self.gang_scheduler_name)
        if gang is not None and gang.native and self.kueue == OWN:
            raise ValueError(
                f"gang_scheduler_name {gang.name} and kueue {OWN} cannot be used together: Kueue admits the pods of a job "
                "together already; leave one of them out"
            )
        if self.kueue not in ("", OWN):
            raise ValueError(f'kueue must be {OWN}, not "{self.kueue[:80]}"; leave it unset where Kueue itself queues jobs')

    @property
    def report_host(self) -> str:
        """The address on which reports of progress are taken."""
        return self.progress_host or ("127.0.0.1" if self.reports_are_local else _ALL[0])

    @property
    def reports_are_local(self) -> bool:
        """Whether the pods' URL names the loopback interface, as it does without one."""
        return not self.progress_url or is_loopback(urlsplit(self.progress_url).hostname or "")

    @property
    def options(self) -> Options:
        """The part that decisions depend on. With `auto` the gang scheduler is still to be discovered, with `kubernetes` the
        version of its API.
        """
        return Options(
            cluster_domain=self.cluster_domain,
            search_domain=self.search_domain,
            tracking_finalizer=self.tracking_finalizer,
            gang=gang_scheduler(self.gang_scheduler_name),
            kueue=self.kueue == OWN,
        )
