"""Environment, volumes, names, logs and placement: what the kubelet works out without running anything."""

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from localcluster.kubelet import fallback, scheduler
from localcluster.kubelet.container import termination_message
from localcluster.kubelet.environment import ConfigError, container_environment, expand
from localcluster.kubelet.hosts import Names
from localcluster.kubelet.logs import read_log
from localcluster.kubelet.shim.logfile import LogFile
from localcluster.kubelet.volumes import mount_source, projected_files, write_files
from localcluster.pod_backend import LogOptions

POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "d", "uid": "u", "labels": {"a": "1", "b": 'x"y'}, "annotations": {"k/n": "v"}},
    "spec": {"nodeName": "n", "containers": [{"name": "c"}]},
    "status": {"podIP": "127.1.2.3", "hostIP": "127.0.0.1"},
}
OBJECTS: dict[tuple[str, str], dict[str, Any] | None] = {
    ("ConfigMap", "cm"): {"data": {"k": "v", "1bad": "x"}, "binaryData": {"bin": base64.b64encode(b"\x00\x01").decode()}},
    ("Secret", "s"): {"data": {"k": base64.b64encode(b"hidden").decode()}},
    ("ConfigMap", "none"): None,
}
CAPACITY = {"cpu": "4", "memory": "8Gi"}


def key_ref(kind: str, name: str, key: str, **more: Any) -> dict[str, Any]:
    return {"name": "X", "valueFrom": {f"{kind}KeyRef": {"name": name, "key": key, **more}}}


def field(path: str) -> dict[str, Any]:
    return {"name": "X", "valueFrom": {"fieldRef": {"fieldPath": path}}}


def resource(name: str, **more: Any) -> dict[str, Any]:
    return {"name": "X", "valueFrom": {"resourceFieldRef": {"resource": name, **more}}}


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)-$(C)-$$(A)"}]}, {"A": "1", "B": "1-$(C)-$(A)"}),
        ({"env": [{"name": "A"}]}, {"A": ""}),
        ({"env": [key_ref("configMap", "cm", "k")]}, {"X": "v"}),
        ({"env": [key_ref("secret", "s", "k")]}, {"X": "hidden"}),
        ({"env": [key_ref("configMap", "cm", "no", optional=True)]}, {}),
        ({"env": [key_ref("configMap", "none", "no", optional=True)]}, {}),
        ({"env": [field("metadata.name")]}, {"X": "p"}),
        ({"env": [field("status.podIP")]}, {"X": "127.1.2.3"}),
        ({"env": [field("metadata.labels['a']")]}, {"X": "1"}),
        ({"env": [field("metadata.annotations['k/n']")]}, {"X": "v"}),
        ({"env": [field("metadata.labels['none']")]}, {"X": ""}),
        ({"env": [field("spec.serviceAccountName")]}, {"X": "default"}),
        ({"env": [resource("limits.cpu")]}, {"X": "4"}),
        ({"env": [resource("limits.cpu", divisor="1m")], "resources": {"limits": {"cpu": "1500m"}}}, {"X": "1500"}),
        ({"env": [resource("limits.cpu")], "resources": {"limits": {"cpu": "1500m"}}}, {"X": "2"}),
        ({"env": [resource("requests.memory", divisor="1Mi")], "resources": {"limits": {"memory": "2Gi"}}}, {"X": "2048"}),
        ({"envFrom": [{"configMapRef": {"name": "cm"}, "prefix": "P_"}, {"secretRef": {"name": "s"}}]}, None),
        ({"envFrom": [{"secretRef": {"name": "s"}}], "env": [{"name": "k", "value": "own"}]}, {"k": "own"}),
    ],
)
def test_environment(container: dict[str, Any], expected: dict[str, str] | None) -> None:
    found = container_environment(POD, {"name": "c", **container}, OBJECTS, CAPACITY)
    assert found == (expected if expected is not None else {"P_k": "v", "P_1bad": "x", "P_bin": "\x00\x01", "k": "hidden"})


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (key_ref("configMap", "none", "k"), 'configmap "none" not found'),
        (key_ref("configMap", "cm", "no"), "couldn't find key no in ConfigMap d/cm"),
        (key_ref("secret", "other", "k"), 'secret "other" not found'),
        (field("spec.nothing"), "fieldPath 'spec.nothing' is not supported by the downward API"),
    ],
)
def test_what_is_missing_is_named(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")):
        container_environment(POD, {"name": "c", "env": [entry]}, OBJECTS, CAPACITY)


def test_projected_files_have_the_modes_asked_for() -> None:
    sources = [
        {"configMap": {"name": "cm", "items": [{"key": "k", "path": "d/k", "mode": 0o555}]}}, {"secret": {"name": "s"}},
        {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        {"serviceAccountToken": {"path": "token"}},
    ]  # fmt: skip
    volume = {"name": "v", "projected": {"defaultMode": 0o440, "sources": sources}}
    assert projected_files(POD, volume, OBJECTS, {"": "t0ken"}) == {
        "d/k": (b"v", 0o555), "k": (b"hidden", 0o440), "labels": (b'a="1"\nb="x\\"y"', 0o440), "token": (b"t0ken", 0o440),
    }  # fmt: skip
    assert projected_files(POD, {"configMap": {"name": "cm"}}, OBJECTS, {})["bin"] == (b"\x00\x01", 0o644)
    assert projected_files(POD, {"configMap": {"name": "none", "optional": True}}, OBJECTS, {}) == {}
    with pytest.raises(ConfigError, match="non-existent config key: no"):
        projected_files(POD, {"secret": {"secretName": "s", "items": [{"key": "no", "path": "p"}]}}, OBJECTS, {})


def test_files_change_all_at_once_and_stay_when_nothing_changed(tmp_path: Path) -> None:
    write_files(tmp_path, {"a": (b"1", 0o444), "sub/b": (b"2", 0o600)})
    first = (tmp_path / "..data").readlink()
    assert (tmp_path / "a").read_bytes() == b"1"
    assert (tmp_path / "sub/b").stat().st_mode & 0o777 == 0o600
    write_files(tmp_path, {"a": (b"1", 0o444), "sub/b": (b"2", 0o600)})
    assert (tmp_path / "..data").readlink() == first
    write_files(tmp_path, {"a": (b"new", 0o444)})
    assert (tmp_path / "a").read_bytes() == b"new"
    assert sorted(p.name for p in tmp_path.iterdir() if not p.name.startswith("..")) == ["a"]
    assert not (tmp_path / first).exists()


@pytest.mark.parametrize("path", ["../x", "/x", "a/../../x", "..x"])
def test_a_volume_item_cannot_leave_its_volume(tmp_path: Path, path: str) -> None:
    with pytest.raises(ConfigError, match="must be relative"):
        write_files(tmp_path, {path: (b"", 0o644)})


def test_sub_paths_stay_inside(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("/etc")
    assert mount_source(tmp_path, {"subPathExpr": "$(A)"}, {"A": "x"}, expand) == tmp_path / "x"
    for sub in ("../x", "out", "/etc"):
        with pytest.raises(ConfigError, match="subPath"):
            mount_source(tmp_path, {"subPath": sub}, {}, expand)


def named(name: str, namespace: str = "d", **changes: Any) -> dict[str, Any]:
    labels = changes.pop("labels", {})
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": name, "labels": labels},
        "spec": {"containers": [], **changes},
    }


def service(name: str, **selector: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "d"}, "spec": {"selector": selector}}


def resolve(path: Path, name: str) -> list[str]:
    return [parts[0] for line in path.read_text().splitlines() if name in (parts := line.split())[1:]]


def test_names_follow_the_pods_and_services_there_are(tmp_path: Path) -> None:
    due: list[Callable[[], None]] = []
    names = Names(due.append)
    names.set_pod("a", named("a", subdomain="job", labels={"x": "1"}), "127.0.0.10")
    hosts = tmp_path / "hosts"
    names.open("a", hosts)
    names.set_pod("b", named("b", subdomain="job", hostname="host-b", labels={"x": "1"}), "127.0.0.11")
    names.set_pod("far", named("far", "other", subdomain="job"), "127.0.0.12")
    assert len(due) == 1, "changes that come together are written once"
    due.pop()()
    assert resolve(hosts, "a.job.d.svc.cluster.local") == resolve(hosts, "a") == ["127.0.0.10"]
    assert resolve(hosts, "host-b.job") == resolve(hosts, "a.job") == [], "a subdomain is the name of a Service"
    names.set_service(("d", "job"), service("job", x="1"))
    names.set_service(("other", "job"), {**service("job"), "spec": {"selector": {"y": "2"}}})
    due.pop()()
    for suffix in (".job", ".job.d", ".job.d.svc", ".job.d.svc.cluster.local"):
        assert resolve(hosts, f"a{suffix}") == ["127.0.0.10"]
        assert resolve(hosts, f"host-b{suffix}") == ["127.0.0.11"]
    for name in ("job", "job.d", "job.d.svc", "job.d.svc.cluster.local"):
        assert sorted(resolve(hosts, name)) == ["127.0.0.10", "127.0.0.11"]
    assert resolve(hosts, "host-b") == resolve(hosts, "b") == [], "without a search domain of the Service's"
    assert resolve(hosts, "far.job.other.svc") == [], "the Service there selects other pods"
    names.set_service(("other", "job"), {"metadata": {"name": "job", "namespace": "other"}, "spec": {"selector": {"z": "3"}}})
    names.set_pod("far", named("far", "other", subdomain="job", labels={"z": "3"}), "127.0.0.12")
    names.set_pod("b", None)
    due.pop()()
    assert resolve(hosts, "far.job.other") == ["127.0.0.12"]
    assert resolve(hosts, "far.job") == []
    assert resolve(hosts, "host-b.job") == []
    assert resolve(hosts, "job") == ["127.0.0.10"]


OWN = "me.job.d.svc.cluster.local"


@pytest.mark.parametrize(
    ("fields", "known"),
    [
        ({}, {"web.job", "web.job.d", "taken"}),
        ({"dnsConfig": {"searches": ["job.d.svc.cluster.local"]}}, {"web", "web.job", "web.job.d", "taken"}),
        ({"dnsPolicy": "None", "dnsConfig": {"searches": ["job.d.svc.cluster.local"]}}, {"web", "taken"}),
        ({"dnsPolicy": "Default", "dnsConfig": {"searches": ["job.d.svc.cluster.local"]}}, set()),
        ({"dnsPolicy": "Default", "subdomain": "job"}, {OWN}),
        ({"hostNetwork": True, "subdomain": "job"}, set()),
        ({"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}, {"web.job", "web.job.d", "taken"}),
    ],
)
def test_a_short_name_is_found_by_the_search_domains_of_the_pod_that_asks(
    fields: dict[str, Any], known: set[str], tmp_path: Path
) -> None:
    names = Names(lambda publish: publish())
    names.set_service(("d", "job"), service("job", x="1"))
    names.set_service(("d", "taken"), service("taken", y="1"))
    names.set_pod("web", named("web", subdomain="job", labels={"x": "1"}), "127.0.0.1")
    names.set_pod("same", named("taken", subdomain="job", labels={"x": "1"}), "127.0.0.2")
    names.set_pod("other", named("other", labels={"y": "1"}), "127.0.0.3")
    names.set_pod("me", named("me", **fields), "127.0.0.4")
    names.open("me", tmp_path / "hosts")
    assert {
        name for name in ("web", "web.job", "web.job.d", "taken", "other", OWN) if resolve(tmp_path / "hosts", name)
    } == known
    if "dnsPolicy" not in fields and known:
        assert resolve(tmp_path / "hosts", "taken") == ["127.0.0.3"], "the namespace is searched first"


def test_a_line_never_moves_while_others_come_and_go(tmp_path: Path) -> None:
    due: list[Callable[[], None]] = []
    names = Names(due.append)
    names.set_service(("d", "job"), service("job", x="1"))
    names.set_pod("me", named("me"), "127.0.0.1")
    names.set_pod("peer", named("peer", subdomain="job", labels={"x": "1"}), "127.0.0.2")
    hosts = tmp_path / "hosts"
    names.open("me", hosts)
    place = hosts.read_bytes().index(b"127.0.0.2 ")
    inode = hosts.stat().st_ino
    for turn in range(50):
        names.set_pod(f"x{turn}", named(f"pod-{turn}", subdomain="job", labels={"x": "1"}), "127.0.0.3")
        due.pop()()
        names.set_pod(f"x{turn}", None)
        due.pop()()
        assert hosts.read_bytes().index(b"127.0.0.2 ") == place
    assert hosts.stat().st_ino == inode, "it is bind-mounted: it must stay the same file"
    assert hosts.stat().st_size < 1000, "freed places are used again"


def asking(**amounts: str) -> dict[str, Any]:
    item = named("p")
    item["spec"]["containers"] = [
        {"name": "c", "resources": {"requests": {k.replace("_", "/"): v for k, v in amounts.items()}}}
    ]
    return item


TAINT = {"key": "maintenance", "value": "yes", "effect": "NoSchedule"}
CORDONED = {"unschedulable": True}
EXISTS = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}


def tolerating(*tolerations: dict[str, Any]) -> dict[str, Any]:
    return named("p", tolerations=list(tolerations))


@pytest.mark.parametrize(
    ("item", "running", "capacity", "node", "why"),
    [
        (asking(cpu="3"), [asking(cpu="2")], {"cpu": "4"}, {}, "1 Insufficient cpu."),
        (asking(cpu="2"), [asking(cpu="2")], {"cpu": "4"}, {}, ""),
        (asking(cpu="100"), [], None, {}, ""),
        (asking(gpu="1"), [], {"cpu": "4"}, {}, "1 Insufficient gpu."),
        (named("p", nodeSelector={"zone": "a"}), [], None, {}, "1 node(s) didn't match Pod's node affinity/selector."),
        (named("p", nodeSelector={"os": "linux"}), [], None, {}, ""),
        (tolerating(), [], None, CORDONED, "1 node(s) were unschedulable."),
        (tolerating(EXISTS), [], None, CORDONED, ""),
        (tolerating(), [], None, {"taints": [TAINT]}, "1 node(s) had untolerated taint(s)."),
        (tolerating(), [], None, {"taints": [{**TAINT, "effect": "NoExecute"}]}, "1 node(s) had untolerated taint(s)."),
        (tolerating({"operator": "Exists"}), [], None, {"taints": [TAINT]}, ""),
        (tolerating(TAINT), [], None, {"taints": [TAINT]}, ""),
        (tolerating({**TAINT, "effect": "NoExecute"}), [], None, {"taints": [TAINT]}, "1 node(s) had untolerated taint(s)."),
    ],
)
def test_placement(
    item: dict[str, Any], running: list[dict[str, Any]], capacity: dict[str, str] | None, node: dict[str, Any], why: str
) -> None:
    found = scheduler.unschedulable(item, running, {"metadata": {"labels": {"os": "linux"}}, "spec": node}, capacity)
    assert found == (f"0/1 nodes are available: {why}" if why else "")


async def shown(path: Path, **changes: Any) -> str:
    options = LogOptions("c", **changes)
    return b"".join([piece async for piece in read_log(path, options, 2e9, lambda: True)]).decode()


async def test_log_filters(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    stamps = [f"2026-01-01T00:00:0{second}.000000001Z" for second in range(4)]
    path.write_text("".join(f"{stamp} stdout F line {n}\n" for n, stamp in enumerate(stamps)))
    assert await shown(path) == "line 0\nline 1\nline 2\nline 3\n"
    assert await shown(path, tail_lines=2) == "line 2\nline 3\n"
    assert await shown(path, tail_lines=0) == ""
    assert await shown(path, tail_lines=1, timestamps=True) == f"{stamps[3]} line 3\n"
    assert await shown(path, since_time=1767225602.0) == "line 2\nline 3\n"
    assert await shown(path, follow=True) == "line 0\nline 1\nline 2\nline 3\n"
    assert await shown(tmp_path / "none.log") == ""
    path.write_text(f"{stamps[0]} stdout P long \n{stamps[1]} stdout F line\n{stamps[2]} stdout F next\n")
    assert await shown(path, timestamps=True) == f"{stamps[0]} long line\n{stamps[2]} next\n", "a line has one time"


async def test_a_progress_bar_is_in_the_log_before_its_line_is_complete(tmp_path: Path) -> None:
    """What another stream prints meanwhile is a line of its own."""
    path = tmp_path / "0.log"
    log = LogFile(str(path), 1 << 20)
    log.write("stderr", b"\r10%")
    assert await shown(path) == "\r10%"
    log.write("stdout", b"a line\n")
    log.write("stderr", b"\r20%\n")
    log.write("stdout", b"the end\n")
    log.close()
    assert await shown(path) == "\r10%\ra line\n\r10%\r20%\nthe end\n"
    assert await shown(path, tail_lines=3) == await shown(path), "the part is no line"
    assert await shown(path, tail_lines=1) == "the end\n"
    assert termination_message(None, path, fall_back=True).endswith("20%\nthe end")


async def test_a_log_is_followed_through_rotation(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    log = LogFile(str(path), 1000)
    log.write("stdout", b"first\n")
    seen: list[str] = []
    async for piece in read_log(path, LogOptions("c", follow=True), 2e9, lambda: len(seen) == 60):
        seen.extend(piece.decode().split())
        if len(seen) < 60:
            log.write("stdout", f"{len(seen):030d}\n".encode())
    assert seen == ["first", *(f"{number:030d}" for number in range(1, 60))]
    log.close()


def test_without_namespaces_names_and_paths_are_rewritten() -> None:
    mounts = [("/data/v1", "/etc/mpi", True), ("/data/v2", "/etc/mpi/sub", False)]
    env = {
        "MASTER_ADDR": "job-master-0.job.ns.svc",
        "HOSTS": "a.job.ns.svc.cluster.local:80,b.c.d.svc",
        "OTHER": "x.svcs",
        "P": "/etc/mpi2",
    }
    argv, fresh, cwd = fallback.rewrite(["cat", "/etc/mpi/hostfile", "--f=/etc/mpi/sub/x"], env, "/etc/mpi", mounts, "me")
    assert argv == ["cat", "/data/v1/hostfile", "--f=/data/v2/x"]
    assert cwd == "/data/v1"
    assert fresh["MASTER_ADDR"] == "127.0.0.1"
    assert fresh["HOSTS"] == "127.0.0.1:80,127.0.0.1"
    assert (fresh["OTHER"], fresh["P"]) == ("x.svcs", "/etc/mpi2")
    assert fresh["PYTHONPATH"].endswith("fallback_site")
