"""``jobcommon dashboard``: the page for the cluster of a kubeconfig."""

import asyncio
import errno
from collections.abc import Sequence

import typer

from jobcommon.cli.dashboard.server import serve_dashboard
from jobcommon.cli.errors import UserError
from jobcommon.client.config import find_cluster
from jobcommon.client.transport import HttpTransport
from jobcommon.framework import Framework


async def show_dashboard(
    frameworks: Sequence[Framework], *, namespace: str | None, kubeconfig: str | None, context: str | None, port: int
) -> None:
    """Serve the page for a cluster until cancelled. Raises `UserError` if it cannot start."""
    cluster = await find_cluster(kubeconfig, context)
    transport = HttpTransport(cluster)
    try:
        where = f"{context}, {cluster.route.base_url}" if context else cluster.route.base_url
        async with serve_dashboard(transport, frameworks, where=where, namespace=namespace, port=port) as address:
            typer.echo(f"The dashboard is at {address}")
            typer.echo("It is read-only, and open to programs on this machine that know the address. Ctrl-C stops it.")
            await asyncio.Event().wait()
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise UserError(f"--port {port}: the port is in use; choose another, or leave it out for a free one") from None
    finally:
        await transport.close()
