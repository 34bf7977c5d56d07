"""What survives: a restart, a torn tail, a kill -9."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcluster.apiserver import journal as journal_module
from localcluster.apiserver.journal import Entry, FileJournal, JournalError
from localcluster.controllers import Controllers
from tests.server.api import CRS, Api, cr, crd, pod

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"


class Disk:
    """A data directory on which servers follow each other."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / "journal"
        self._journals: list[FileJournal] = []

    def journal(self) -> FileJournal:
        self.close()
        journal = FileJournal(self.directory)
        self._journals.append(journal)
        return journal

    def start(self) -> Api:
        return Api(self.journal())

    def close(self) -> None:
        for journal in self._journals:
            journal.close()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    disk = Disk(tmp_path)
    yield disk
    disk.close()


def test_everything_comes_back(disk: Disk) -> None:
    api = disk.start()
    api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd())
    api.post(CRS, cr("a"))
    api.post(PODS, pod("p"))
    api.post(PODS, pod("gone"))
    api.delete(f"{PODS}/gone")
    rv = api.server.storage.rv
    kept = api.get(f"{PODS}/p").body
    again = disk.start()
    assert again.server.storage.rv == rv
    assert again.get(f"{PODS}/p").body == kept
    assert (again.get(PODS).names, again.get(CRS).names) == (["p"], ["a"])
    assert int(again.post(PODS, pod("q")).rv) == rv + 1


def test_a_watch_from_before_a_restart_is_told_to_list_again(disk: Disk) -> None:
    api = disk.start()
    first = api.post(PODS, pod("p")).rv
    api.post(PODS, pod("q"))
    again = disk.start()
    (event,) = again.watch(PODS, resourceVersion=first).events()
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    assert again.watch(PODS, resourceVersion=str(again.server.storage.rv)).events() == []


def test_tokens_stay_valid(disk: Disk) -> None:
    api = disk.start()
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    api.post(accounts, {"metadata": {"name": "robot"}})
    token = api.post(f"{accounts}/robot/token", {}).body["status"]["token"]
    again = disk.start()
    answer = again.send("GET", PODS, headers={"authorization": f"Bearer {token}"}, user=None)
    assert answer.code == 403


@pytest.mark.parametrize("cut", [1, 5, 11, 12, 40])
def test_a_torn_tail_loses_the_last_write_only(disk: Disk, cut: int) -> None:
    api = disk.start()
    api.post(MAPS, {"metadata": {"name": "a"}})
    whole = disk.path.stat().st_size
    api.post(MAPS, {"metadata": {"name": "b"}})
    disk.close()
    os.truncate(disk.path, whole + cut)
    again = disk.start()
    assert again.get(MAPS).names == ["a"]
    again.post(MAPS, {"metadata": {"name": "c"}})
    assert disk.start().get(MAPS).names == ["a", "c"]


def test_rubbish_at_the_end_is_cut_off(disk: Disk) -> None:
    api = disk.start()
    api.post(MAPS, {"metadata": {"name": "a"}})
    disk.close()
    with disk.path.open("ab") as file:
        file.write(b"jcJ1\x05\x00\x00\x00\x00\x00\x00\x00rubbish that is longer than it says")
    assert disk.start().get(MAPS).names == ["a"]


def test_damage_in_the_middle_is_not_papered_over(disk: Disk) -> None:
    api = disk.start()
    api.post(MAPS, {"metadata": {"name": "a"}})
    place = disk.path.stat().st_size - 20
    api.post(MAPS, {"metadata": {"name": "b"}})
    disk.close()
    data = bytearray(disk.path.read_bytes())
    data[place] ^= 0xFF
    disk.path.write_bytes(bytes(data))
    with pytest.raises(JournalError, match="is damaged at byte"):
        disk.start()


def test_compaction_keeps_content_and_version(disk: Disk) -> None:
    api = disk.start()
    api.post(MAPS, {"metadata": {"name": "a"}})
    blob = "x" * 200_000
    for number in range(60):
        assert api.patch(f"{MAPS}/a", {"data": {"x": f"{number}{blob}"}}).code == 200
    api.post(PODS, pod("gone"))
    api.delete(f"{PODS}/gone")
    rv = api.server.storage.rv
    assert disk.path.stat().st_size < 9 * 1024 * 1024
    again = disk.start()
    assert again.server.storage.rv == rv
    assert again.get(f"{MAPS}/a").body["data"]["x"] == f"59{blob}"
    assert again.get(PODS).names == []


def test_an_interrupted_compaction_leaves_the_old_log(disk: Disk) -> None:
    api = disk.start()
    api.post(MAPS, {"metadata": {"name": "a"}})
    disk.close()
    (disk.directory / "journal.new").write_bytes(b"half")
    assert disk.start().get(MAPS).names == ["a"]
    assert not (disk.directory / "journal.new").exists()


def test_two_servers_do_not_share_a_directory(disk: Disk) -> None:
    disk.journal()
    with pytest.raises(JournalError, match="is in use by another server"):
        FileJournal(disk.directory)
    disk.journal()


def test_entries_round_trip(disk: Disk) -> None:
    entries = [Entry(1, "pods", "default", "a", {"metadata": {"name": "ä\n"}}), Entry(2, "pods", "default", "a", None)]
    journal = disk.journal()
    assert list(journal.load()) == []
    for entry in entries:
        journal.append(entry)
    journal.close()
    assert list(disk.journal().load()) == entries


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """While true, the disk takes half of every write."""
    state = [False]
    write = journal_module._write

    def limited(descriptor: int, data: bytes) -> None:
        if state[0]:
            write(descriptor, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(descriptor, data)

    monkeypatch.setattr(journal_module, "_write", limited)
    yield state
    state[0] = False


def test_a_full_disk_refuses_writes_and_nothing_else(disk: Disk, full: list[bool]) -> None:
    api = disk.start()
    api.post(MAPS, {"metadata": {"name": "a"}})
    watch = api.watch(MAPS)
    rv = api.server.storage.rv
    full[0] = True
    refused = api.post(MAPS, {"metadata": {"name": "b"}})
    assert (refused.code, refused.reason) == (500, "InternalError")
    assert "no space left on device" in refused.message
    assert api.delete(f"{MAPS}/a").code == 500
    assert (api.get(MAPS).names, api.server.storage.rv, watch.events()) == (["a"], rv, [])
    full[0] = False
    assert api.post(MAPS, {"metadata": {"name": "c"}}).code == 201
    assert watch.seen() == [("ADDED", "c")]
    assert disk.start().get(MAPS).names == ["a", "c"]


def test_controllers_make_up_for_what_a_full_disk_did_not_take(disk: Disk, full: list[bool]) -> None:
    api = disk.start()
    controllers = Controllers(api.server)
    owner = api.post(MAPS, {"metadata": {"name": "owner"}}).body["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"]}
    api.post(MAPS, {"metadata": {"name": "owned", "ownerReferences": [reference]}})
    controllers.step()
    api.delete(f"{MAPS}/owner")
    full[0] = True
    due = controllers.step()
    assert due is not None
    assert "owned" in api.get(MAPS).names
    full[0] = False
    api.now = due
    controllers.step()
    assert "owned" not in api.get(MAPS).names


def test_a_compaction_without_room_leaves_the_log(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(FileJournal, "_write_new", no_room)
    monkeypatch.setattr(journal_module, "_MINIMUM", 1000)
    api = disk.start()
    for number in range(20):
        assert api.post(MAPS, {"metadata": {"name": f"m{number:02}"}}).code == 201
    assert not (disk.directory / "journal.new").exists()
    assert disk.start().get(MAPS).names == [f"m{number:02}" for number in range(20)]


WRITER = """
import sys
from collections.abc import Iterator
from pathlib import Path
from localcluster.apiserver.journal import FileJournal
from tests.server.api import Api
api = Api(FileJournal(Path(sys.argv[1])))
for number in range(100000):
    answer = api.post("/api/v1/namespaces/default/configmaps", {"metadata": {"name": f"m{number}"}})
    print(number, answer.rv, flush=True)
"""


def test_nothing_acknowledged_is_lost_by_kill_9(disk: Disk) -> None:
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(disk.directory)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if int(line.split()[0]) >= 200:
            process.send_signal(signal.SIGKILL)
            break
    # Complete lines that it printed before the signal reached it were acknowledged too.
    printed = [line, *(process.stdout.read().splitlines(keepends=True))]
    last_number, last_rv = [one for one in printed if one.endswith("\n")][-1].split()
    process.stdout.close()
    assert process.wait() == -signal.SIGKILL
    api = disk.start()
    names = set(api.get(MAPS).names)
    assert {f"m{number}" for number in range(int(last_number) + 1)} <= names
    assert api.server.storage.rv >= int(last_rv)
