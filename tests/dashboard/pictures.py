"""Takes pictures of a dashboard's pages in Chromium, in three widths, light and dark, for people to look at.

``python -m tests.dashboard.pictures ADDRESS DIRECTORY [PATH ...]``, with the address that the dashboard has printed.
"""

import asyncio
import sys
from asyncio.subprocess import PIPE
from base64 import b64decode
from itertools import count, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp
from yarl import URL

WIDTHS, SCHEMES = (420, 1000, 1600), ("light", "dark")
OPTIONS = ("--headless", "--no-sandbox", "--hide-scrollbars", "--remote-debugging-port=0")


async def pictures(address: URL, directory: Path, paths: list[str]) -> None:
    with TemporaryDirectory() as profile:
        chromium = await asyncio.create_subprocess_exec("chromium", *OPTIONS, f"--user-data-dir={profile}", stderr=PIPE)
        assert chromium.stderr is not None
        while b"DevTools listening on" not in (line := await chromium.stderr.readline()):
            assert line, "the browser has not started"
        async with aiohttp.ClientSession() as session:
            async with session.put(URL(line.decode().split()[-1]).with_scheme("http").origin() / "json/new") as made:
                page = await made.json(content_type=None)
            socket, numbers = await session.ws_connect(page["webSocketDebuggerUrl"], max_msg_size=0), count(1)

            async def send(method: str, until: str = "", **parameters: Any) -> Any:
                """Send a command of the DevTools protocol; returns its result, after the event `until`."""
                await socket.send_json({"id": (number := next(numbers)), "method": method, "params": parameters})
                while (answer := await socket.receive_json()).get("method" if until else "id") != (until or number):
                    pass
                return answer.get("result")

            await send("Page.enable")
            for path, width, scheme in product(paths, WIDTHS, SCHEMES):
                await send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
                size: dict[str, Any] = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
                await send("Emulation.setDeviceMetricsOverride", **size)
                target = address.join(URL(path)).update_query(token=address.query["token"])
                await send("Page.navigate", "Page.loadEventFired", url=str(target))
                taken = await send("Page.captureScreenshot", captureBeyondViewport=True)
                name = f"{path.strip('/').replace('/', '-') or 'jobs'}-{width}-{scheme}.png"
                (directory / name).write_bytes(b64decode(taken["data"]))
        chromium.terminate()
        await chromium.wait()


if __name__ == "__main__":
    Path(sys.argv[2]).mkdir(parents=True, exist_ok=True)
    asyncio.run(pictures(URL(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:] or ["/"]))
