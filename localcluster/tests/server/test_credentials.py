"""The administrator's token: other users of the machine can neither read it nor choose where it is written."""

import os
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from localcluster.credentials import write_secret
from localcluster.kubeconfig import KubeconfigError, written

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file to another user: run the tests as root")


def kubeconfig(path: Path) -> None:
    with written(path, "token"):
        pass


def secret(path: Path) -> None:
    write_secret(path, b"token")


WRITERS = [secret, kubeconfig]


@pytest.mark.parametrize("write", WRITERS)
@as_root
def test_a_directory_of_another_user_is_refused(write: Callable[[Path], None], tmp_path: Path) -> None:
    directory = tmp_path / ".jobcommon"
    directory.mkdir()
    os.chown(directory, NOBODY, NOBODY)
    with pytest.raises((KubeconfigError, OSError), match=r"belongs to another user .* use a directory of your own"):
        write(directory / "kubeconfig")
    assert not list(directory.iterdir())


def test_a_directory_made_for_a_kubeconfig_is_ignored_by_git_and_goes_with_it(tmp_path: Path) -> None:
    path = tmp_path / ".jobcommon/kubeconfig"
    with written(path, "token"):
        assert (path.parent / ".gitignore").read_text().endswith("\n*\n")
    assert not path.parent.exists()


@pytest.mark.parametrize("other", [".gitignore", "notes"])
def test_a_directory_with_files_of_others_stays(tmp_path: Path, other: str) -> None:
    path = tmp_path / "mine/kubeconfig"
    path.parent.mkdir()
    (path.parent / other).write_text("mine")
    with written(path, "token"):
        pass
    assert [one.name for one in path.parent.iterdir()] == [other]


@pytest.mark.parametrize("write", WRITERS)
def test_a_link_has_its_target_left_alone(write: Callable[[Path], None], tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "kubeconfig"
    target.write_text("mine")
    link.symlink_to(target)
    refused = pytest.raises(KubeconfigError, match="is a symbolic link: name the file itself")
    with refused if write is kubeconfig else nullcontext():
        write(link)
    assert target.read_text() == "mine"


@as_root
def test_a_file_of_another_user_in_the_place_of_the_kubeconfig_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text("")
    file.chmod(0o666)
    os.chown(file, NOBODY, NOBODY)
    with pytest.raises(KubeconfigError, match="belongs to another user"):
        kubeconfig(file)
    assert file.read_text() == ""


def test_drafts_that_are_there_already_are_not_written_to(tmp_path: Path) -> None:
    draft = tmp_path / f".token.{os.getpid()}"
    draft.touch(0o666)
    draft.chmod(0o666)
    secret(tmp_path / "token")
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600
    assert draft.read_bytes() == b""
