"""Entry point: one container run or one exec, from its specification to its exit code.

The kubelet holds one end of a socket pair. It first sends the specification, one line of JSON, and then single letters:
``T`` (SIGTERM to the command's process group) and ``K`` (SIGKILL to everything). The shim answers with lines of JSON:
``{"init": pid}`` (as the host sees it), ``{"started": time}``, ``{"error": text}`` when the command could not be started,
and ``{"exited": code, "signal": n}``. End of file on either side means that side is dead: the shim then kills all it started,
which is what leaves no orphan behind when the kubelet is killed with SIGKILL.

Processes: the *outer* one lives in the host's namespaces and waits; *init* is process 1 of the container's PID namespace, so
the kernel kills whatever is left when it ends; the *command* is init's child, so that it has the ordinary signal
dispositions that a process 1 would not have.
"""

# Importing pathlib would add half again to the start-up time of every container.
# ruff: noqa: PTH123

import contextlib
import json
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

from localcluster.kubelet.shim import supervise
from localcluster.kubelet.shim.supervise import report

if TYPE_CHECKING:
    from localcluster.kubelet.shim.ports import PortSpace

LINUX = sys.platform == "linux"

Spec = dict[str, Any]


def _read_spec(control: int) -> Spec:
    received = b""
    while b"\n" not in received:
        piece = os.read(control, 1 << 16)
        if not piece:
            sys.exit(0)
        received += piece
    line, _, letters = received.partition(b"\n")
    spec: Spec = json.loads(line)
    # The kubelet may have sent a command before the specification was read.
    spec["letters"] = letters.decode()
    return spec


def _new_namespaces(user: bool) -> None:
    from localcluster.kubelet.shim import linux

    uid, gid = os.getuid(), os.getgid()
    flags = linux.CLONE_NEWNS | linux.CLONE_NEWPID | linux.CLONE_NEWUTS
    linux.unshare(flags | (linux.CLONE_NEWUSER if user else 0))
    if user:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)


def _join_namespaces(pid: int, user: bool) -> None:
    """Enter the namespaces of `pid`; the user namespace first, for it grants the right to enter the others."""
    from localcluster.kubelet.shim import linux

    kinds = [("user", linux.CLONE_NEWUSER)] if user else []
    kinds += [("pid", linux.CLONE_NEWPID), ("uts", linux.CLONE_NEWUTS), ("mnt", linux.CLONE_NEWNS)]
    handles = [(os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC), kind) for name, kind in kinds]
    for handle, kind in handles:
        linux.setns(handle, kind)
        os.close(handle)


def _guard(parent: int | None) -> None:
    """Die with the parent, also when it died before this call (`parent` is the pid it must still have)."""
    if LINUX:
        from localcluster.kubelet.shim import linux

        linux.die_with_parent(signal.SIGKILL)
        if parent is not None and os.getppid() != parent:
            os._exit(0)


def _port_space(spec: Spec) -> "PortSpace | None":
    """The pod's own ports, where the kernel allows it; without them the pods share the machine's."""
    if not LINUX or not spec["namespaces"] or not spec["address"]:
        return None
    from localcluster.kubelet.shim import ports

    try:
        return ports.PortSpace(ports.watch(), spec["address"])
    except OSError:
        return None


def _init(spec: Spec, control: int) -> None:
    if LINUX:
        from localcluster.kubelet.shim import linux

        if spec["mode"] == "run" and spec["namespaces"]:
            from localcluster.kubelet.shim.mounts import View

            View().mount_all([(source, target, read_only) for source, target, read_only in spec["mounts"]])
            linux.set_hostname(spec["hostname"])
            # Open MPI names its shared memory by host name and process id: pods of one name in two clusters must differ.
            with contextlib.suppress(OSError), open("/proc/sys/kernel/ns_last_pid", "w") as file:
                file.write(str(1000 + int.from_bytes(os.urandom(2)) % 30_000))
        elif not spec["namespaces"]:
            linux.become_subreaper()
    ports = _port_space(spec)
    command = supervise.start(spec)
    if isinstance(command, str):
        report(control, {"error": command})
        return
    report(control, {"started": time.time()})
    code, number = supervise.Supervisor(spec, control, command, ports).run()
    report(control, {"exited": code, "signal": number})


def main() -> None:
    """Run one specification, read from the file descriptor given as the only argument."""
    control = int(sys.argv[1])
    spec = _read_spec(control)
    for descriptor in (control, *spec["inherit"]):
        os.set_inheritable(descriptor, False)  # none of them is the command's
    _guard(spec["parent"])
    try:
        if spec["namespaces"] and spec["mode"] == "run":
            _new_namespaces(spec["user_namespace"])
        elif spec["namespaces"]:
            _join_namespaces(spec["target"], spec["user_namespace"])
    except OSError as error:
        report(control, {"error": f"cannot set up the container's namespaces: {error}"})
        return
    # A fork in this single-threaded program is safe; init must be a child to be process 1 of the new PID namespace.
    gate, open_gate = os.pipe()
    init = os.fork()
    if init == 0:
        os.close(open_gate)
        os.read(gate, 1)  # its pid is reported before anything it does: an exec needs it as soon as the command runs
        os.close(gate)
        try:
            # Outside a PID namespace init must outlive a killed outer process: it is the one that kills the rest.
            if spec["namespaces"]:
                _guard(None)
            _init(spec, control)
        except Exception as error:  # any error must be reported to the kubelet, which is this process's only output
            report(control, {"error": f"cannot set up the container: {error or type(error).__name__}"})
        finally:
            os._exit(0)
    report(control, {"init": init})
    os.close(open_gate)
    for descriptor in spec["inherit"]:
        os.close(descriptor)
    _, status = os.waitpid(init, 0)
    if os.WIFSIGNALED(status):
        report(control, {"exited": 128 + os.WTERMSIG(status), "signal": os.WTERMSIG(status)})
