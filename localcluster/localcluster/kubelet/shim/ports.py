"""A port space for each pod, on a network that all pods share.

A program that listens on all addresses, or on localhost, would take its port on every pod's address, and connections meant for
another pod would reach it. The kernel is therefore asked (seccomp user notification) to show init each bind(2) and connect(2)
of the container. A stream socket bound to a fixed port of a wildcard or loopback address is bound to the pod's address instead;
a connection to localhost goes to the pod's address when something listens there. Everything else passes untouched.
"""

# Importing pathlib would add half again to the start-up time of every container.
# ruff: noqa: PTH123
import contextlib
import ctypes
import fcntl
import os
import struct

_LIBC = ctypes.CDLL(None, use_errno=True)
_SECCOMP = {"x86_64": 317, "aarch64": 277}
# Architecture as seccomp names it, bind, connect.
_CALLS = {"x86_64": (0xC000003E, 49, 42), "aarch64": (0xC00000B7, 200, 203)}
_SET_MODE_FILTER, _NEW_LISTENER = 1, 8
_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000
_RECEIVE, _ANSWER = 0xC0502100, 0xC0182101
_CONTINUE = 1
_PIDFD_OPEN, _PIDFD_GETFD = 434, 438
_AF_INET, _AF_INET6 = 2, 10
_SOL_SOCKET, _SO_TYPE, _SOCK_STREAM, _IPPROTO_IPV6, _IPV6_V6ONLY = 1, 3, 1, 41, 26
_LOOPBACK4, _ANY4 = bytes((127, 0, 0, 1)), bytes(4)
_LOOPBACK6, _ANY6 = bytes(15) + b"\x01", bytes(16)
_MAPPED = bytes(10) + b"\xff\xff"


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


class _Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def _instruction(code: int, true: int, false: int, value: int) -> bytes:
    return struct.pack("=HBBI", code, true, false, value)


def watch() -> int:
    """From now on show the bind and connect calls of the caller's children on the returned descriptor. Raises OSError.

    The caller itself must make neither call: it would wait for an answer forever.
    """
    machine = os.uname().machine
    if machine not in _CALLS:
        raise OSError(f"no seccomp filter for {machine}")
    arch, bind, connect = _CALLS[machine]
    load, equal, give = 0x20, 0x15, 0x06
    code = (
        _instruction(load, 0, 0, 4)
        + _instruction(equal, 0, 3, arch)
        + _instruction(load, 0, 0, 0)
        + _instruction(equal, 2, 0, bind)
        + _instruction(equal, 1, 0, connect)
        + _instruction(give, 0, 0, _ALLOW)
        + _instruction(give, 0, 0, _NOTIFY)
    )
    program = _Program(len(code) // 8, code)
    listener: int = _LIBC.syscall(_SECCOMP[machine], _SET_MODE_FILTER, _NEW_LISTENER, ctypes.byref(program))
    if listener < 0:
        raise OSError(ctypes.get_errno(), "seccomp")
    return listener


class PortSpace:
    """Answers the notifications of one container whose pod has `address`."""

    def __init__(self, listener: int, address: str) -> None:
        self.listener = listener
        self._address = bytes(int(part) for part in address.split("."))
        self._bind = _CALLS[os.uname().machine][1]

    def answer(self) -> None:
        """Handle one notification."""
        note = bytearray(80)
        try:
            fcntl.ioctl(self.listener, _RECEIVE, note)
        except OSError:
            return  # the caller was killed while it waited
        identity, pid, _, number, _, _, descriptor, pointer, length = struct.unpack_from("=QIIiIQQQQ", note)
        try:
            # On an error (the caller is gone, its memory cannot be written) the call goes through unchanged.
            with contextlib.suppress(OSError):
                self._redirect(pid, number == self._bind, descriptor & 0x7FFFFFFF, pointer, length & 0xFFFFFFFF)
        finally:
            with contextlib.suppress(OSError):
                fcntl.ioctl(self.listener, _ANSWER, struct.pack("=QqiI", identity, 0, 0, _CONTINUE))

    def _redirect(self, pid: int, binds: bool, descriptor: int, pointer: int, length: int) -> None:
        """Change the socket address in the caller's memory where it is to be changed."""
        wanted = {_AF_INET: 16, _AF_INET6: 28}
        if length < 16:
            return
        data = _memory(pid, pointer, min(length, 28))
        (family,) = struct.unpack_from("=H", data)
        if family not in wanted or len(data) < wanted[family]:
            return
        (port,) = struct.unpack_from("!H", data, 2)
        offset, size = (4, 4) if family == _AF_INET else (8, 16)
        host = data[offset : offset + size]
        if port == 0 or host not in (_ANY4, _LOOPBACK4, _ANY6, _LOOPBACK6, _MAPPED + _LOOPBACK4, _MAPPED + _ANY4):
            return
        own = self._address if family == _AF_INET else _MAPPED + self._address
        if not binds:
            if _listens(self._address, port):
                _memory(pid, pointer + offset, size, own)
            return
        kind, only = _socket_options(pid, descriptor, family)
        if kind != _SOCK_STREAM:
            return
        if only:
            # An IPv6-only socket cannot have an IPv4 address: it gets a port that does not conflict.
            _memory(pid, pointer + 2, 2, b"\0\0")
        else:
            _memory(pid, pointer + offset, size, own)


def _memory(pid: int, address: int, length: int, data: bytes | None = None) -> bytes:
    """Read `length` bytes of another process's memory, or write `data` there. Raises OSError."""
    buffer = ctypes.create_string_buffer(data, length) if data is not None else ctypes.create_string_buffer(length)
    ours = _Vector(ctypes.cast(buffer, ctypes.c_void_p), length)
    theirs = _Vector(address, length)
    call = _LIBC.process_vm_readv if data is None else _LIBC.process_vm_writev
    call.restype = ctypes.c_ssize_t
    done = call(pid, ctypes.byref(ours), ctypes.c_ulong(1), ctypes.byref(theirs), ctypes.c_ulong(1), ctypes.c_ulong(0))
    if done != length:
        raise OSError(ctypes.get_errno(), "process_vm")
    return buffer.raw


def _socket_options(pid: int, descriptor: int, family: int) -> tuple[int, bool]:
    """Type of the socket, and whether it is for IPv6 only. Raises OSError."""
    handle = _LIBC.syscall(_PIDFD_OPEN, _process_of(pid), 0)
    if handle < 0:
        raise OSError(ctypes.get_errno(), "pidfd_open")
    try:
        copy = _LIBC.syscall(_PIDFD_GETFD, handle, descriptor, 0)
        if copy < 0:
            raise OSError(ctypes.get_errno(), "pidfd_getfd")
        try:
            kind = _option(copy, _SOL_SOCKET, _SO_TYPE)
            return kind, family == _AF_INET6 and bool(_option(copy, _IPPROTO_IPV6, _IPV6_V6ONLY))
        finally:
            os.close(copy)
    finally:
        os.close(handle)


def _option(descriptor: int, level: int, name: int) -> int:
    value, size = ctypes.c_int(), ctypes.c_uint(4)
    if _LIBC.getsockopt(descriptor, level, name, ctypes.byref(value), ctypes.byref(size)) < 0:
        raise OSError(ctypes.get_errno(), "getsockopt")
    return value.value


def _process_of(thread: int) -> int:
    with open(f"/proc/{thread}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Tgid:"))


def _listens(address: bytes, port: int) -> bool:
    """Whether a TCP socket listens on exactly this address and port."""
    (word,) = struct.unpack("=I", address)
    short = f"{word:08X}:{port:04X}"
    # An IPv4 address in an IPv6 socket: two zero words, the mark of a mapped address, the address.
    mapped = f"0000000000000000{struct.unpack('=I', _MAPPED[8:])[0]:08X}{short}"
    for name, wanted in (("tcp", short), ("tcp6", mapped)):
        try:
            with open(f"/proc/net/{name}") as file:
                if any(fields[1] == wanted and fields[3] == "0A" for fields in map(str.split, file)):
                    return True
        except OSError:
            continue
    return False
