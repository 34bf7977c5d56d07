"""A container's view of the file system: the host's own, with the pod's volumes and its /etc/hosts laid over it.

Nothing is ever created on the host to be mounted upon. Where a mount point is missing, the nearest existing directory is
replaced, in the container's view only, by a tmpfs whose entries are the host's own ones mounted one by one.
"""

# Importing pathlib would add half again to the start-up time of every container.
# ruff: noqa: PTH102, PTH103, PTH112, PTH115, PTH116, PTH118, PTH120, PTH211

import contextlib
import os
import re
import resource
import stat

from localcluster.kubelet.shim import linux

# Consoles and disks of the host that no container gets to see.
_HIDDEN_DEVICE = re.compile(r"(tty\w+|vcs\w*|loop.*|ram\d+|initctl|log)\Z")

Mount = tuple[str, str, bool]  # source on the host, absolute target, read-only


class View:
    """Builds the view inside a fresh mount namespace; the order of calls is `mount_all`, then nothing more."""

    def __init__(self) -> None:
        self._ours: set[str] = set()  # directories on a tmpfs of ours: entries may be created in them
        self._volumes: set[str] = set()  # mounted volumes: anything may be created at any depth

    def mount_all(self, mounts: list[Mount]) -> None:
        """Lay `mounts` over the host's file system. Raises OSError."""
        linux.mount("none", "/", None, linux.MS_REC | linux.MS_PRIVATE)
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        # Replacing a directory holds one descriptor for each of its entries.
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        # Sources are taken before anything is covered: a volume may be mounted over the directory its source lives in.
        trees = [(linux.clone_tree(source), os.path.isdir(source), target, ro) for source, target, ro in mounts]
        trees.sort(key=lambda entry: entry[2].count("/"))
        if any(_existing_parent(target) == "/" for _, _, target, _ in trees):
            self._replace_root()
        for tree, is_dir, target, read_only in trees:
            place = os.path.realpath(target)
            self._ensure(place, is_dir)
            linux.attach_tree(tree, place, read_only=read_only)
            if is_dir and not read_only:
                self._volumes.add(place)
        # Without the right to mount it (some containers forbid it) the host's own /proc stays, which does no harm.
        with contextlib.suppress(OSError):
            linux.mount("proc", "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)

    def _ensure(self, place: str, is_dir: bool) -> None:
        if os.path.lexists(place):
            if os.path.isdir(place) != is_dir:
                raise OSError(f"cannot mount a {'directory' if is_dir else 'file'} over {place}, which is not one")
            return
        parent = _existing_parent(place)
        in_volume = any(parent == known or parent.startswith(f"{known}/") for known in self._volumes)
        if parent not in self._ours and not in_volume:
            self._replace(parent)
        directory = parent
        for name in os.path.relpath(os.path.dirname(place), parent).split("/"):
            directory = os.path.normpath(os.path.join(directory, name))
            os.makedirs(directory, exist_ok=True)
            if not in_volume:
                self._ours.add(directory)
        _create(place, is_dir)

    def _replace(self, directory: str) -> None:
        """Cover `directory` with a tmpfs that shows the same entries."""
        entries = _entries(directory)
        info = os.stat(directory)
        linux.mount("tmpfs", directory, "tmpfs", linux.MS_NOSUID, f"mode={stat.S_IMODE(info.st_mode):o}")
        self._ours.add(directory)
        _fill(directory, entries)
        if directory == "/dev":
            _own_terminals()

    def _replace_root(self) -> None:
        entries = _entries("/")
        linux.mount("tmpfs", "/tmp", "tmpfs", linux.MS_NOSUID, "mode=755")  # noqa: S108 - a mount point that always exists
        _fill("/tmp", entries)  # noqa: S108
        linux.pivot_to("/tmp")  # noqa: S108
        self._ours.add("/")


def _existing_parent(path: str) -> str:
    """The nearest directory above the missing `path` that exists; `path` itself when it does."""
    parent = os.path.realpath(path)
    while not os.path.lexists(parent):
        parent = os.path.dirname(parent)
    return parent


def _entries(directory: str) -> list[tuple[str, str | int, bool]]:
    """Name, symlink target or detached mount, and whether it is a directory, for each entry of `directory`."""
    found: list[tuple[str, str | int, bool]] = []
    with os.scandir(directory) as listing:
        for entry in listing:
            mode = entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode):
                found.append((entry.name, os.readlink(entry.path), False))
            elif not (directory == "/dev" and (stat.S_ISBLK(mode) or _HIDDEN_DEVICE.match(entry.name))):
                # The container could not use an entry that this user may not stat.
                with contextlib.suppress(OSError):
                    found.append((entry.name, linux.clone_tree(entry.path), stat.S_ISDIR(mode)))
    return found


def _fill(directory: str, entries: list[tuple[str, str | int, bool]]) -> None:
    for name, origin, is_dir in entries:
        place = os.path.join(directory, name)
        if isinstance(origin, str):
            os.symlink(origin, place)
        else:
            _create(place, is_dir)
            linux.attach_tree(origin, place)


def _create(place: str, is_dir: bool) -> None:
    if is_dir:
        os.mkdir(place)
    else:
        os.close(os.open(place, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def _own_terminals() -> None:
    """A device node mounted by itself no longer finds its devpts beside it, so /dev/ptmx needs an instance of its own."""
    with contextlib.suppress(OSError):
        linux.mount("devpts", "/dev/pts", "devpts", linux.MS_NOSUID | linux.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620")
        linux.attach_tree(linux.clone_tree("/dev/pts/ptmx"), "/dev/ptmx")
