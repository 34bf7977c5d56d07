"""The process of `testutil.kubernetes_api`: it starts and stops API servers as its standard input says.

A request is a line with a JSON array, ``["start", DIRECTORY]`` or ``["stop", DIRECTORY]``; the answer is a line with a JSON
object. It ends with its standard input, so also when the process that started it is killed.
"""

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from localcluster.apiserver import ADMIN, ApiServer, Env, serve
from localcluster.controllers import Controllers
from localcluster.credentials import Credentials, write_secret
from localcluster.kubeconfig import kubeconfig


async def answer_requests() -> None:
    """Answer until the input ends. A server whose controllers fail ends them all."""
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async with asyncio.TaskGroup() as tasks, AsyncExitStack() as rest:
        running: dict[str, AsyncExitStack] = {}
        while line := await lines.readline():
            verb, directory = json.loads(line)
            if verb == "start":
                running[directory] = await rest.enter_async_context(AsyncExitStack())
                answer = await _start(Path(directory), tasks, running[directory])
            else:
                await running.pop(directory).aclose()
                answer = {}
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


async def _start(directory: Path, tasks: asyncio.TaskGroup, stack: AsyncExitStack) -> dict[str, str]:
    """Start a server, which stops with `stack`; its certificate and kubeconfig are files of `directory`."""
    credentials = Credentials.fresh()
    server = ApiServer(Env.system(), tokens={credentials.token: ADMIN})
    controllers = Controllers(server, root_ca=credentials.certificate.pem.decode())
    # The default ServiceAccounts exist before the first request.
    controllers.step()
    stack.callback(tasks.create_task(controllers.run()).cancel)
    running = await stack.enter_async_context(serve(server, ssl_context=credentials.certificate.server_context()))
    (directory / "ca.crt").write_bytes(credentials.certificate.pem)
    text = kubeconfig(running.url, credentials.token, credentials.certificate.pem)
    write_secret(directory / "kubeconfig", text.encode())
    return {"url": running.url, "token": credentials.token}


if __name__ == "__main__":
    asyncio.run(answer_requests())
