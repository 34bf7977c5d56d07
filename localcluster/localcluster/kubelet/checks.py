"""Single checks of a container over the network, as probes make them."""

import asyncio
from collections.abc import Mapping
from typing import Any

import aiohttp

from localcluster.kubelet.lifecycle import Container


def port_number(port: int | str, container: Container) -> int:
    """A port given by number or by the name of one of the container's ports. Raises ValueError."""
    for entry in container.get("ports") or []:
        if entry.get("name") == port:
            return int(entry["containerPort"])
    try:
        return int(port)
    except ValueError:
        raise ValueError(f"container {container['name']!r} has no port named {port!r}") from None


async def check_http(target: Mapping[str, Any], container: Container, address: str, seconds: float) -> str:
    """GET as an httpGet probe does; "" when the status is 200 to 399, else what went wrong."""
    scheme = (target.get("scheme") or "HTTP").lower()
    headers = {header["name"]: header["value"] for header in target.get("httpHeaders") or []}
    try:
        host, port = target.get("host") or address, port_number(target["port"], container)
        url = f"{scheme}://{host}:{port}/{(target.get('path') or '/').lstrip('/')}"
        timeout = aiohttp.ClientTimeout(total=seconds)
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=False) as session,
            # The real kubelet does not verify a probed certificate either.
            session.get(url, headers=headers, ssl=False) as response,
        ):
            return "" if 200 <= response.status < 400 else f"HTTP probe failed with statuscode: {response.status}"
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        return f'Get "{target.get("path") or "/"}": {error or type(error).__name__}'


async def check_tcp(target: Mapping[str, Any], container: Container, address: str, seconds: float) -> str:
    """Open a connection as a tcpSocket probe does; "" when that works, else what went wrong."""
    try:
        port = port_number(target["port"], container)
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(target.get("host") or address, port)
        writer.close()
        return ""
    except (TimeoutError, OSError, ValueError) as error:
        return f"dial tcp {address}:{target['port']}: {error or type(error).__name__}"
