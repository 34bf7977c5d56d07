"""The command ``jobcommon operator`` with its many options."""

import asyncio
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

from jobcommon.cli.errors import UserError
from jobcommon.cli.framework_options import Chosen, configured
from jobcommon.cli.frameworks import chosen
from jobcommon.cli.options import Context, Frameworks, Kubeconfig, namespace_option, option


def operator_command(
    framework: Frameworks = None,
    namespace: list[str] | None = namespace_option("Only jobs in this namespace; repeatable. Default: all namespaces.", None),
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    workers: int = option(128, "How many jobs of one framework are reconciled at the same time.", "N", min=1),
    metrics_port: int = option(
        8080, "The port of /metrics, /healthz and /readyz; 0 for a free port, -1 for none.", "PORT", min=-1, max=65535
    ),
    metrics_host: str = option(
        "127.0.0.1", "The address of that port; 0.0.0.0 in a pod, whose probes come from outside.", "ADDRESS"
    ),
    metrics_token_file: Path | None = option(None, "A file with the bearer token that /metrics requires.", "FILE"),
    progress_port: int = option(
        -1, "The HTTPS port to which pods report progress; 0 for a free port, -1 for none.", "PORT", min=-1, max=65535
    ),
    progress_host: str = option(
        "", "The address of that port. Default: 127.0.0.1, or all addresses if --progress-url names another.", "ADDRESS"
    ),
    progress_url: str = option("", "The URL by which pods reach it, such as https://NAME.NAMESPACE.svc:8443.", "URL"),
    progress_tls: str = option(
        "", "The directory with its tls.crt, tls.key and ca.crt, such as a mounted Secret.", "DIRECTORY"
    ),
    leader_elect: bool = option(False, "Elect a leader among several replicas; the others stand by."),
    lease_namespace: str = option(
        "", "The namespace of the leader's lease. Default: the namespace of the pod, or of the context.", "NAMESPACE"
    ),
    lease_name: str = option("jobcommon-operator", "The lease's name, shared only by the replicas of an operator.", "NAME"),
    qps: float | None = option(None, "Maximum requests per second. Default: the API server's flow control decides.", "N"),
    burst: int | None = option(None, "How many requests may exceed --qps at once.", "N", min=1),
    cluster_domain: str = option(
        "",
        "Appended to the addresses of replicas, such as cluster.local. Default: nothing; plain names are "
        "searched in the domain of the operator's own pod, or in cluster.local.",
        "DOMAIN",
    ),
    tracking_finalizer: bool = option(True, "Keep ended pods until they are counted, so that backoffLimit is exact."),
    gang_scheduler_name: str = option(
        "",
        "kubernetes, volcano, the schedulerName of the coscheduling plugin, or auto: what the cluster has.",
        "NAME",
    ),
    kueue: str = option("", "own: own the Kueue Workloads of jobs with the label of a queue.", "HOW"),
    log_format: str = option("json", "json or console.", "FORMAT"),
    log_level: str = option("info", "debug, info, warning or error.", "LEVEL"),
    own_options: Chosen | None = None,
) -> None:
    """Run the operators against a cluster.

    The kinds must be installed: jobcommon crds | kubectl apply -f -

    SIGTERM ends it in order: it finishes writes in progress and releases the lease.

    \b
    Examples:
      jobcommon operator --framework pytorch --namespace team-a --namespace team-b
      jobcommon operator --leader-elect --lease-namespace jobcommon
    """
    # An option with the name of a setting sets it; a negative port stands for none.
    given: dict[str, Any] = {name: None if name.endswith("_port") and value < 0 else value for name, value in locals().items()}
    from jobcommon.cli.operate import operate, token_in
    from jobcommon.runtime.settings import Settings

    try:
        settings = Settings(
            **{one.name: given[one.name] for one in fields(Settings) if one.name in given},
            namespaces=tuple(dict.fromkeys(namespace or ())),
            metrics_token=None if metrics_token_file is None else token_in(metrics_token_file),
        )
        frameworks = configured(chosen(framework or ()), own_options or {})
        asyncio.run(operate(frameworks, settings, kubeconfig, context))
    except ValueError as error:
        names = "|".join(one.name for one in fields(Settings))
        raise UserError(re.sub(rf"(?<![-\w])({names})\b", lambda name: f"--{name[0].replace('_', '-')}", str(error))) from None
