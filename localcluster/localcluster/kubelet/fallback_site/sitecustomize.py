"""Loaded by Python programs in pods where there are no namespaces: cluster names and the own hostname are this machine."""

import os
import socket
from typing import Any

_real_getaddrinfo = socket.getaddrinfo
_real_gethostbyname = socket.gethostbyname
_HOSTNAME = os.environ.get("JOBCOMMON_HOSTNAME", "")


def _resolved(host: Any) -> Any:
    text = host.decode() if isinstance(host, bytes) else host
    cluster = isinstance(text, str) and (text == _HOSTNAME or text.endswith((".svc", ".svc.cluster.local")))
    return "127.0.0.1" if cluster and text else host


def _getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
    return _real_getaddrinfo(_resolved(host), *args, **kwargs)


def _gethostbyname(name: Any) -> str:
    return _real_gethostbyname(_resolved(name))


socket.getaddrinfo = _getaddrinfo
socket.gethostbyname = _gethostbyname
if _HOSTNAME:
    socket.gethostname = lambda: _HOSTNAME
