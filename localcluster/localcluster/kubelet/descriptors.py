"""Reading and writing file descriptors without blocking the event loop."""

import asyncio
import os

_CHUNK = 1 << 16


async def read_some(descriptor: int) -> bytes:
    """The next bytes of a pipe or terminal; ``b""`` at its end."""
    os.set_blocking(descriptor, False)
    loop = asyncio.get_running_loop()
    while True:
        try:
            return os.read(descriptor, _CHUNK)
        except BlockingIOError:
            pass
        except OSError:
            return b""  # a terminal whose other side is closed says EIO
        ready = loop.create_future()
        loop.add_reader(descriptor, _resolve, ready)
        try:
            await ready
        finally:
            loop.remove_reader(descriptor)


async def write_all(descriptor: int, data: bytes) -> bool:
    """Write everything; false when the other side is closed."""
    os.set_blocking(descriptor, False)
    loop = asyncio.get_running_loop()
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
            continue
        except BlockingIOError:
            pass
        except OSError:
            return False
        ready = loop.create_future()
        loop.add_writer(descriptor, _resolve, ready)
        try:
            await ready
        finally:
            loop.remove_writer(descriptor)
    return True


def _resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
