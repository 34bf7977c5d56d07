"""``jobcommon up``: an embedded cluster in the foreground, for kubectl and everybody else."""

import asyncio
import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from cli.errors import UserError
from cli.garbage import collect_garbage_rarely
from jobcommon.framework import Framework
from localcluster.apiserver import JournalError
from localcluster.cluster import LocalCluster
from localcluster.credentials import write_secret
from localcluster.training import training_cluster


async def up(
    frameworks: Sequence[Framework],
    console: Console,
    *,
    kubeconfig: Path,
    namespace: str,
    data_dir: Path | None,
    port: int,
    operators: bool,
) -> None:
    """Keep an embedded cluster up until cancelled; without `operators` only their kinds are installed."""
    collect_garbage_rarely()
    with refusals(port):
        async with training_cluster(frameworks, data_dir=data_dir, port=port, operators=operators) as running:
            with _written(kubeconfig, running.kubeconfig(namespace), keep=data_dir is not None):
                _introduce(console, running, frameworks, kubeconfig, data_dir)
                await asyncio.Event().wait()


@contextmanager
def refusals(port: int) -> Iterator[None]:
    """Says what to do when the port or the data directory cannot be had."""
    try:
        yield
    except JournalError as error:
        raise UserError(f"--data-dir: {error}") from None
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise UserError(f"--port {port}: it is in use; choose another, or leave it out for a free one") from None


@contextmanager
def _written(path: Path, text: str, *, keep: bool) -> Iterator[None]:
    """The kubeconfig in its place; taken away again when it leads nowhere any more, unless somebody has replaced it."""
    try:
        write_secret(path, text.encode())
    except OSError as error:
        raise UserError(f"--kubeconfig {path}: cannot be written: {error.strerror}") from None
    try:
        yield
    finally:
        if not keep and path.exists() and path.read_text() == text:
            path.unlink()


def _introduce(
    console: Console, running: LocalCluster, frameworks: Sequence[Framework], kubeconfig: Path, data_dir: Path | None
) -> None:
    kinds = ", ".join(framework.kind for framework in frameworks)
    kept = f"in {data_dir}" if data_dir else "in memory only"
    lines = [
        f"The cluster is up at {running.url}. Kinds: {kinds}. Its state is kept {kept}.",
        "",
        "In another terminal:",
        f"  export KUBECONFIG={kubeconfig.absolute()}",
        "  kubectl apply -f examples/pytorch/digits.yaml",
        "  kubectl get pods -w",
        "",
        "Ctrl-C stops it and everything that runs in it.",
    ]
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False, markup=False)
