"""Which proxy leads to the API server, by the rules of Go's golang.org/x/net/http/httpproxy, which kubectl obeys."""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

_PORTS = {"http": "80", "https": "443"}
#: The schemes that the HTTP client supports.
SCHEMES = ("http", "https")

_Ip = IPv4Address | IPv6Address


def from_environment(url: str, environ: Mapping[str, str]) -> str | None:
    """The proxy that $HTTPS_PROXY or $HTTP_PROXY names for `url`, unless $NO_PROXY excepts it. Raises ValueError."""
    parts = urlsplit(url)
    proxy = _named(environ, f"{parts.scheme}_proxy")
    if not proxy or not parts.hostname:
        return None
    port = str(parts.port or _PORTS.get(parts.scheme, ""))
    if _bypassed(parts.hostname, port, _named(environ, "no_proxy")):
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


@dataclass(frozen=True, slots=True)
class _Target:
    host: str
    port: str
    ip: _Ip | None


def _bypassed(hostname: str, port: str, exceptions: str) -> bool:
    target = _Target(hostname.lower(), port, _ip(hostname))
    if target.host == "localhost" or (target.ip is not None and target.ip.is_loopback):
        return True
    return any(_matches(entry.strip().lower(), target) for entry in exceptions.split(","))


def _matches(entry: str, target: _Target) -> bool:
    """Whether one entry of $NO_PROXY names the target: ``*``, a range of addresses, or an address or domain with a port."""
    if entry in ("", "*"):
        return entry == "*"
    if (network := _network(entry)) is not None:
        return target.ip is not None and target.ip in network
    host, port = _split(entry)
    if not host or port not in ("", target.port):
        return False
    if (ip := _ip(host)) is not None:
        return ip == target.ip
    # A domain matches itself and its subdomains; with a leading dot or asterisk, its subdomains only.
    suffix = host.removeprefix("*") if host.startswith("*.") else host
    return target.host.endswith(suffix if suffix.startswith(".") else f".{suffix}") or target.host == host


def _split(entry: str) -> tuple[str, str]:
    """Host and port ("" without one). The colons of a bare IPv6 address separate no port."""
    if entry.startswith("["):
        host, _, rest = entry[1:].partition("]")
        return host, rest.removeprefix(":")
    if entry.count(":") != 1:
        return entry, ""
    host, _, port = entry.partition(":")
    return host, port


def _ip(text: str) -> _Ip | None:
    try:
        found = ip_address(text)
    except ValueError:
        return None
    return found.ipv4_mapped or found if isinstance(found, IPv6Address) else found


def _network(text: str) -> IPv4Network | IPv6Network | None:
    if "/" not in text:
        return None
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None
