"""Which proxy leads to the API server, by the rules of Go's golang.org/x/net/http/httpproxy, which kubectl obeys."""

from collections.abc import Mapping
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}
#: The schemes that the HTTP client supports.
SCHEMES = ("http", "https")


def from_environment(url: str, environ: Mapping[str, str]) -> str | None:
    """The proxy that $HTTPS_PROXY or $HTTP_PROXY names for `url`, unless $NO_PROXY excepts it. Raises ValueError."""
    parts = urlsplit(url)
    proxy = _named(environ, f"{parts.scheme}_proxy")
    if not proxy or not parts.hostname:
        return None
    if _bypassed(parts.hostname, parts.port or _PORTS.get(parts.scheme, 0), _named(environ, "no_proxy")):
        return None
    return checked(proxy if "://" in proxy else f"http://{proxy}")


def checked(proxy: str) -> str:
    """The URL of a proxy. Raises ValueError that names the error."""
    parts = urlsplit(proxy)
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise ValueError(f"the proxy {proxy!r} must be a URL that begins with http:// or https://")
    return proxy


def _named(environ: Mapping[str, str], name: str) -> str:
    """The variable in capitals takes precedence."""
    return environ.get(name.upper()) or environ.get(name, "")


def _bypassed(host: str, port: int, exceptions: str) -> bool:
    entries = [entry.strip().lower() for entry in exceptions.split(",")]
    address: IPv4Address | IPv6Address | None = None
    with suppress(ValueError):
        address = ip_address(host)
    if host == "localhost" or "*" in entries or (address is not None and address.is_loopback):
        return True
    for entry in entries:
        with suppress(ValueError):
            if address is not None and address in ip_network(entry, strict=False):
                return True
        name, _, of_port = entry.removeprefix("*").partition(":")
        # A domain matches itself and its subdomains; with a leading dot or asterisk, its subdomains only.
        if name and of_port in ("", str(port)) and (host == name or host.endswith(f".{name.removeprefix('.')}")):
            return True
    return False
