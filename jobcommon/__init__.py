"""The common job controller for Kubernetes training jobs.

The names a framework's author needs; each is imported when it is first used, so that ``import jobcommon`` costs next to
nothing and the pure parts never load an HTTP client.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jobcommon.api.job import (
        CleanPodPolicy,
        JobSpec,
        ReplicaSpec,
        RestartPolicy,
        RunPolicy,
    )
    from jobcommon.api.model import ApiModel
    from jobcommon.api.observed import Observed
    from jobcommon.api.pod import PodView
    from jobcommon.api.replica import Replica, replica_count
    from jobcommon.api.status import ConditionType, JobStatus
    from jobcommon.client.config import ConfigError, find_cluster
    from jobcommon.client.errors import ClientError, StatusError, TransportError
    from jobcommon.client.request import Request, Response, Transport
    from jobcommon.client.transport import HttpTransport, StaticEndpoint, Timeouts
    from jobcommon.framework import (
        CelRule,
        Column,
        Companion,
        EnvVar,
        FieldError,
        Framework,
        Job,
        Options,
        Outcome,
        ReplicaType,
        ScalePaths,
        Tally,
        Version,
        follow_leader,
    )
    from jobcommon.reconcile import Plan, plan, read_job
    from jobcommon.runtime.manager import run_against, run_operators
    from jobcommon.runtime.settings import Settings

_HOMES = {
    "jobcommon.api.job": ("CleanPodPolicy", "JobSpec", "ReplicaSpec", "RestartPolicy", "RunPolicy"),
    "jobcommon.api.model": ("ApiModel",),
    "jobcommon.api.observed": ("Observed",),
    "jobcommon.api.pod": ("PodView",),
    "jobcommon.api.replica": ("Replica", "replica_count"),
    "jobcommon.api.status": ("ConditionType", "JobStatus"),
    "jobcommon.client.config": ("ConfigError", "find_cluster"),
    "jobcommon.client.errors": ("ClientError", "StatusError", "TransportError"),
    "jobcommon.client.request": ("Request", "Response", "Transport"),
    "jobcommon.client.transport": ("HttpTransport", "StaticEndpoint", "Timeouts"),
    "jobcommon.framework": (
        "CelRule",
        "Column",
        "Companion",
        "EnvVar",
        "FieldError",
        "Framework",
        "Job",
        "Options",
        "Outcome",
        "ReplicaType",
        "ScalePaths",
        "Tally",
        "Version",
        "follow_leader",
    ),
    "jobcommon.reconcile": ("Plan", "plan", "read_job"),
    "jobcommon.runtime.manager": ("run_against", "run_operators"),
    "jobcommon.runtime.settings": ("Settings",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "ApiModel",
    "CelRule",
    "CleanPodPolicy",
    "ClientError",
    "Column",
    "Companion",
    "ConditionType",
    "ConfigError",
    "EnvVar",
    "FieldError",
    "Framework",
    "HttpTransport",
    "Job",
    "JobSpec",
    "JobStatus",
    "Observed",
    "Options",
    "Outcome",
    "Plan",
    "PodView",
    "Replica",
    "ReplicaSpec",
    "ReplicaType",
    "Request",
    "Response",
    "RestartPolicy",
    "RunPolicy",
    "ScalePaths",
    "Settings",
    "StaticEndpoint",
    "StatusError",
    "Tally",
    "Timeouts",
    "Transport",
    "TransportError",
    "Version",
    "find_cluster",
    "follow_leader",
    "plan",
    "read_job",
    "replica_count",
    "run_against",
    "run_operators",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        # Read when it is asked for: to find the distribution's metadata takes longer than everything else here.
        from importlib.metadata import version

        globals()[name] = found = version("jobcommon")
        return found
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
