"""String formats that the API server checks in CRD schemas; any other format is documentation only.

The list is that of the apiextensions documentation for `JSONSchemaProps.format`.
"""

import base64
import binascii
import ipaddress
import re
import uuid
from collections.abc import Callable
from datetime import date, datetime
from urllib.parse import urlsplit

_GO_DURATION = re.compile(
    r"[+-]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h|d|w)((\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h|d|w))*|[+-]?0"
)
_DATE_TIME = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})")
_HOSTNAME = re.compile(
    r"(?=.{1,253}$)[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*\.?"
)


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except (ValueError, binascii.Error):
            return False
        return True

    return check


def _matches(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.fullmatch(text) is not None


def _date_time(text: str) -> bool:
    return _DATE_TIME.fullmatch(text) is not None and _parses(datetime.fromisoformat)(text.upper())


def _uri(text: str) -> bool:
    parts = urlsplit(text)
    return bool(parts.scheme or parts.path.startswith("/"))


FORMATS: dict[str, Callable[[str], bool]] = {
    "bsonobjectid": _matches(re.compile(r"[0-9a-fA-F]{24}")),
    "byte": _parses(lambda text: base64.b64decode(text, validate=True)),
    "cidr": _parses(lambda text: ipaddress.ip_network(text, strict=False) if "/" in text else int("not a prefix")),
    "date": _parses(date.fromisoformat),
    "date-time": _date_time,
    "datetime": _date_time,
    "duration": _matches(_GO_DURATION),
    "email": _matches(re.compile(r"[^@\s]+@[^@\s]+")),
    "hexcolor": _matches(re.compile(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})")),
    "hostname": _matches(_HOSTNAME),
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(ipaddress.IPv6Address),
    "mac": _matches(re.compile(r"[0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){5}")),
    "rgbcolor": _matches(re.compile(r"rgb\(\s*\d{1,3}\s*,\s*\d{1,3}\s*,\s*\d{1,3}\s*\)")),
    "uri": _uri,
    "uuid": _parses(uuid.UUID),
}
