"""``jobcommon up``: an embedded cluster in the foreground, for kubectl and all other clients."""

import asyncio
import errno
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from jobcommon.cli.embedded import SERVER, training_cluster
from jobcommon.cli.errors import UserError
from jobcommon.cli.gc_tuning import collect_garbage_rarely
from jobcommon.cli.python import Python
from jobcommon.framework import Framework
from localcluster.client import REAL, KubeconfigError, check_free, written
from localcluster.conformance import StartError
from localcluster.rules import quantity


async def up(
    frameworks: Sequence[Framework],
    console: Console,
    *,
    kubeconfig: Path,
    namespace: str,
    port: int,
    operators: bool,
    capacity: Mapping[str, str] | None = None,
    with_dashboard: bool = False,
    python: Python,
) -> None:
    """Keep a cluster up until cancelled; without `operators` only their kinds are installed."""
    collect_garbage_rarely()
    with refusals(port):
        check_free(kubeconfig)
        async with training_cluster(
            frameworks,
            port=port,
            operators=operators,
            capacity=capacity,
            python=python.path,
        ) as running:
            with written(kubeconfig, running.kubeconfig(namespace)):
                for line in introduction(running.url, frameworks, kubeconfig, python, with_dashboard):
                    console.print(line, soft_wrap=True, highlight=False, markup=False)
                if with_dashboard:
                    from jobcommon.cli.dashboard.command import show_dashboard

                    await show_dashboard(frameworks, namespace=None, kubeconfig=str(kubeconfig), context=None, port=0)
                await asyncio.Event().wait()


@contextmanager
def refusals(port: int = 0) -> Iterator[None]:
    """Explains what to do if the port, the kubeconfig's place or the real server is not available."""
    try:
        yield
    except StartError as error:
        raise UserError(f"{SERVER}={REAL}: {error}") from None
    except KubeconfigError as error:
        raise UserError(f"--kubeconfig {error}") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise UserError(f"--port {port}: the port is in use; choose another, or leave it out for a free one") from None
        if error.errno == errno.ENOSPC:
            raise UserError("no space left on device: a cluster needs some for its logs and volumes") from None
        raise


def amounts(given: Sequence[str]) -> dict[str, str] | None:
    """The capacity that ``--capacity cpu=4,nvidia.com/gpu=2`` stands for; None without one. Raises UserError."""
    try:
        return quantity.amounts(given) or None
    except ValueError as error:
        raise UserError(f"--capacity {error}") from None


#: For a first try, in a checkout of the project.
EXAMPLE = Path("examples/pytorch/digits.yaml")


def introduction(
    url: str,
    frameworks: Sequence[Framework],
    kubeconfig: Path,
    python: Python,
    with_dashboard: bool = False,
) -> list[str]:
    """How to use the cluster that runs at `url`."""
    kinds = ", ".join(framework.kind for framework in frameworks)
    return [
        f"The cluster is up at {url}. Kinds: {kinds}. Its state ends with it.",
        f"Its {python}.",
        "",
        "In another terminal:",
        f"  export KUBECONFIG={shlex.quote(str(kubeconfig.absolute()))}",
        f"  kubectl apply -f {EXAMPLE if EXAMPLE.exists() else 'job.yaml'}",
        "  kubectl get pods -w",
        *(() if with_dashboard else ("  jobcommon dashboard     # or: jobcommon up --dashboard",)),
        "",
        "Ctrl-C stops it and everything that runs in it.",
    ]
