"""The Linux calls that Python 3.11 has no name for."""

import ctypes
import os

_LIBC = ctypes.CDLL(None, use_errno=True)

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000

MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REC = 0x4000
MS_PRIVATE = 0x40000

_AT_FDCWD = -100
_AT_EMPTY_PATH = 0x1000
_AT_RECURSIVE = 0x8000
_OPEN_TREE_CLONE = 1
_OPEN_TREE_CLOEXEC = 0o2000000
_MOVE_MOUNT_F_EMPTY_PATH = 0x4
_MOUNT_ATTR_RDONLY = 0x1
_MNT_DETACH = 0x2
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "ppc64le": 203, "s390x": 217}
# These numbers are the same on every architecture (the unified table begins at 424).
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442


class _MountAttr(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("attr_set", "attr_clr", "propagation", "userns_fd")]


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def unshare(flags: int) -> None:
    """Move the caller (for CLONE_NEWPID: its later children) into new namespaces. Raises OSError."""
    _checked(_LIBC.unshare(flags), "unshare")


def setns(fd: int, kind: int) -> None:
    """Enter the namespace that `fd` names. Raises OSError."""
    _checked(_LIBC.setns(fd, kind), "setns")


def die_with_parent(signal: int) -> None:
    """Have the kernel send `signal` to the caller when the thread that started it ends."""
    _checked(_LIBC.prctl(_PR_SET_PDEATHSIG, signal, 0, 0, 0), "prctl")


def become_subreaper() -> None:
    """Become the parent of every orphaned descendant."""
    _checked(_LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def set_hostname(name: str) -> None:
    """Set the hostname of the caller's UTS namespace. Raises OSError."""
    encoded = name.encode()
    _checked(_LIBC.sethostname(encoded, len(encoded)), "sethostname")


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    """mount(2). Raises OSError."""
    encoded = [None if text is None else text.encode() for text in (source, target, kind, data)]
    _checked(_LIBC.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3]), f"mount {target}")


def clone_tree(path: str) -> int:
    """A detached copy of the mounts at and below `path`, as a file descriptor. Raises OSError (Linux 5.2 or later)."""
    flags = _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | _AT_RECURSIVE
    return _checked(_LIBC.syscall(_OPEN_TREE, _AT_FDCWD, path.encode(), ctypes.c_uint(flags)), f"open_tree {path}")


def attach_tree(tree: int, target: str, *, read_only: bool = False) -> None:
    """Mount the detached tree at `target` and close its descriptor. Raises OSError."""
    try:
        if read_only:
            attr = _MountAttr(attr_set=_MOUNT_ATTR_RDONLY)
            size = ctypes.c_size_t(ctypes.sizeof(attr))
            flags = ctypes.c_uint(_AT_EMPTY_PATH | _AT_RECURSIVE)
            _checked(_LIBC.syscall(_MOUNT_SETATTR, tree, b"", flags, ctypes.byref(attr), size), "mount_setattr")
        flags = ctypes.c_uint(_MOVE_MOUNT_F_EMPTY_PATH)
        result = _LIBC.syscall(_MOVE_MOUNT, tree, b"", _AT_FDCWD, target.encode(), flags)
        _checked(result, f"move_mount {target}")
    finally:
        os.close(tree)


def pivot_to(new_root: str) -> None:
    """Make the mount at `new_root` the root directory and forget the old one. Raises OSError."""
    number = _PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise OSError(f"pivot_root: unknown on {os.uname().machine}")
    os.chdir(new_root)
    _checked(_LIBC.syscall(number, b".", b"."), "pivot_root")
    _checked(_LIBC.umount2(b".", _MNT_DETACH), "umount2")
    os.chdir("/")
