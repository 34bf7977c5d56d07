"""The command ``jobcommon operator`` with its many options."""

import asyncio
from dataclasses import fields
from pathlib import Path
from typing import Annotated

import typer

from jobcommon.cli.errors import UserError
from jobcommon.cli.framework_options import Chosen, configured
from jobcommon.cli.frameworks import chosen
from jobcommon.cli.options import Context, Frameworks, Kubeconfig, namespace_option


def operator_command(
    framework: Frameworks = None,
    namespace: Annotated[
        list[str] | None, namespace_option("Only jobs in this namespace; repeatable. Default: all namespaces.")
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    workers: Annotated[
        int, typer.Option(metavar="N", help="How many jobs of one framework are reconciled at the same time.", min=1)
    ] = 128,
    metrics_port: Annotated[
        int,
        typer.Option(
            metavar="PORT",
            help="The port of /metrics, /healthz and /readyz; 0 for a free port, -1 for none.",
            min=-1,
            max=65535,
        ),
    ] = 8080,
    metrics_host: Annotated[
        str,
        typer.Option(metavar="ADDRESS", help="The address of that port; 0.0.0.0 in a pod, whose probes come from outside."),
    ] = "127.0.0.1",
    metrics_token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file with the bearer token that /metrics requires.")
    ] = None,
    progress_port: Annotated[
        int,
        typer.Option(
            metavar="PORT",
            help="The HTTPS port to which pods report progress; 0 for a free port, -1 for none.",
            min=-1,
            max=65535,
        ),
    ] = -1,
    progress_host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="The address of that port. Default: 127.0.0.1, or all addresses if --progress-url names another.",
        ),
    ] = "",
    progress_url: Annotated[
        str, typer.Option(metavar="URL", help="The URL by which pods reach it, such as https://NAME.NAMESPACE.svc:8443.")
    ] = "",
    progress_tls: Annotated[
        str,
        typer.Option(metavar="DIRECTORY", help="The directory with its tls.crt, tls.key and ca.crt, such as a mounted Secret."),
    ] = "",
    leader_elect: Annotated[bool, typer.Option(help="Elect a leader among several replicas; the others stand by.")] = False,
    lease_namespace: Annotated[
        str,
        typer.Option(
            metavar="NAMESPACE",
            help="The namespace of the leader's lease. Default: the namespace of the pod, or of the context.",
        ),
    ] = "",
    lease_name: Annotated[
        str, typer.Option(metavar="NAME", help="The lease's name, shared only by the replicas of an operator.")
    ] = "jobcommon-operator",
    qps: Annotated[
        float | None,
        typer.Option(metavar="N", help="Maximum requests per second. Default: the API server's flow control decides."),
    ] = None,
    burst: Annotated[int | None, typer.Option(metavar="N", help="How many requests may exceed --qps at once.", min=1)] = None,
    cluster_domain: Annotated[
        str,
        typer.Option(
            metavar="DOMAIN",
            help="Appended to the addresses of replicas, such as cluster.local. Default: nothing; plain names are "
            "searched in the domain of the operator's own pod, or in cluster.local.",
        ),
    ] = "",
    tracking_finalizer: Annotated[
        bool, typer.Option(help="Keep ended pods until they are counted, so that backoffLimit is exact.")
    ] = True,
    gang_scheduler_name: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="kubernetes, volcano, yunikorn, koordinator, the schedulerName of the coscheduling plugin, or auto: what the "
            "cluster has.",
        ),
    ] = "",
    kueue: Annotated[
        str,
        typer.Option(
            metavar="HOW",
            help="own: own the Kueue Workloads of jobs with the label of a queue. release: give back Workloads that were "
            "owned before.",
        ),
    ] = "",
    log_format: Annotated[str, typer.Option(metavar="FORMAT", help="json or console.")] = "json",
    log_level: Annotated[str, typer.Option(metavar="LEVEL", help="debug, info, warning or error.")] = "info",
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
    from jobcommon.cli.operate import operate, token_in
    from jobcommon.runtime.settings import Settings

    try:
        settings = Settings(
            namespaces=tuple(dict.fromkeys(namespace or ())),
            workers=workers,
            qps=qps,
            burst=burst,
            metrics_port=None if metrics_port < 0 else metrics_port,
            metrics_host=metrics_host,
            metrics_token=None if metrics_token_file is None else token_in(metrics_token_file),
            progress_port=None if progress_port < 0 else progress_port,
            progress_host=progress_host,
            progress_url=progress_url,
            progress_tls=progress_tls,
            leader_elect=leader_elect,
            lease_namespace=lease_namespace,
            lease_name=lease_name,
            cluster_domain=cluster_domain,
            tracking_finalizer=tracking_finalizer,
            gang_scheduler_name=gang_scheduler_name,
            kueue=kueue,
            log_format=log_format,
            log_level=log_level,
        )
        frameworks = configured(chosen(framework or ()), own_options or {})
        asyncio.run(operate(frameworks, settings, kubeconfig, context))
    except ValueError as error:
        field, _, text = str(error).partition(" ")
        option = f"--{field.replace('_', '-')}" if field in {one.name for one in fields(Settings)} else field
        raise UserError(f"{option} {text}") from None
