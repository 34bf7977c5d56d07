"""What survives: a restart, a full disk, a kill -9; and which directories are refused."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcluster.apiserver.journal import FileJournal, JournalError
from tests.server.api import CRS, Api, cr, crd, pod

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"


class Disk:
    """A data directory on which servers follow each other."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / "objects.sqlite"
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


def test_damage_is_not_papered_over(disk: Disk) -> None:
    api = disk.start()
    for number in range(200):
        api.post(MAPS, {"metadata": {"name": f"m{number}"}, "data": {"x": "x" * 200}})
    disk.close()
    data = bytearray(disk.path.read_bytes())
    data[8192:-4096] = b"\xff" * len(data[8192:-4096])
    disk.path.write_bytes(bytes(data))
    with pytest.raises(JournalError, match="is damaged"):
        disk.start()


def test_two_servers_do_not_share_a_directory(disk: Disk) -> None:
    disk.journal()
    with pytest.raises(JournalError, match="is in use by another server"):
        FileJournal(disk.directory)
    disk.journal()


def fill(journal: FileJournal, *, full: bool) -> None:
    """Let the database grow no further than it has, or as far as it likes."""
    (pages,) = journal._file.execute("PRAGMA page_count").fetchone()
    journal._file.execute(f"PRAGMA max_page_count = {pages if full else 1 << 30}")


def test_a_full_disk_refuses_writes_and_nothing_else(disk: Disk) -> None:
    journal = disk.journal()
    api = Api(journal)
    large = {"x": "x" * 20_000}
    api.post(MAPS, {"metadata": {"name": "a"}})
    watch = api.watch(MAPS)
    rv = api.server.storage.rv
    fill(journal, full=True)
    refused = api.post(MAPS, {"metadata": {"name": "b"}, "data": large})
    assert (refused.code, refused.reason) == (500, "InternalError")
    assert "no space left on device" in refused.message
    assert api.patch(f"{MAPS}/a", {"data": large}).code == 500
    assert (api.get(MAPS).names, api.server.storage.rv, watch.events()) == (["a"], rv, [])
    fill(journal, full=False)
    assert api.post(MAPS, {"metadata": {"name": "c"}, "data": large}).code == 201
    assert watch.seen() == [("ADDED", "c")]
    assert disk.start().get(MAPS).names == ["a", "c"]


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
