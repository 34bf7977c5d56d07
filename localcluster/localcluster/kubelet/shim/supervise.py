"""Init's work: start the command, keep its log, pass signals on, reap, and leave nothing running."""

# Importing pathlib would add half again to the start-up time of every container.
# ruff: noqa: PTH112, PTH123, PTH208

import contextlib
import json
import os
import select
import signal
import sys
from typing import TYPE_CHECKING, Any

from localcluster.kubelet.shim.logfile import LogFile

if TYPE_CHECKING:
    from localcluster.kubelet.shim.ports import PortSpace

_CHUNK = 1 << 16


def report(control: int, message: dict[str, Any]) -> None:
    """Send one line to the kubelet; a kubelet that is gone needs no answer."""
    try:
        os.write(control, json.dumps(message).encode() + b"\n")
    except OSError:
        return


def start(spec: dict[str, Any]) -> int | str:
    """Fork and exec the command; its pid, or the reason it could not be started."""
    failure, write_failure = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _become(spec)
        except (OSError, ValueError) as error:
            os.write(write_failure, str(error).encode())
        finally:
            os._exit(127)
    os.close(write_failure)
    message = b""
    while piece := os.read(failure, _CHUNK):
        message += piece
    os.close(failure)
    if not message:
        return pid
    os.waitpid(pid, 0)
    return message.decode(errors="replace")


def _become(spec: dict[str, Any]) -> None:
    os.setsid()
    out, err = spec["stdout"], spec["stderr"]
    if spec["stdin"] is None:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    else:
        os.dup2(spec["stdin"], 0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    if spec["gid"] is not None:
        os.setgroups(spec["groups"])
        os.setgid(spec["gid"])
    if spec["uid"] is not None:
        os.setuid(spec["uid"])
    if spec["mode"] == "run" and not spec["namespaces"] and sys.platform == "linux":
        from localcluster.kubelet.shim import linux

        linux.die_with_parent(signal.SIGKILL)
    os.umask(0o022)
    try:
        os.chdir(spec["cwd"])
    except PermissionError:
        if spec["cwd_chosen"]:
            raise
        os.chdir("/")
        os.write(2, f"User {os.geteuid()} may not enter {spec['cwd']}, where the cluster was started: starting in /\n".encode())
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    name = spec["argv"][0]
    try:
        os.execvpe(name, spec["argv"], spec["env"])  # noqa: S606 - this is what it is for
    except FileNotFoundError:
        if "/" in name and os.path.exists(name):  # noqa: PTH110 - in a child after fork
            # As runc says it: what is missing is the interpreter of the script.
            raise OSError(f"exec {name}: no such file or directory{_first_line(name)}") from None
        where = f"stat {name}: no such file or directory" if "/" in name else "executable file not found in $PATH"
        raise OSError(f'exec: "{name}": {where}') from None
    except PermissionError:
        raise OSError(f'exec: "{name}": permission denied') from None
    except OSError as error:
        raise OSError(f"exec {name}: {str(error.strerror).lower()}") from None


def _first_line(script: str) -> str:
    """The line that names the interpreter, with its invisible characters."""
    with contextlib.suppress(OSError), open(script, "rb") as opened:
        return f" (its first line: {opened.readline(200).decode(errors='replace')!r})"
    return ""


class Supervisor:
    """Watches one started command until it and everything it started are gone."""

    def __init__(self, spec: dict[str, Any], control: int, command: int, ports: "PortSpace | None") -> None:
        self._control = control
        self._ports = ports
        self._command = command
        self._exec = spec["mode"] == "exec"  # what an exec left running stays until its container ends
        self._alone = os.getpid() == 1  # process 1 of a PID namespace: kill(-1) reaches exactly the container
        self._log = LogFile(spec["log"], spec["log_bytes"]) if spec["log"] else None
        self._early = spec["letters"].encode()
        self._streams = {spec[f"read_{name}"]: name for name in ("stdout", "stderr")} if self._log else {}
        for descriptor in spec["inherit"]:
            if descriptor not in self._streams:
                os.close(descriptor)

    def run(self) -> tuple[int, int]:
        """Exit code (128 + n for signal n) and signal of the command."""
        wake, wake_write = os.pipe()
        os.set_blocking(wake_write, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: self._terminate())
        poll = select.poll()
        for descriptor in (wake, self._control, *self._streams):
            poll.register(descriptor, select.POLLIN)
        if self._ports is not None:
            poll.register(self._ports.listener, select.POLLIN)
        self._follow(self._early)
        status = self._reap()
        while status is None:
            for descriptor, event in poll.poll():
                if descriptor == wake:
                    os.read(wake, _CHUNK)
                elif descriptor == self._control:
                    if not self._obey():
                        poll.unregister(self._control)
                elif self._ports is not None and descriptor == self._ports.listener:
                    if event & select.POLLIN:
                        self._ports.answer()
                    else:
                        poll.unregister(descriptor)  # the other end is closed
                elif not self._copy(descriptor):
                    poll.unregister(descriptor)
            status = self._reap()
        if not self._exec:
            self._kill_rest()
        self._drain()
        if os.WIFSIGNALED(status):
            return 128 + os.WTERMSIG(status), os.WTERMSIG(status)
        return os.WEXITSTATUS(status), 0

    def _reap(self) -> int | None:
        found = None
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid == self._command:
                    found = status
        return found

    def _obey(self) -> bool:
        """Do what the kubelet asks; false once it is gone."""
        try:
            letters = os.read(self._control, _CHUNK)
        except OSError:
            letters = b""
        self._follow(letters or b"K")
        return bool(letters)

    def _follow(self, letters: bytes) -> None:
        if b"T" in letters:
            self._terminate()
        if b"K" in letters:
            self._kill()

    def _terminate(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._command, signal.SIGTERM)

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._command, signal.SIGKILL)
        if self._alone:
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
        elif not self._exec:
            for pid in descendants(os.getpid()):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)

    def _kill_rest(self) -> None:
        """Kill until no child is left: a process may fork between being listed and being killed."""
        while True:
            self._kill()
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                return

    def _copy(self, descriptor: int) -> bool:
        piece = os.read(descriptor, _CHUNK)
        if self._log is not None:
            self._log.write(self._streams[descriptor], piece)
        return bool(piece)

    def _drain(self) -> None:
        for descriptor in self._streams:
            os.set_blocking(descriptor, False)
            with contextlib.suppress(BlockingIOError):
                while self._copy(descriptor):
                    pass
        if self._log is not None:
            self._log.close()


def descendants(root: int) -> list[int]:
    """Every process below `root`, by what /proc (or, without one, ps) says now."""
    children: dict[int, list[int]] = {}
    for pid, parent in _process_table():
        children.setdefault(parent, []).append(pid)
    found, rest = [], list(children.get(root, ()))
    while rest:
        pid = rest.pop()
        found.append(pid)
        rest.extend(children.get(pid, ()))
    return found


def _process_table() -> list[tuple[int, int]]:
    if not os.path.isdir("/proc/self"):
        with os.popen("ps -axo pid=,ppid=") as listing:  # noqa: S605, S607 - a fixed command
            return [(int(pid), int(parent)) for pid, parent in (line.split() for line in listing)]
    table = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                # The command name may hold spaces and parentheses; the fields after the last one are plain.
                table.append((int(name), int(file.read().rpartition(b")")[2].split()[1])))
    return table
