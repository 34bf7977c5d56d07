"""``jobcommon operator``: the operators against the configured API server."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from jobcommon.cli.errors import UserError
from jobcommon.cli.gc_tuning import collect_garbage_rarely
from jobcommon.client.config import Cluster, ConfigError, find_cluster
from jobcommon.framework import Framework
from jobcommon.runtime import logging
from jobcommon.runtime.logging import Log
from jobcommon.runtime.manager import run_against
from jobcommon.runtime.settings import Settings


def token_in(path: Path) -> str:
    """The token in a file, which no process list shows, unlike an argument. Raises `UserError`."""
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--metrics-token-file {path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not token.isascii() or not token.isprintable() or not token or " " in token:
        raise UserError(f"--metrics-token-file {path}: must hold one token, of printable ASCII characters without blanks")
    return token


def searched_domain(path: Path = Path("/etc/resolv.conf")) -> str:
    """The cluster's domain, which the kubelet has written into the resolver's file of this pod; "" outside of a cluster."""
    try:
        found = re.search(r"^search\s.*?\S+\.svc\.(\S+)\s+svc\.\1(?:\s|$)", path.read_text(encoding="utf-8"), re.MULTILINE)
    except (OSError, UnicodeDecodeError):
        return ""
    return found[1].rstrip(".") if found else ""


def log_refresh_errors(cluster: Cluster, log: Log) -> None:
    """Log why the cluster's credentials cannot be refreshed, once for each change."""

    def changed(error: ConfigError | None) -> None:
        if error is None:
            log.info("the credentials are refreshed again")
        else:
            log.warning("cannot refresh the credentials; the old ones are used while the server accepts them", error=str(error))

    cluster.on_refresh_error = changed


async def operate(frameworks: Sequence[Framework], settings: Settings, kubeconfig: str | None, context: str | None) -> None:
    """Run until SIGTERM or SIGINT, and finish the writes under way. Raises `UserError` if it cannot start."""
    cluster = await find_cluster(kubeconfig, context)
    log_refresh_errors(cluster, logging.setup(settings.log_format, settings.log_level))
    collect_garbage_rarely()
    try:
        settings = replace(settings, search_domain=settings.search_domain or searched_domain())
        await run_against(cluster, frameworks, settings, handle_signals=True)
    except OSError as error:
        text = error.strerror or str(error)
        if settings.progress_port is not None and error.filename is not None:
            raise UserError(f"--progress-tls {error.filename}: {text}") from error
        more = " or --progress-host, --progress-port" if settings.progress_port is not None else ""
        raise UserError(f"{text}; choose another address by --metrics-host, --metrics-port (-1 for none){more}") from error
