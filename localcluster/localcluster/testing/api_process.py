"""The process of `localcluster.testing.kubernetes_api`: it starts and stops API servers as its standard input says.

A request is a line with a JSON array: a verb, the directory of the server, and an object of arguments. The answer is a line
with a JSON object, which has an ``error`` if the request made no sense. The process ends with its standard input, so also when
the one that started it is killed.
"""

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localcluster.apiserver import ADMIN, Env, serve
from localcluster.apiserver.http import Running
from localcluster.controllers import Controllers
from localcluster.controllers.access import Access
from localcluster.credentials import Credentials, write_secret
from localcluster.kubeconfig import kubeconfig
from localcluster.testing.faults import Fault, FaultyServer
from localcluster.testing.played_kubelet import PlayedKubelet, PlayedPods


async def answer_requests() -> None:
    """Answer until the input ends. A server whose controllers fail ends them all."""
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async with asyncio.TaskGroup() as tasks, AsyncExitStack() as rest:
        running: dict[str, _Server] = {}
        while line := await lines.readline():
            verb, directory, arguments = json.loads(line)
            if verb == "start":
                stack = await rest.enter_async_context(AsyncExitStack())
                running[directory] = await _start(Path(directory), tasks, stack)
                answer = running[directory].address
            elif verb == "stop":
                await running.pop(directory).stack.aclose()
                answer = {}
            else:
                answer = running[directory].obey(verb, arguments)
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


@dataclass
class _Server:
    stack: AsyncExitStack
    address: dict[str, str]
    server: FaultyServer
    running: Running
    kubelet: PlayedKubelet
    controllers: Controllers

    def obey(self, verb: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Do what a test asks for."""
        try:
            match verb:
                case "fail":
                    self.server.faults.append(Fault(**arguments))
                case "end-faults":
                    return {"vain": self.server.end_faults()}
                case "drop-watches":
                    self.running.stop()
                case "compact":
                    self.server.storage.compact(self.server.storage.rv)
                case "play":
                    self.kubelet.play()
                case "exit":
                    self.kubelet.exit(**arguments)
        except ValueError as error:
            return {"error": str(error)}
        self.controllers.wake()
        return {}


async def _start(directory: Path, tasks: asyncio.TaskGroup, stack: AsyncExitStack) -> _Server:
    """Start a server, which stops with `stack`; its certificate and kubeconfig are files of `directory`."""
    credentials = Credentials.fresh()
    server = FaultyServer(Env.system(), tokens={credentials.token: ADMIN})
    kubelet = PlayedKubelet(Access(server, "kubelet"))
    controllers = Controllers(server, root_ca=credentials.certificate.pem.decode(), more=(kubelet,))
    # The default ServiceAccounts exist before the first request.
    controllers.step()
    stack.callback(tasks.create_task(controllers.run()).cancel)
    context = credentials.certificate.server_context()
    running = await stack.enter_async_context(serve(server, ssl_context=context, pods=PlayedPods()))
    (directory / "ca.crt").write_bytes(credentials.certificate.pem)
    text = kubeconfig(running.url, credentials.token, credentials.certificate.pem)
    write_secret(directory / "kubeconfig", text.encode())
    address = {"url": running.url, "token": credentials.token}
    return _Server(stack, address, server, running, kubelet, controllers)


if __name__ == "__main__":
    asyncio.run(answer_requests())
